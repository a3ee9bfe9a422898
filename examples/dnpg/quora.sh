#!/usr/bin/env bash
# C-DNPG's Table 2: DNPG on paraphrases with words, without stemming. A further system is DNPG with another output
# layer: it scores the words that it generates by querying their embeddings (WEAN).
#
#   DATA=path/to/quora bash examples/dnpg/quora.sh
#   SET=twitter_url DATA=path/to/twitter_url bash examples/dnpg/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}, such as the output of
# preprocess/twitter_url.py for Twitter URL.
#
# The following settings are from the paper (Li et al., ACL 2019): the sizes, 8,000 words, at most 20 words per
# sentence, and Adam at 5e-4 for 3 epochs and then at 1e-4. The schedule of temperature and label weight is also from
# the paper, and is the default of the model. Beam 8 is from the C-DNPG table. The paper does not state the batch size,
# the clipping and the number of epochs. The best checkpoint is chosen by likelihood, because the total loss also falls
# when the weight of the labels falls.
set -euo pipefail
: "${SET:=quora}" "${DATA:=data/$SET}" "${RECIPE:=dnpg/$SET}"
: "${SYSTEMS:=dnpg dnpg_query}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=400}" "${TEST_LIMIT:=20}" \
  "${SIZES:=--phrase-dim 24 --phrase-heads 2 --sentence-dim 12 --sentence-heads 2 --separator-dim 16 --aggregator-dim 16}"
: "${EPOCHS:=10}" "${SIZES:=}" "${RATE:=5e-4,5e-4,5e-4,1e-4}" "${BATCH:=64}" "${BEAM:=8}" "${WORDS:=8000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_paraphrases

criterion=model_loss
search=(--max-pair-length 20 --length-policy truncate)
read -ra sizes <<<"$SIZES"
declare -A model=(
  [dnpg]="--arch dnpg"
  [dnpg_query]="--arch dnpg"
  [dnpg_weak]="--arch dnpg --decoder-labels weak"
)
need_systems "${!model[@]}"

remember "DATA=$(realpath "$DATA")" "SIZES=$SIZES" "WORDS=$WORDS"
prepare "$SET" --data "$DATA" --lowercase
test_of_text test
weak_labels
binarise "$WORDS" 0 --dataset-impl raw
for system in $SYSTEMS; do
  read -ra arch <<<"${model[$system]#--arch }"
  train "$system" "${arch[@]}" "${sizes[@]}" --granularity-labels "$RUN/labels" --optimizer fused_adam \
    --adam-betas '(0.9, 0.999)' --clip-norm 1 --lr "$RATE" --lr-scheduler fixed --batch-size "$BATCH" \
    --max-pair-length 20 --length-policy truncate --no-epoch-checkpoints --best-checkpoint-metric nll_loss
  generate "$system" test --beam "$BEAM" --max-len-b 20
done
samples test 20
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
  --tokenize none --preset paper:cdnpg-fixed standard
