#!/usr/bin/env bash
# C-DNPG's Table 2: Transformer and Transformer+Copy on paraphrases at the same budget, with words instead of word
# pieces. A further system is Transformer+Copy with another output layer: it scores the words that it generates by
# querying their embeddings (WEAN).
#
#   DATA=path/to/quora bash examples/copy_transformer/quora.sh
#   SET=twitter_url DATA=path/to/twitter_url bash examples/copy_transformer/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}, such as the output of
# preprocess/twitter_url.py for Twitter URL.
#
# The network has the sizes of the C-DNPG table (3 + 3 layers, 450 wide, 9 heads). As in DNPG's table, it uses 8,000
# words and at most 20 words per sentence. With word pieces, there would be no unknown words to copy. The beam is 8. The
# paper's 100,000 updates at a learning rate of 5e-5 need GPUs. SIZES, RATE and EPOCHS adapt the run to the machine,
# with the same values for all systems.
# shellcheck disable=SC2034,SC2154
set -euo pipefail
: "${SET:=quora}" "${DATA:=data/$SET}" "${RECIPE:=copy_transformer/$SET}"
: "${SYSTEMS:=transformer copy_transformer copy_transformer_query}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=400}" "${TEST_LIMIT:=20}" \
  "${SIZES:=--embed-dim 32 --ffn-dim 64 --attention-heads 2}"
: "${EPOCHS:=10}" "${SIZES:=}" "${RATE:=0.0005}" "${WARMUP:=1000}" "${BATCH:=64}" "${BEAM:=8}" "${WORDS:=8000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_paraphrases

criterion=model_loss
search=(--max-pair-length 20 --length-policy truncate)
read -ra sizes <<<"$SIZES"
declare -A model=(
  [transformer]="--arch paraphrase_transformer"
  [copy_transformer]="--arch copy_transformer"
  [copy_transformer_query]="--arch copy_transformer"
)
need_systems "${!model[@]}"

remember "DATA=$(realpath "$DATA")" "SIZES=$SIZES" "RATE=$RATE" "WARMUP=$WARMUP" "WORDS=$WORDS"
prepare "$SET" --data "$DATA" --lowercase
test_of_text test
binarise "$WORDS" 0 --dataset-impl raw
for system in $SYSTEMS; do
  read -ra arch <<<"${model[$system]#--arch }"
  train "$system" "${arch[@]}" "${sizes[@]}" --optimizer fused_adam --adam-betas '(0.9, 0.999)' --weight-decay 0.01 \
    --clip-norm 1 --lr "$RATE" --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP" --batch-size "$BATCH" \
    --max-pair-length 20 --length-policy truncate --no-epoch-checkpoints
  generate "$system" test --beam "$BEAM" --max-len-b 20
done
samples test 20
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
  --all-pairs --tokenize none --preset paper:cdnpg-fixed standard
