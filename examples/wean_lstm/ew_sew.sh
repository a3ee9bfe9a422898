#!/usr/bin/env bash
# WEAN on EW-SEW (English Wikipedia -> Simple English Wikipedia), with the settings of the paper (section 3.1).
#
#   DATA=path/to/NeuralTextSimplification/data TURK=path/to/turkcorpus bash examples/wean_lstm/ew_sew.sh
#
# DATA holds {train,dev}.{en,sen} as released with NTS. dev is the 2,000 tuning sentences of TurkCorpus, once for each
# of 8 references; the first of each is used. TURK holds the 359 test sentences and their 8 references,
# test.8turkers.tok.{norm,turk.0 ... turk.7}. Everything is lower-cased, brackets are spelt as in the references.
set -euo pipefail
: "${DATA:=data/ew_sew}" "${TURK:=data/turkcorpus}" "${SYSTEMS:=wean_lstm_ew_sew seq2seq_lstm}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_files "Set DATA to the data directory of NTS (github.com/senisioi/NeuralTextSimplification), archives unpacked." \
  "$DATA"/{train,dev}.{en,sen}
need_files "Set TURK to the directory with the 8-reference files of TurkCorpus (github.com/cocoxu/simplification)." \
  "$TURK"/test.8turkers.tok.{norm,turk.{0..7}}

if [[ $SMOKE == 1 ]]; then
  : "${EPOCHS:=1}" "${EVALUATE:=20}"
  limit=(--limit 2000 --test-limit 40)
else
  : "${EPOCHS:=50}" "${EVALUATE:=500}"
  limit=()
fi
remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")"
prepare ew_sew --train "$DATA"/train.{en,sen} --dev "$DATA"/dev.{en,sen} --turk "$TURK" --lowercase \
  --leak-key loose --drop-leaks sources "${limit[@]}"
test_of_text turk
references=("$RUN"/text/test.ref{0..7})
binarise 50000 0
validate_by_bleu "$EVALUATE" 100
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" turk --beam 5 --max-len-b 100
done
samples turk 20
score turk "${references[@]}" -- --preset paper:wean-ew-sew --tokenize none
curves "$RUN/curves.png"
