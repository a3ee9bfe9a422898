# shellcheck shell=bash disable=SC2034,SC2154
# Simplification data for the recipes of several families: source it after recipe.sh. DATA, TURK and PWKP are
# directories.

references=("$RUN"/text-turk/test.ref{0..7}) # references of the 359 sentences of TurkCorpus

# need_turk PART...: check that $TURK contains these parts of TurkCorpus (tune, test).
need_turk() {
  local part
  for part in "$@"; do
    need_files "Set TURK to the directory with the 8-reference files of TurkCorpus (github.com/cocoxu/simplification)." \
      "$TURK/$part".8turkers.tok.{norm,turk.{0..7}}
  done
}

# need_public_pairs: check the data of prepare_public_pairs, and set the variable pwkp_test.
need_public_pairs() {
  pwkp_test=$PWKP/PWKP_108016.tag.80.aner.ori.test
  need_files "Set DATA to a directory with train/valid.{src,tgt}, such as Kauchak's English / Simple Wikipedia pairs." \
    "$DATA"/{train,valid}.{src,tgt}
  need_turk tune test
  need_files "Set PWKP to the wikismall directory of the DRESS data bundle (github.com/XingxingZhang/dress)." \
    "$pwkp_test".{src,dst}
}

# prepare_public_pairs: write DATA and the tuning sentences of TurkCorpus to $RUN/text, and the test sets to
# $RUN/text-{pwkp,turk}. Training pairs whose source is a test sentence, up to case and punctuation, are dropped.
prepare_public_pairs() {
  local number train=(--train "$DATA"/train.{src,tgt}) spelling=(--lowercase --brackets)
  for number in {0..7}; do
    train+=(--train "$TURK"/tune.8turkers.tok.{norm,turk."$number"})
  done
  prepare parallel_text --drop-empty "${spelling[@]}" "${train[@]}" --valid "$DATA"/valid.{src,tgt} \
    --held-out "$pwkp_test.src" "$TURK/test.8turkers.tok.norm" --leak-key loose --drop-leaks sources
  prepare_test pwkp parallel_text "${spelling[@]}" --test "$pwkp_test".{src,dst}
  prepare_test turk multi_reference "${spelling[@]}" \
    --test "$TURK"/test.8turkers.tok.{norm,turk.{0..7}}
}

more_metrics=() # more arguments of wean-evaluate

# score_public_pairs: print samples and scores on both test sets, with `more_metrics`.
score_public_pairs() {
  samples pwkp 20
  samples turk 20
  score pwkp "$RUN/text-pwkp/test.tgt" -- --preset paper:wean-pwkp --tokenize none "${more_metrics[@]}"
  score turk "${references[@]}" -- --preset paper:wean-ew-sew --tokenize none "${more_metrics[@]}"
}

# need_ew_sew: check the data for prepare_ew_sew.
need_ew_sew() {
  need_files "Set DATA to the data directory of NTS (github.com/senisioi/NeuralTextSimplification), archives unpacked." \
    "$DATA"/{train,dev}.{en,sen}
  need_turk test
}

# prepare_ew_sew: write EW-SEW to $RUN/text and $RUN/text-turk.
prepare_ew_sew() {
  prepare ew_sew --train "$DATA"/train.{en,sen} --dev "$DATA"/dev.{en,sen} --turk "$TURK" --lowercase \
    --leak-key loose --drop-leaks sources
  test_of_text turk
}

# score_ew_sew: print samples and scores.
score_ew_sew() {
  samples turk 20
  score turk "${references[@]}" -- --preset paper:wean-ew-sew --tokenize none
}
