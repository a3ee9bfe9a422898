#!/usr/bin/env bash
# Sentence simplification on public pairs, WEAN against the Seq2seq baseline, tested on PWKP-100 and Turk-359.
#
#   DATA=path/to/simplification TURK=path/to/turkcorpus PWKP=path/to/pwkp bash examples/wean_lstm/simplification.sh
#
# Not the paper's training data: a sample of English Wikipedia -> Simple Wikipedia pairs (DATA) and the 2,000 tuning
# sentences of TurkCorpus with 8 references each (TURK) stand in for the train sets of PWKP and EW-SEW, which pwkp.sh
# and ew_sew.sh take. The settings are the paper's for both sets. Two test sets: the 100 sentences of PWKP with original
# entities, lower-cased, and the 359 of TurkCorpus with 8 references.
set -euo pipefail
: "${DATA:=data/simplification}" "${TURK:=data/turkcorpus}" "${PWKP:=data/pwkp}" "${SYSTEMS:=wean_lstm seq2seq_lstm}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
pwkp_test=PWKP_108016.tag.80.aner.ori.test
need_files "Set DATA to a directory with train/valid.{src,tgt}, such as Kauchak's English / Simple Wikipedia pairs." \
  "$DATA"/{train,valid}.{src,tgt}
need_files "Set TURK to the directory with the 8-reference files of TurkCorpus (github.com/cocoxu/simplification)." \
  "$TURK"/{tune,test}.8turkers.tok.{norm,turk.{0..7}}
need_files "Set PWKP to the wikismall directory of the DRESS data bundle (github.com/XingxingZhang/dress)." \
  "$PWKP/$pwkp_test".{src,dst}

if [[ $SMOKE == 1 ]]; then
  : "${EPOCHS:=1}" "${EVALUATE:=20}"
  limit=(--limit 2000)
  test_limit=(--limit 40)
else
  : "${EPOCHS:=5}" "${EVALUATE:=168}" # three evaluations an epoch
  limit=()
  test_limit=()
fi
remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "PWKP=$(realpath "$PWKP")"
say "note: the train set stands in for PWKP and EW-SEW, so no score below compares with the paper's"

train=(--train "$DATA"/train.{src,tgt})
references=("$RUN"/text-turk/test.ref{0..7})
for number in {0..7}; do
  train+=(--train "$TURK"/tune.8turkers.tok.{norm,turk."$number"})
done
spelling=(--lowercase --brackets)
# Training pairs whose source is a test sentence, up to case and punctuation, are left out.
prepare parallel_text --drop-empty "${spelling[@]}" "${limit[@]}" "${train[@]}" --valid "$DATA"/valid.{src,tgt} \
  --held-out "$PWKP/$pwkp_test.src" "$TURK/test.8turkers.tok.norm" --leak-key loose --drop-leaks sources
prepare_test pwkp parallel_text "${spelling[@]}" "${test_limit[@]}" --test "$PWKP/$pwkp_test".{src,dst}
prepare_test turk multi_reference "${spelling[@]}" "${test_limit[@]}" --test "$TURK"/test.8turkers.tok.{norm,turk.{0..7}}
# Words seen once become <unk>, so that <unk> itself is trained.
binarise 50000 2
validate_by_bleu "$EVALUATE" 50
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" pwkp --beam 5 --max-len-b 50
  generate "$system" turk --beam 5 --max-len-b 100
done
for set in pwkp turk; do
  samples "$set" 20
done
score pwkp "$RUN/text-pwkp/test.tgt" -- --preset paper:wean-pwkp --tokenize none
score turk "${references[@]}" -- --preset paper:wean-ew-sew --tokenize none
curves "$RUN/curves.png"
say "note: the train set stands in for PWKP and EW-SEW, so no score above compares with the paper's"
