#!/usr/bin/env bash
# WEAN's Table 2: WEAN on EW-SEW (English Wikipedia -> Simple English Wikipedia), with the settings of the paper
# (section 3.1) and beam 5. The paper does not state the beam.
#
#   DATA=path/to/NeuralTextSimplification/data TURK=path/to/turkcorpus bash examples/wean_lstm/ew_sew.sh
#
# DATA contains {train,dev}.{en,sen} as released with NTS. dev contains the 2,000 tuning sentences of TurkCorpus, once
# for each of 8 references. The first reference of each sentence is used. TURK contains the 359 test sentences and their
# 8 references, test.8turkers.tok.{norm,turk.0 ... turk.7}. All text is lower-cased, and brackets are spelt as in the
# references.
set -euo pipefail
: "${DATA:=data/ew_sew}" "${TURK:=data/turkcorpus}" "${SYSTEMS:=wean_lstm_ew_sew seq2seq_lstm}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EVALUATE:=20}" "${LIMIT:=2000}" "${TEST_LIMIT:=40}"
: "${EPOCHS:=50}" "${EVALUATE:=500}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=5}" "${WORDS:=50000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/lib/simplification.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/simplification.sh"
need_tools
need_ew_sew
need_systems {wean,seq2seq}_lstm{,_lcsts} wean_lstm_pwkp wean_lstm_ew_sew

remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "WORDS=$WORDS"
prepare_ew_sew
binarise "$WORDS" 0
validate_by_bleu "$EVALUATE" 100
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" turk --beam "$BEAM" --max-len-b 100
done
score_ew_sew
