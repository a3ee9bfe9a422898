#!/usr/bin/env bash
# WEAN's Table 4: WEAN on LCSTS (Chinese short text summarisation) by characters, with the settings of the paper (section
# 3.2). SYSTEMS may also name srb, rnn_distract and drgd.
#
#   DATA=path/to/LCSTS bash examples/wean_lstm/lcsts.sh
#
# DATA contains the released files PART_I.txt (training), PART_II.txt (validation) and PART_III.txt (test), or
# {train,valid,test}.{src,tgt}, with one text per line and its summary on the same line of .tgt. From PART_II and
# PART_III, only pairs with a score of at least 3 are used. White space is removed.
#
#   WIDTH    width of embeddings and states (default: 512 for WEAN and Seq2seq, the default sizes for the others)
#   SYSTEMS  wean_lstm_lcsts, seq2seq_lstm_lcsts; srb, rnn_distract and drgd, baselines in the paper, trained in the same way
set -euo pipefail
: "${DATA:=data/lcsts}" "${SYSTEMS:=wean_lstm_lcsts seq2seq_lstm_lcsts}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EVALUATE:=5}" "${WIDTH:=128}" "${LIMIT:=500}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=10}" "${EVALUATE:=500}" "${WIDTH:=}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=5}" "${WORDS:=4000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_lcsts
need_systems {wean,seq2seq}_lstm{,_lcsts} wean_lstm_pwkp wean_lstm_ew_sew srb rnn_distract drgd

sizes=(${WIDTH:+--embed-dim "$WIDTH" --hidden-size "$WIDTH"})
remember "DATA=$(realpath "$DATA")" "WIDTH=$WIDTH" "WORDS=$WORDS"
prepare lcsts --data "$DATA" --setting wean
test_of_text test
binarise "$WORDS" 0
validate_by_bleu "$EVALUATE" 100
for system in $SYSTEMS; do
  distances=() search=(--replace-unk --search-preset wean)
  if [[ $system == rnn_distract ]]; then
    # As the authors' search does, the search ranks hypotheses by distraction. Among weights from 0 to 10, the weight 2
    # had the best BLEU and SARI on 500 Quora pairs.
    distances=(--distract-attention 2 --distract-content 2 --distract-state 2) search=(--replace-unk)
  fi
  train "$system" "$system" "${sizes[@]}" "${distances[@]}" "${wean_optimisation[@]}" "${validation[@]}"
  generate "$system" test --beam "$BEAM" --max-len-b 100
done
samples test 20
score test "$RUN/text-test/test.tgt" -- --preset paper:wean-lcsts --lead 15 30
