#!/usr/bin/env bash
# WEAN on LCSTS (Chinese short text summarisation) by characters, with the settings of the paper (section 3.2).
#
#   DATA=path/to/LCSTS bash examples/wean_lstm/lcsts.sh
#
# DATA holds the released files PART_I.txt, PART_II.txt and PART_III.txt (train; valid and test with a score of at least
# 3), or {train,valid,test}.{src,tgt} with a text a line and its summary on the same line of .tgt. White space is left
# out.
#
#   SYSTEMS  wean_lstm_lcsts, seq2seq_lstm_lcsts; srb and rnn_distract, rows that the paper quotes, trained alike here
set -euo pipefail
: "${DATA:=data/lcsts}" "${SYSTEMS:=wean_lstm_lcsts seq2seq_lstm_lcsts}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_lcsts

if [[ $SMOKE == 1 ]]; then
  : "${EPOCHS:=1}" "${EVALUATE:=5}"
  limit=(--limit 500 --test-limit 20)
  sizes=(--embed-dim 128 --hidden-size 128)
else
  : "${EPOCHS:=10}" "${EVALUATE:=500}"
  limit=()
  sizes=()
fi
remember "DATA=$(realpath "$DATA")"
prepare lcsts --data "$DATA" --setting wean "${limit[@]}"
test_of_text test
binarise 4000 0
validate_by_bleu "$EVALUATE" 100
for system in $SYSTEMS; do
  train "$system" "$system" "${sizes[@]}" "${wean_optimisation[@]}" "${validation[@]}"
  generate "$system" test --beam 5 --max-len-b 100
done
samples test 20
score test "$RUN/text-test/test.tgt" -- --preset paper:wean-lcsts
