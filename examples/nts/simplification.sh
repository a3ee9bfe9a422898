#!/usr/bin/env bash
# NTS, NTS-w2v and EncDecA beside WEAN on public simplification pairs, tested on PWKP-100 and Turk-359.
#
#   DATA=path/to/simplification TURK=path/to/turkcorpus PWKP=path/to/pwkp bash examples/nts/simplification.sh
#
# Not the papers' training data: that of examples/wean_lstm/simplification.sh, which says where it is to be had. All
# systems make EPOCHS passes over it. Words seen less than THRESHOLD times are <unk>. Sizes and word vectors: see
# systems.sh.
set -euo pipefail
: "${DATA:=data/simplification}" "${TURK:=data/turkcorpus}" "${PWKP:=data/pwkp}"
: "${SYSTEMS:=nts nts_w2v enc_dec_a wean_lstm}" "${THRESHOLD:=2}"
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
  : "${EPOCHS:=1}"
  limit=(--limit 1000)
  test_limit=(--limit 20)
else
  : "${EPOCHS:=15}"
  limit=()
  test_limit=()
fi
# shellcheck source=examples/nts/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
check_systems
remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "PWKP=$(realpath "$PWKP")" "SIZE=$SIZE" \
  "WORD2VEC=$WORD2VEC" "GLOVE=$GLOVE" "CUTOFF=$CUTOFF" "THRESHOLD=$THRESHOLD"
say "note: the train set stands in for those of the papers, so no score below compares with their tables"

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
prepare_test turk multi_reference "${spelling[@]}" "${test_limit[@]}" \
  --test "$TURK"/test.8turkers.tok.{norm,turk.{0..7}}
# Some words have to be <unk> in training, so that <unk> itself is trained.
train_all 50000 "$THRESHOLD"
for system in $SYSTEMS; do
  settings "$system"
  generate "$system" pwkp --beam 5 --max-len-b 50
  generate "$system" turk --beam 5 --max-len-b 100
done
curves "$RUN/curves.png" ppl
rerank_all pwkp 50
rerank_all turk 100
SYSTEMS=$(with_reranked)
for set in pwkp turk; do
  samples "$set" 20
done
score pwkp "$RUN/text-pwkp/test.tgt" -- --preset paper:wean-pwkp --tokenize none
score turk "${references[@]}" -- --preset paper:wean-ew-sew --tokenize none
say "note: the train set stands in for those of the papers, so no score above compares with their tables"
