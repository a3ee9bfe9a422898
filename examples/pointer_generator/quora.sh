#!/usr/bin/env bash
# C-DNPG's Table 2: Pointer-generator on Quora duplicate questions, with words instead of word pieces.
#
#   DATA=path/to/quora bash examples/pointer_generator/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}. The settings follow the
# paraphrase literature (Li et al., EMNLP 2018, baseline "Pointer-Generator"): 5,000 words, at most 20 per side, batch
# 80, Adagrad 0.1 from an accumulator of 0.1, clip 2. Sizes, initial weights and beam 4 are from See et al. (ACL 2017).
#
# A system with _query scores the words that it generates by querying their embeddings (WEAN).
set -euo pipefail
: "${DATA:=data/quora}" "${SYSTEMS:=pointer_generator rnnsearch}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=400}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=10}" "${RATE:=0.1}" "${BATCH:=80}" "${BEAM:=4}" "${WORDS:=5000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_quora
need_systems pointer_generator{,_coverage,_see2017}{,_query} rnnsearch{,_query}

criterion=model_loss
search=(--max-pair-length 20 --length-policy truncate)

remember "DATA=$(realpath "$DATA")" "WORDS=$WORDS"
prepare quora --data "$DATA" --lowercase
test_of_text test
binarise "$WORDS" 0 --dataset-impl raw
for system in $SYSTEMS; do
  train "$system" "${system%_query}" --optimizer adagrad_accumulator --initial-accumulator-value 0.1 --lr "$RATE" \
    --clip-norm 2 --batch-size "$BATCH" --max-pair-length 20 --length-policy truncate --no-epoch-checkpoints
  generate "$system" test --beam "$BEAM" --max-len-b 20
done
samples test 20
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
  --tokenize none --preset paper:cdnpg-fixed standard
