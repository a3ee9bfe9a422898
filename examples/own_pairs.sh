#!/usr/bin/env bash
# Train a model on your own sentence pairs so that it rewrites plain text, and compare it with a baseline. The recipe
# ends with scores and a report. With topics and essays, train a model that writes an essay about topics.
#
#   DATA=pairs.csv bash examples/own_pairs.sh
#   TASK=essay DATA=essays.csv bash examples/own_pairs.sh
#
# DATA is a table with both sides (CSV, TSV, JSON lines, a folder that Hugging Face `datasets` saved, ...), or two text
# files ("mine.src mine.tgt"). The recipe has these variables in addition to those of every recipe:
#
#   TASK         pairs (default), or essay: topics between spaces, commas or semicolons, and an essay
#   COLUMNS=a,b  source and target column by name or number (default: the only two); further names are columns with
#                further references
#   HEADER       yes or no: whether the first row has the names of the columns (default: a guess, which is printed)
#   TEST, VALID  number of test and of validation pairs, or files with them in the form of DATA (default: 5 %, at most 1,000)
#   SPLIT_SEED   seed of the draw of the splits (default: 1); SEED and SEEDS are only seeds of the trainings
#   BASELINE     arch that the others are compared with (default: seq2seq_lstm; for essays mta_lstm)
#   ARCH         archs to train in addition to the baseline (default: copynet below 50,000 pairs, otherwise wean_lstm):
#                every arch of sentence pairs except DNPG and FSET, such as wean_lstm, enc_dec_a, pointer_generator,
#                paraphrase_transformer; for essays essay_transformer_small (default),
#                essay_transformer, mta_lstm, tat_lstm, tav_lstm, sc_lstm
#   CASE         truecase (default), lowercase or keep (default for essays)
#   UNIT         joiner (default): words, with marks from which the text is restored; moses, words, characters, jieba
#   BPE          merges of byte pair encoding (default: 0 = whole words)
#   LANGUAGE     language of UNIT=moses, two letters (default: en)
#   WIDTH, EPOCHS, RATE  width of embeddings and layers, epochs, learning rate (default: by the number of pairs)
#   SMOKE=1      trial run: 2 epochs, at most 400 training and validation pairs, and 20 test sentences
#   FROM         model folder or checkpoint to continue from, which uses wean-train
#   OLD_TEST     test set of the model in FROM, as in OLD_TEST="old.src old.tgt" (default: the one in the run of the model)
#
# Its result is the folder $RUN/model of the first ARCH, for wean-generate, wean-inspect and wean_fairseq.load.
set -euo pipefail
shopt -u checkwinsize # otherwise bash sets COLUMNS to the width of the terminal
RECIPE=own_pairs${FROM:+_tuned}
not_with_FROM=''
for name in BASELINE SYSTEMS CASE BPE UNIT SEEDS SBATCH TRAIN_FLAGS RATES DROPOUTS TRY_EPOCHS TOKENS EVALUATE TEST_LIMIT; do
  [[ -z ${!name:-} ]] || not_with_FROM+=" $name"
done
if [[ ${TASK:=pairs} == essay ]]; then
  RECIPE=own_essays${FROM:+_tuned}
  : "${BASELINE:=mta_lstm}" "${CASE:=keep}"
fi
: "${BASELINE:=seq2seq_lstm}" "${CASE:=truecase}" "${BPE:=0}" "${UNIT:=joiner}" "${SPLIT_SEED:=1}" "${HEADER:=}"
: "${ARCH:=}" "${TEST:=}" "${VALID:=}" "${COLUMNS:=}" "${LANGUAGE:=}"
[[ ${SMOKE:-0} != 1 ]] || : "${LIMIT:=400}" "${TEST_LIMIT:=20}"
[[ ${SMOKE:-0} != 1 || -z ${FROM:-} ]] || : "${EPOCHS:=2}"
unwanted=${SYSTEMS:-} SYSTEMS=''
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/recipe.sh"
need_tools

# defaults WHAT ...: print default values, which are the same as in wean-train.
defaults() { python -P -m wean_fairseq.training.defaults "$@"; }

# --- settings ---------------------------------------------------------------------------------------------------------

[[ $TASK == @(pairs|essay) ]] || die "TASK must be pairs or essay, but is $TASK."
archs=$(defaults archs "$TASK")
[[ -z $unwanted ]] || die "SYSTEMS is not a setting of own_pairs: give ARCH, one or several, and BASELINE."
need_each BASELINE "$BASELINE" "$archs"
need_each ARCH "$ARCH" "$archs"
need_each CASE "$CASE" "truecase lowercase keep"
need_each UNIT "$UNIT" "joiner moses words characters jieba"
need_each HEADER "$HEADER" "yes no"
for name in BASELINE CASE UNIT HEADER; do
  [[ ${!name} != *' '* ]] || die "$name takes one value, but is ${!name}: choose one of them."
done
[[ $UNIT != characters ]] || ((BPE == 0)) || die "BPE splits words, and UNIT=characters has none: leave BPE out."
# A terminal may set COLUMNS=80 and the locale may set LANGUAGE=en_US:en. These values do not come from the user.
[[ ! $COLUMNS =~ ^[0-9]*$ ]] || COLUMNS=''
[[ -z $COLUMNS || $COLUMNS == *,* ]] || die "COLUMNS must name two columns or more, such as a,b, but is $COLUMNS."
[[ $LANGUAGE != *[_:@.]* && $LANGUAGE != C ]] || LANGUAGE=''
[[ $LANGUAGE =~ ^([a-z]{2,3})?$ ]] || die "LANGUAGE must be two letters, such as en or de, but is $LANGUAGE."
if [[ " $BASELINE $ARCH" == *_transformer* ]]; then
  ((${WIDTH:-4} % 4 == 0)) || die "WIDTH must be a multiple of 4, the attention heads of Transformers, but is $WIDTH."
fi

# split_flags FLAG...: split TRAIN_FLAGS into the options of BERT in `bert`, which decoding also needs, and the others
# in `other_flags`. Only the systems in ARCH use BERT. The baseline is trained without BERT.
bert=() other_flags=''
split_flags() {
  while (($#)); do
    case $1 in
      --bert=* | --bert-cache=*) bert+=("${1%%=*}" "${1#*=}") ;;
      --bert | --bert-cache)
        (($# > 1)) || die "TRAIN_FLAGS ends with $1: give it a directory."
        bert+=("$1" "$2")
        shift
        ;;
      *) other_flags+=" $1" ;;
    esac
    shift
  done
}

read -ra flags <<<"${TRAIN_FLAGS:-}"
split_flags "${flags[@]}"
if ((${#bert[@]})); then
  readers=$(defaults archs bert)
  for arch in ${ARCH:-none}; do
    [[ " $readers " == *" $arch "* ]] || die "the --bert of TRAIN_FLAGS is for $readers: set ARCH to one or both."
  done
  [[ ${bert[0]} != --bert || -d ${bert[1]} ]] || die "there is no BERT directory ${bert[1]}: give --bert a local transformers directory."
fi

# need_tables HINT: check the array `files` like `need_files`. A folder in this array is a saved data set of Hugging
# Face.
need_tables() {
  local path inside
  for path in "${files[@]}"; do
    inside=("$path")
    [[ ! -f $path/state.json && ! -f $path/dataset_dict.json ]] || mapfile -t inside < <(find "$path" -name '*.arrow' | LC_ALL=C sort)
    need_files "$1" "${inside[@]}"
  done
}

# own_split NAME OPTION: add OPTION to `text`, with the value of the variable NAME (a number of pairs, or files).
own_split() {
  [[ -n ${!1} ]] || return 0
  files_of "$1"
  [[ ${!1} =~ ^[1-9][0-9]{0,8}$ ]] ||
    need_tables "Set $1 to a number of pairs, or to files in the form of DATA."
  text+=("$2" "${files[@]}")
}

# continue_model: continue the training of FROM with wean-train. The result is $RUN/model, and its work folder is $RUN.
continue_model() {
  local name options=()
  [[ -z $not_with_FROM ]] || die "with FROM the settings of the model are used again: leave out$not_with_FROM."
  for name in COLUMNS HEADER TEST VALID SPLIT_SEED ARCH WIDTH EPOCHS RATE PATIENCE SEED LIMIT OLD_TEST; do
    [[ -n ${!name:-} ]] || continue
    files=("${!name}")
    [[ $name != @(TEST|VALID|OLD_TEST) ]] || files_of "$name"
    options+=("--$(tr '[:upper:]_' '[:lower:]-' <<<"$name")" "${files[@]}")
  done
  ((GPUS > 0)) || options+=(--device cpu)
  options+=(--task "$TASK" --processes "$(processes)" "--search=${SEARCH_FLAGS:-}")
  files_of DATA
  exec python -P -m wean_fairseq.training.cli "${files[@]}" --from "$FROM" --work "$RUN" --output "$RUN/model" "${options[@]}"
}

[[ -n ${DATA:-} ]] || die "set DATA to your pairs: a table with both sides, or two text files."
[[ -z ${FROM:-} ]] || continue_model
[[ -z ${OLD_TEST:-} ]] || die "OLD_TEST is the test set of the model in FROM: set FROM, or leave OLD_TEST out."
files_of DATA
need_tables "Set DATA to a table with both sides, or to two text files."
data=$(realpath -- "${files[@]}" | paste -sd ' ')
text=(--data "${files[@]}" --unit "$UNIT" --bpe "$BPE" --seed "$SPLIT_SEED" --drop-leaks pairs)
own_split TEST --test
own_split VALID --valid
[[ -z $HEADER ]] || text+=(--header "$HEADER")
[[ -z $COLUMNS ]] || text+=(--columns "$COLUMNS")
[[ -z $LANGUAGE ]] || text+=(--language "$LANGUAGE")
[[ $CASE == keep ]] || text+=("--$CASE")
[[ $TASK == pairs ]] || text+=(--topics) task=topic_essay

# choose_defaults PAIRS: set WIDTH, EPOCHS, RATE and ARCH to defaults for this number of pairs, unless they are given.
choose_defaults() {
  local width epochs rate arch
  read -r width epochs rate arch < <(defaults sizes "$1" "$TASK")
  [[ $SMOKE != 1 ]] || epochs=2
  : "${WIDTH:=$width}" "${EPOCHS:=$epochs}" "${RATE:=$rate}" "${ARCH:=$arch}"
}

# settings SYSTEM: set the criterion, and the arguments `optimisation`, `search` and `metrics` of a system.
settings() {
  local lines
  lines=$(defaults options "$1" "$WIDTH" "$RATE" "$RUN/text")
  criterion=$(sed -n 's/^criterion //p' <<<"$lines")
  mapfile -t optimisation < <(sed -n 's/^training //p' <<<"$lines")
  mapfile -t search < <(sed -n 's/^search //p' <<<"$lines")
  mapfile -t metrics < <(sed -n 's/^score //p' <<<"$lines")
  system_flags=$other_flags
  if [[ " $ARCH " == *" $1 "* ]]; then
    system_flags=${TRAIN_FLAGS:-}
    search+=("${bert[@]}")
  fi
}

# --- data: the same for all seeds and systems ---------------------------------------------------------------------------

of_seed=$RUN RUN=$TABLE tasks=()
[[ $TASK == pairs ]] || tasks=("TASK=$TASK")
remember_data "DATA=$data" ${COLUMNS:+"COLUMNS=$COLUMNS"} ${HEADER:+"HEADER=$HEADER"} ${TEST:+"TEST=$TEST"} \
  ${VALID:+"VALID=$VALID"} "SPLIT_SEED=$SPLIT_SEED" "CASE=$CASE" "BPE=$BPE" "UNIT=$UNIT" ${LANGUAGE:+"LANGUAGE=$LANGUAGE"} \
  "${tasks[@]}"
prepared='.' prepare own_pairs "${text[@]}"
test_of_text test
raw_test_set
read -r words least < <(defaults dictionary "$BPE")
binarise "$words" "$least" --dataset-impl raw
RUN=$of_seed
share_data

# --- systems --------------------------------------------------------------------------------------------------------

choose_defaults "$(wc -l <"$RUN/text/train.src")"
# a JOB has only one system
: "${SYSTEMS:=$(tr ' ' '\n' <<<"$BASELINE $ARCH" | awk 'NF && !seen[$0]++' | paste -sd ' ')}"
for system in $SYSTEMS; do # check all systems before the first training
  settings "$system"
  check_training "$system" "$system" "${optimisation[@]}"
done
for system in $SYSTEMS; do
  settings "$system"
  train "$system" "$system" "${optimisation[@]}"
  generate "$system" test
done
[[ -z ${JOB:-} ]] || exit 0

# The scores also include systems that were trained here before, with the same epochs and search.
for system in ${archs:+$archs}; do
  [[ -n $SEEDS || " $SYSTEMS " == *" $system "* || ! -f $RUN/$system/checkpoint_best.pt ]] && continue
  settings "$system"
  if decoded "$system" test && (($(trained_epochs "$system") >= EPOCHS)); then
    SYSTEMS+=" $system"
  fi
done

# --- scores, report and model -----------------------------------------------------------------------------------------

# shellcheck disable=SC2034 # recipe.sh reads it
continue_with=$(same_command EPOCHS "$((2 * EPOCHS))")
restore_outputs test
samples test 20
[[ $CASE != lowercase ]] || metrics+=(--lowercase)
mapfile -t references < <(files_like "$RUN/plain-test" 'test.tgt*')
score test "${references[@]}" -- "${metrics[@]}"
number=0
for system in $ARCH; do
  folder=$RUN/model$( ((number == 0)) || printf -- '-%s' "$system")
  number=$((number + 1))
  export_model "$system" "$folder"
done
[[ $RECIPE_STAGE != score ]] || exit 0 # the process of the first seed writes the report on all seeds
runs=("$RUN")
[[ -z $SEEDS ]] || read -ra runs <<<"$SEEDS"
tool wean-report "${runs[@]/#/${SEEDS:+$TABLE/seed}}" --output "$TABLE/report" >"$TABLE/report.log"
say "a page about all systems: $TABLE/report/report.html"
say "the model, to be used by one of these:"
texts='sentences.txt --output rewritten.txt'
[[ $TASK == pairs ]] || texts='topics.txt --output essays.txt'
printf '    wean-generate --model %q --input %s\n' "$RUN/model" "$texts" | printable
printf '    python -P -c '\''import sys, wean_fairseq; print(wean_fairseq.load(sys.argv[1]).generate("..."))'\'' %q\n' \
  "$RUN/model" | printable
