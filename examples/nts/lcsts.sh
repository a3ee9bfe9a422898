#!/usr/bin/env bash
# WEAN's Table 4: RNN and RNN-context on LCSTS (Hu et al., EMNLP 2015), by characters or words, with the sizes of CopyNet's
# paper.
#
#   DATA=path/to/LCSTS bash examples/nts/lcsts.sh
#
# DATA is the same as for examples/wean_lstm/lcsts.sh. UNIT is characters (rows RNN and RNN-cont, with 4,000 characters
# as in WEAN) or jieba (rows RNN-W and RNN-cont-W, with words). Hu et al. train GRUs with AdaDelta. Their sizes could
# not be checked. Therefore these systems are Enc-Dec and RNNSearch with the sizes of the CopyNet paper for LCSTS
# (embeddings 350, 500 units, beam 10).
set -euo pipefail
: "${DATA:=data/lcsts}" "${SYSTEMS:=enc_dec_lcsts rnnsearch_lcsts}" "${UNIT:=characters}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EMBED_DIM:=32}" "${HIDDEN_SIZE:=48}" "${LIMIT:=400}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=10}" "${EMBED_DIM:=}" "${HIDDEN_SIZE:=}" "${RATE:=1}" "${BATCH:=64}" "${BEAM:=10}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_lcsts
need_systems {enc_dec,rnnsearch}{,_lcsts}

case $UNIT in
  characters) words=4000 longest=100 ;;
  jieba) words=50000 longest=50 ;;
  *) die "UNIT must be characters or jieba, but is $UNIT." ;;
esac
# By default, the arch has its sizes from the paper.
sizes=(${EMBED_DIM:+--embed-dim "$EMBED_DIM"} ${HIDDEN_SIZE:+--hidden-size "$HIDDEN_SIZE"})
# shellcheck disable=SC2034 # recipe.sh reads both
criterion=model_loss search=(--search-preset copynet --oov-slots 0)
remember "DATA=$(realpath "$DATA")" "UNIT=$UNIT" "EMBED_DIM=$EMBED_DIM" "HIDDEN_SIZE=$HIDDEN_SIZE"
prepare lcsts --data "$DATA" --setting wean --unit "$UNIT"
test_of_text test
binarise "$words" 0
for system in $SYSTEMS; do
  train "$system" "$system" "${sizes[@]}" --optimizer adadelta --lr "$RATE" \
    --clip-norm 5 --batch-size "$BATCH" --no-epoch-checkpoints --oov-slots 0
  generate "$system" test --beam "$BEAM" --max-len-b "$longest"
done
samples test 20
score test "$RUN/text/test.tgt" -- --preset paper:wean-lcsts
