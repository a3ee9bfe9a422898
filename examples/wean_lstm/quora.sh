#!/usr/bin/env bash
# WEAN against the Seq2seq baseline on Quora duplicate questions (paraphrases).
#
#   DATA=path/to/quora bash examples/wean_lstm/quora.sh
#
# DATA holds train.src, train.tgt, valid.src, ... with a question a line and its duplicate on the same line of .tgt.
# Not in the paper: its settings for PWKP are used (2 layers, 256 wide, dropout 0.4, Adam 0.001, clip 5, batch 64).
set -euo pipefail
: "${DATA:=data/quora}" "${SYSTEMS:=wean_lstm seq2seq_lstm}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_files "Set DATA to a directory with train/valid/test.{src,tgt}, made from the public Quora question pairs." \
  "$DATA"/{train,valid,test}.{src,tgt}

if [[ $SMOKE == 1 ]]; then
  : "${EPOCHS:=1}" "${EVALUATE:=50}"
  limit=(--limit 4000)
  test_limit=(--limit 200)
else
  : "${EPOCHS:=4}" "${EVALUATE:=390}"
  limit=()
  test_limit=()
fi

remember "DATA=$(realpath "$DATA")"
prepare --lowercase "${limit[@]}" --train "$DATA"/train.{src,tgt} --valid "$DATA"/valid.{src,tgt}
prepare_test test "$DATA"/test.{src,tgt} --lowercase "${test_limit[@]}"
# Words seen once become <unk>, so that <unk> itself is trained.
binarise 50000 2
validate_by_bleu "$EVALUATE" 50
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" test --beam 5 --max-len-b 50
done
samples test 20
score test "$RUN/text-test/test.tgt" -- --tokenize none --metric bleu ibleu self-bleu rouge-l copy-rate length-ratio
curves "$RUN/curves.png"
