#!/usr/bin/env bash
# WEAN against the Seq2seq baseline on public simplification pairs, tested on PWKP-100 and Turk-359. The paper uses
# other training data.
#
#   DATA=path/to/simplification TURK=path/to/turkcorpus PWKP=path/to/pwkp bash examples/wean_lstm/simplification.sh
#
# The training data differs from the paper: a sample of English Wikipedia -> Simple Wikipedia pairs (DATA) and the 2,000
# tuning sentences of TurkCorpus with 8 references each (TURK) replace the training sets of PWKP and EW-SEW, which
# pwkp.sh and ew_sew.sh use. The settings are those that the paper uses for both sets. The two test sets are the 100
# sentences of PWKP with original entities, lower-cased, and the 359 sentences of TurkCorpus with 8 references.
set -euo pipefail
: "${DATA:=data/simplification}" "${TURK:=data/turkcorpus}" "${PWKP:=data/pwkp}" "${SYSTEMS:=wean_lstm seq2seq_lstm}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EVALUATE:=20}" "${LIMIT:=2000}" "${TEST_LIMIT:=40}"
# The model is evaluated three times per epoch. Words that occur fewer than THRESHOLD times become <unk>, so that the
# embedding of <unk> is trained.
: "${EPOCHS:=5}" "${EVALUATE:=168}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=5}" "${WORDS:=50000}" "${THRESHOLD:=2}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/lib/simplification.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/simplification.sh"
need_tools
need_public_pairs
need_systems {wean,seq2seq}_lstm{,_lcsts} wean_lstm_pwkp wean_lstm_ew_sew

remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "PWKP=$(realpath "$PWKP")" "WORDS=$WORDS" \
  "THRESHOLD=$THRESHOLD"
say "note: the training set replaces PWKP and EW-SEW, so no score below compares with the paper's"

prepare_public_pairs
binarise "$WORDS" "$THRESHOLD"
validate_by_bleu "$EVALUATE" 50
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" pwkp --beam "$BEAM" --max-len-b 50
  generate "$system" turk --beam "$BEAM" --max-len-b 100
done
score_public_pairs
say "note: the training set replaces PWKP and EW-SEW, so no score above compares with the paper's"
