# shellcheck shell=bash disable=SC2153,SC2154
# Scoring for recipe.sh, with readable outputs, scores, samples and curves.

# without_pieces SET: join word pieces, and write $RUN/plain-SET/test.{src,tgt} and $RUN/SYSTEM/SET.txt of all systems.
# `samples` and `score` use these files from then on.
without_pieces() {
  local set=$1 side
  [[ -z ${JOB:-} ]] || return 0
  mkdir -p "$RUN/plain-$set"
  for side in src tgt; do
    tool python "$ROOT/preprocess/undo_text.py" --prepared "$RUN/text" --input "$RUN/text-$set/test.$side" \
      --output "$RUN/plain-$set/test.$side" --overwrite
  done
  restore_outputs "$set"
}

# restore_outputs SET: write the outputs of all systems as plain text to $RUN/SYSTEM/SET.txt.
restore_outputs() {
  local system
  for system in $SYSTEMS; do
    tool python "$ROOT/preprocess/undo_text.py" --prepared "$RUN/text" --generated "$RUN/$system/$1.log" \
      --output "$RUN/$system/$1.txt" --overwrite
  done
}

# raw_test_set: write the user's own test sentences, unchanged from the table, to $RUN/plain-test. `samples` and `score`
# use them from then on.
raw_test_set() {
  local files file side
  mkdir -p "$RUN/plain-test"
  for side in src tgt; do
    mapfile -t files < <(files_like "$RUN/text" "test.raw.$side*")
    ((${#files[@]})) || die "$RUN/text has no test.raw.$side, as texts of earlier versions: set RUN to another directory."
    for file in "${files[@]##*/}"; do
      link_inside "../text/$file" "$RUN/plain-test/${file/.raw/}"
    done
  done
}

# read_text SET: print the directory of SET's readable text.
read_text() {
  if [[ -d $RUN/plain-$1 ]]; then printf '%s' "$RUN/plain-$1"; else printf '%s' "$RUN/text-$1"; fi
}

# outputs SET: print the arguments that name every system's outputs on SET, as plain text if it exists, otherwise as the
# log.
outputs() {
  local system
  for system in $SYSTEMS; do
    if [[ -f $RUN/$system/$1.txt ]]; then
      printf '%s\n' --hyp "$system=$RUN/$system/$1.txt"
    else
      printf '%s\n' --generated "$system=$RUN/$system/$1.log"
    fi
  done
}

# score SET REFERENCES... -- [ARGUMENTS...]: score every system's output on SET against raw references, and draw the
# curves of their trainings. With several SEEDS, also score all seeds together, with mean, standard deviation and one
# significance test, if their test sets are equal. Test sets that are generated from a seed differ.
score() {
  local set=$1 references=() systems=() inside=${RUN#"$TABLE/seed$SEED"} seed side together role=--src
  [[ -z ${JOB:-} ]] || return 0
  shift
  while (($# > 0)) && [[ $1 != -- ]]; do
    references+=("$1")
    shift
  done
  shift || true
  [[ $task != topic_essay ]] || role=--topics
  set -- "$role" "$(read_text "$set")/test.src" --ref "${references[@]}" "$@"
  mapfile -t systems < <(outputs "$set")
  say "scores on $set, with paired tests (also in $RUN/$set.json)"
  tool wean-evaluate "${systems[@]}" "$@" --json "$RUN/$set.json" --markdown "$RUN/$set.md" --overwrite --decoded
  [[ $SMOKE != 1 ]] || say "SMOKE=1: these scores mean nothing"
  curves
  [[ $SEEDS == *' '* && -z $RECIPE_STAGE ]] || return 0
  together=$TABLE$inside
  for seed in $SEEDS; do
    for side in src tgt; do
      if ! cmp -s "$(read_text "$set")/test.$side" "$(RUN=$TABLE/seed$seed$inside read_text "$set")/test.$side"; then
        say "the seeds have different test sets: their scores are in $TABLE/seed*, without a common table"
        return 0
      fi
    done
  done
  mkdir -p "$together"
  mapfile -t systems < <(for seed in $SEEDS; do RUN=$TABLE/seed$seed$inside outputs "$set"; done)
  say "scores of the seeds $SEEDS together (also in $together/$set.json)"
  tool wean-evaluate "${systems[@]}" "$@" --json "$together/$set.json" --markdown "$together/$set.md" --overwrite --decoded
}

# known_sentences SET: write a file that marks every pair of SET as "seen" if one of its sentences is in the training
# text, otherwise as "unseen", to $RUN/text-SET/test.known. Questions and tweets occur in several pairs, and pairs with
# seen sentences are easier.
known_sentences() {
  local text=$RUN/text-$1
  awk -F '\t' 'NR == FNR { seen[$1]; seen[$2]; next } { print ($1 in seen || $2 in seen) ? "seen" : "unseen" }' \
    <(paste "$RUN"/text/train.{src,tgt}) <(paste "$text"/test.{src,tgt}) >"$text/test.known"
}

# samples SET NUMBER: write some sources, references and outputs to $RUN/SET.samples.txt
samples() {
  local systems=()
  [[ -z ${JOB:-} ]] || return 0
  mapfile -t systems < <(outputs "$1")
  tool python "$LIB/samples.py" "${systems[@]}" --src "$(read_text "$1")/test.src" --ref "$(read_text "$1")/test.tgt" \
    --number "$2" >"$RUN/$1.samples.txt"
  say "$2 outputs to read: $RUN/$1.samples.txt"
}

# curves: plot the validation curves of all trainings in one figure, $RUN/curves.png, and write the course of each
# training to $RUN/trainings.json, which wean-evaluate record stores.
curves() {
  local systems=() logs=() system sentence sentences metric=nll_loss
  [[ -z ${JOB:-} ]] || return 0
  for system in $SYSTEMS; do # reranked outputs of another system have no training
    [[ -f $RUN/$system/command || -d $RUN/$system/tries ]] || continue
    systems+=("$system") logs+=("$system=$RUN/$system/train.log")
    ! grep -q "^epoch .* valid on .* | bleu " "$RUN/$system/train.log" || metric=bleu
  done
  ((${#systems[@]} > 0)) || return 0
  tool wean-plot curves "${logs[@]}" --output "$RUN/curves" --overwrite --metric "$metric"
  sentences=$(tool python -P -m wean_fairseq.training.trainings describe "$RUN" "${systems[@]}" ${continue_with:+--continue-with "$continue_with"})
  [[ -z $sentences ]] || while IFS= read -r sentence; do say "$sentence"; done <<<"$sentences"
}
