# shellcheck shell=bash disable=SC2153
# Common part of the recipes. A recipe sources this file, sets its variables and calls its steps. A step is skipped if
# its output is complete, so an interrupted recipe continues when it is started again.
#
# Variables that every recipe takes from the environment:
#
#   DATA, TURK, PWKP  location of the data. If it is missing, the recipe says where to get it
#   RUN      output directory (default: runs/<family>/<recipe>)
#   SYSTEMS  systems to train and compare (default: those of the paper, with its baselines)
#   EPOCHS   passes over the training data (default: the paper's). A larger value continues a finished training
#   PATIENCE  validations without improvement after which a training ends
#   RATES, DROPOUTS  values that every system tries (own = the recipe's). The best on validation is kept. All are recorded
#   RATES_<system>  the rates of one system, as in RATES_pointer_generator="0.05 0.1 0.2" (default: RATES)
#   TRY_EPOCHS  epochs after which the best of these values is chosen (default: EPOCHS). Only that training continues
#   SEED     random seed (default: 1)
#   SEEDS    several seeds, each in RUN/seed<N>. If they share the test set, their scores are reported together, as mean
#            and deviation
#   JOBS     systems and seeds trained at a time, with one core or GPU each (default: 1). Logs are in RUN/jobs
#   GPUS     number of GPUs (default: those found); 0 = CPU. With SBATCH, 1 = one per job
#   PROCESSES  processes of one training, each with its own batches, also on a CPU (default: GPUS, or one)
#   SBATCH   file to write the trainings to as a Slurm job array, instead of running them
#   TRAIN_FLAGS  more fairseq-train options for every system, as in TRAIN_FLAGS="--lr 0.0005"
#   SEARCH_FLAGS  more fairseq-generate options for every system. Changed options decode again
#   EVALUATE  updates between validations (default: 500, fewer on small data)
#   TOKENS   batch size in tokens of the longer side, padding included (default: the batch is counted in pairs)
#   LIMIT, TEST_LIMIT  maximum number of training and of validation pairs, and of test sentences
#   GENERATE  arguments of the generator, for generated data
#   SMOKE=1  trial run in a few minutes on a CPU, with the LIMIT, TEST_LIMIT and EPOCHS that are first in the recipe
#   RATE, BATCH, BEAM, WORDS, DROPOUT  learning rate, pairs per batch, beam, dictionary words, dropout (some recipes)
#   WIDTH, EMBED_DIM, HIDDEN_SIZE, SIZES  sizes of the network, or options of them (some recipes)
#   RECIPE   name in messages and in the default of RUN (default: that of the recipe's file)
#   SET      quora or twitter_url (quora.sh of copy_transformer, dnpg, fset and residual_lstm)
#   CANDIDATES_FROM  source: count the dictionary on source text alone, as the WEAN paper does; joint (default), as its code
#
# The settings are at the top of each recipe: first those of a SMOKE run, then those of a full one. All of them can be
# overridden in the environment.

# Lists such as SYSTEMS are split at spaces, and a `*` in a list must not be replaced by file names. `files_like`
# expands patterns instead.
set -o noglob
ROOT=$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LIB=$ROOT/examples/lib
# shellcheck source=examples/lib/checks.sh
source "$LIB/checks.sh"
# shellcheck source=examples/lib/run_directory.sh
source "$LIB/run_directory.sh"
# shellcheck source=examples/lib/jobs.sh
source "$LIB/jobs.sh"
# shellcheck source=examples/lib/training.sh
source "$LIB/training.sh"
# shellcheck source=examples/lib/scores.sh
source "$LIB/scores.sh"
# shellcheck source=examples/lib/models.sh
source "$LIB/models.sh"

[[ -d $PWD ]] || RECIPE=${RECIPE:-recipe} die "the current directory was deleted: change to another directory."

# The folder, such as runs/copynet/synthetic, contains the family, because several families have recipes of the same
# name.
FOLDER=${RECIPE:-$(basename "$(dirname "$(realpath "$0")")")/$(basename "$0" .sh)}
RECIPE=$(basename -- "$FOLDER")
# Only the variables above are settings of the user. The following variables are cleared, because recipes and the files
# in lib may read them before they set them.
unset BIN TEXT complete continue_with listed only_check prepared run_lock search_is_checked system_flags
note_environment
: "${SMOKE:=0}" "${JOBS:=1}" "${SEEDS:=}" "${SBATCH:=}" "${RECIPE_STAGE:=}"
read -ra seeds <<<"$SEEDS"
SEEDS=${seeds[*]-}
: "${SEED:=${SEEDS%% *}}"
: "${SEED:=1}"
: "${RUN:=$ROOT/runs/$FOLDER$([[ $SMOKE == 1 ]] && echo -smoke)}"
# A value that begins with a dash must be read as a file name, not as an option.
for name in DATA RUN TURK PWKP QUORA TWITTER_URL BERT VECTORS VOCAB WORD2VEC GLOVE SBATCH FROM SENTENCE_MODEL; do
  [[ ${!name-} != -* ]] || printf -v "$name" './%s' "${!name}"
done
[[ -n ${GPUS:-} ]] || GPUS=$(gpus)
# OpenMP accepts a list with one number per nesting level. Only the first level is used.
[[ ! ${OMP_NUM_THREADS:-} =~ ^[0-9]+(\ *,\ *[0-9]+)+$ ]] || OMP_NUM_THREADS=${OMP_NUM_THREADS%%[ ,]*}
TABLE=$RUN
[[ -z ${JOB:-} ]] || read_job
check_variables
check_run
if [[ -z ${OMP_NUM_THREADS:-} ]]; then
  OMP_NUM_THREADS=$((($(nproc) + JOBS - 1) / JOBS))
  export OMP_NUM_THREADS
fi
# Scoring uses the plugin of this checkout, like training.
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
[[ -z ${JOB:-} ]] || begin_job
[[ -z $SEEDS ]] || RUN=$TABLE/seed$SEED

# The optimisation of the WEAN paper (section 3.1.3) is the same for all its data sets. The learning rate is constant.
# RATE and BATCH are settings of these recipes.
# shellcheck disable=SC2034
wean_optimisation=(
  --optimizer fused_adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-8 --lr "${RATE:-0.001}" --clip-norm 5
  --batch-size "${BATCH:-64}"
)
# The optimisation of tables in which all systems have the same size: all_systems.sh, and SIZE=equal of the nts recipes.
# shellcheck disable=SC2034
equal_optimisation=(
  --optimizer adam --adam-betas '(0.9, 0.999)' --lr "${RATE:-0.001}" --clip-norm 2 --lr-scheduler inverse_sqrt
  --warmup-updates 200 --batch-size "${BATCH:-64}"
)

# Settings that a recipe may override: the task, the training criterion, and the search options. An <unk> in an output
# is replaced by the source word with the most attention, as in both WEAN releases. Models that copy need no such
# replacement.
task=paraphrase
criterion=query_embedding
search=(--replace-unk --search-preset wean)

# validate_by_bleu UPDATES LENGTH: set the arguments `validation`, which compute BLEU of greedy outputs of at most
# LENGTH words every UPDATES updates, and keep the checkpoint with the best BLEU.
validate_by_bleu() {
  # shellcheck disable=SC2034
  validation=(
    --eval-bleu --eval-bleu-args "{\"beam\": 1, \"max_len_b\": $2}" --eval-tokenized-bleu
    --validate-interval-updates "$1" --save-interval-updates "$1" --keep-interval-updates 1
    --no-epoch-checkpoints --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
  )
}

# decay_linearly RATE BATCH: set the arguments `schedule`, which decay the learning rate from RATE to 0 over EPOCHS
# epochs with batches of BATCH pairs on each GPU.
decay_linearly() {
  local pairs batch batches
  [[ -z ${TOKENS:-} ]] || die "the rate falls to 0 over batches of BATCH pairs here, so TOKENS cannot be set."
  pairs=$(wc -l <"$RUN/text/train.src")
  batch=$(($2 * $(processes)))
  batches=$(((pairs + batch - 1) / batch))
  # shellcheck disable=SC2034
  schedule=(
    --lr "$1" --lr-scheduler polynomial_decay --total-num-update "$((batches * EPOCHS))" --batch-size "$2"
  )
}

# write_state FILE: write standard input to FILE, completely or not at all, so that the old file remains after a kill or
# on a full disk. Links are followed.
write_state() {
  local part file
  if file=$(realpath -m -- "$1") && part=$(mktemp -- "$file.XXXXXX" 2>/dev/null) && chmod '=rw' -- "$part" &&
    cat >"$part" && mv -f -- "$part" "$file"; then
    return
  fi
  [[ -z $part ]] || rm -f -- "$part"
  die "$1 cannot be written: make room or choose another place, and start the recipe again."
}

# lock_run: allow only one recipe at a time in a run directory, together with its jobs. The lock is awaited for two
# seconds, because the processes of a killed recipe may still be ending.
lock_run() {
  [[ -z ${JOB:-}${run_lock:-}$RECIPE_STAGE ]] || return 0
  mkdir -p -- "$TABLE" 2>/dev/null || return 0 # the next step names the reason
  need_run
  [[ -w $TABLE ]] || return 0
  exec {run_lock}>>"$TABLE/.run.lock"
  flock -w 2 "$run_lock" ||
    die "another run is using $TABLE: wait until it has ended, or stop it and its trainings, or set RUN to another directory."
}

# remember NAME=VALUE...: record the settings, the seed and the input files (`inputs`) that determine the files in $RUN.
# A later run with other values is refused, because it would mix files of different settings.
remember() { remember_data "SEED=$SEED" "$@"; }

# remember_data NAME=VALUE...: like `remember`, without the seed, for data that does not depend on it.
remember_data() {
  local changes status=0 input arguments=()
  lock_run
  for input in "${inputs[@]}"; do
    arguments+=(--input "$input")
  done
  changes=$(
    printf '%s\n' "$@" ${LIMIT:+"LIMIT=$LIMIT"} ${TEST_LIMIT:+"TEST_LIMIT=$TEST_LIMIT"} \
      ${CANDIDATES_FROM:+"CANDIDATES_FROM=$CANDIDATES_FROM"} |
      python -P -m wean_fairseq.training.state "$RUN/settings" "${arguments[@]}"
  ) || status=$?
  if ((status == 0)); then
    [[ -z ${run_lock:-} || -s $TABLE/.run.lock ]] || printf '%s\n' "$run_mark" >&"$run_lock"
    return
  fi
  ((status == 3)) || die "$changes"
  die "$RUN was made with other settings ($changes): set RUN to another directory, or delete this one."
}

# share_data: link the text and the binary data in $TABLE, which are the same for all SEEDS, into each seed's directory.
share_data() {
  local name
  [[ -n $SEEDS ]] || return 0
  mkdir -p "$RUN"
  for name in text text-test plain-test bin; do
    link_inside "../$name" "$RUN/$name"
  done
}

# run_preparation DIRECTORY SCRIPT ARGUMENTS...: run preprocess/SCRIPT.py with LIMIT pairs and TEST_LIMIT test sentences
# (0: all).
run_preparation() {
  local directory=$1 script=$2 limits=()
  shift 2
  [[ -z ${LIMIT:-}${TEST_LIMIT:-} ]] || limits=(--limit "${LIMIT:-0}" --test-limit "${TEST_LIMIT:-0}")
  python "$ROOT/preprocess/$script.py" --output "$directory" "${limits[@]}" "$@" >"$directory.log" 2>&1 ||
    fail "preparing the text" "$directory.log"
}

# check_prepared DIRECTORY: stop if a file of a prepared text has changed since it was written.
check_prepared() { [[ ! -f $1/manifest.json ]] || wean-checksum "$1" >/dev/null; }

# prepare SCRIPT ARGUMENTS...: write a data set to $RUN/text with preprocess/SCRIPT.py. `complete` names the last file
# that the script writes, if it is not the manifest.
prepare() {
  local script=$1 manifest
  shift
  if [[ -f ${complete:-$RUN/text/manifest.json} ]]; then
    while IFS= read -rd '' manifest; do
      check_prepared "${manifest%/*}"
    done < <(find "$RUN/text/" -maxdepth 2 -name manifest.json -print0)
    say "text: done before"
    return
  fi
  say "text: writing $RUN/text"
  run_preparation "$RUN/text" "$script" "$@"
  grep -E "${prepared:-left out|is in (test|held out)}" "$RUN/text.log" | printable || true
}

# binary_data: print the directory of the binary data and its dictionary, which is BIN if the recipe sets it, or
# $RUN/bin.
binary_data() { printf '%s' "${BIN:-${RUN:?}/bin}"; }

# training_text: print the directory of the training text, which is TEXT if the recipe sets it, or $RUN/text.
training_text() { printf '%s' "${TEXT:-${RUN:?}/text}"; }

# binarise WORDS THRESHOLD [ARGUMENTS...]: binarise training_text into binary_data, with one dictionary of at most WORDS
# words that occur at least THRESHOLD times. With --dataset-impl raw the data stays text, in which a copying model can
# find words outside the dictionary. CANDIDATES_FROM=source counts only the source side, as described in the WEAN paper.
# The default counts both sides, like the code of the paper.
binarise() {
  local words=$1 threshold=$2 counts=() bin text
  bin=$(binary_data)
  text=$(training_text)
  shift 2
  if [[ -f $bin/.complete ]]; then
    say "binary data: done before"
    return
  fi
  say "binary data: writing $bin (fairseq-preprocess)"
  mkdir -p "$RUN"
  clear_data "$bin"
  if [[ ${CANDIDATES_FROM:-joint} == source ]]; then
    fairseq-preprocess --only-source --dict-only --source-lang src --target-lang tgt --trainpref "$text/train" \
      --nwordssrc "$words" --thresholdsrc "$threshold" --destdir "$bin" >"$RUN/preprocess.log" 2>&1 ||
      fail fairseq-preprocess "$RUN/preprocess.log"
    mv "$bin/dict.src.txt" "$RUN/dict.source.txt"
    counts=(--srcdict "$RUN/dict.source.txt")
  else
    counts=(--nwordssrc "$words" --thresholdsrc "$threshold")
  fi
  fairseq-preprocess --source-lang src --target-lang tgt --joined-dictionary "${counts[@]}" \
    --trainpref "$text/train" --validpref "$text/valid" --destdir "$bin" \
    --workers "$(nproc)" "$@" >"$RUN/preprocess.log" 2>&1 || fail fairseq-preprocess "$RUN/preprocess.log"
  wean-checksum "$bin" >>"$RUN/preprocess.log" 2>&1 || fail wean-checksum "$RUN/preprocess.log"
  touch "$bin/.complete"
}

# weak_labels: write weak labels for DNPG to $RUN/labels. They mark the phrase-level words of the training pairs in
# $RUN/text.
weak_labels() {
  if [[ -f $RUN/labels/manifest.json ]]; then
    check_prepared "$RUN/labels"
    say "weak labels: done before"
    return
  fi
  say "weak labels: aligning the words of $RUN/text"
  python "$ROOT/preprocess/weak_labels.py" --data "$RUN/text" --output "$RUN/labels" --seed "$SEED" \
    >"$RUN/labels.log" 2>&1 || fail "making the weak labels" "$RUN/labels.log"
}

# similar_pairs: write the text with a similar training pair after every sentence, for FSET, and its binary data.
similar_pairs() {
  BIN=$RUN/bin-pairs TEXT=$RUN/pairs
  check_prepared "$TEXT"
  if [[ ! -f $TEXT/manifest.json ]]; then
    say "similar pairs: writing $TEXT"
    python "$ROOT/preprocess/retrieve_pairs.py" --data "$RUN/text" --output "$TEXT" --max-words 20 >"$TEXT.log" 2>&1 ||
      fail "retrieving similar pairs" "$TEXT.log"
  fi
  binarise -1 0 --dataset-impl raw
}

# stopped WHAT LOG...: report a command that failed or was interrupted by the user.
stopped() {
  local status=$?
  if ((status == 130 || status == 143)); then
    say "stopped; the same command continues from here" >&2
    exit "$status"
  fi
  fail "$@"
}

# prepare_test SET SCRIPT ARGUMENTS...: write a test set to $RUN/text-SET, with one output line per input line.
prepare_test() {
  local set=$1 script=$2
  shift 2
  check_prepared "$RUN/text-$set"
  [[ -f $RUN/text-$set/manifest.json ]] || run_preparation "$RUN/text-$set" "$script" "$@"
}

# test_of_text SET: use the test split of $RUN/text as the test set $RUN/text-SET.
test_of_text() {
  [[ -e $RUN/text-$1 ]] || link_inside text "$RUN/text-$1"
}

# search_arguments ARGUMENTS...: print `search`, the given arguments and SEARCH_FLAGS, one per line, quoted for a shell.
search_arguments() {
  local flags
  read -ra flags <<<"${SEARCH_FLAGS:-}"
  printf '%q\n' "${search[@]}" "$@" "${flags[@]}"
}

# kept_search ARGUMENTS...: print the same as search_arguments, but without the path of RUN, which may be moved.
kept_search() {
  local arguments
  mapfile -t arguments < <(search_arguments "$@")
  without_run "$(printf '%q' "$RUN")" "${arguments[@]}"
}

# without_run FOLDER ARGUMENTS...: print the arguments, one per line, and replace the path FOLDER by RUN.
without_run() {
  local folder=$1/
  shift
  set -- "${@/#"$folder"/RUN/}"
  printf '%s\n' "${@/="$folder"/=RUN/}"
}

# decoded SYSTEM SET [ARGUMENTS...]: succeed if the outputs exist and were made by the same search from the same
# checkpoint. Fail with one sentence if they were changed since. Outputs of older versions have no checksum of themselves
# or of the checkpoint. They must not be older than the checkpoint.
decoded() {
  local outputs=$RUN/$1/$2 checkpoint=$RUN/$1/checkpoint_best.pt sums=()
  shift 2
  [[ -f $outputs.log ]] || return
  [[ ! -f $outputs.sha256 ]] || mapfile -t sums <"$outputs.sha256"
  if ((${#sums[@]} > 1)); then
    [[ ! -f $checkpoint || ${sums[1]} == "$(sha256sum <"$checkpoint")" ]] || return
  else
    [[ ! $checkpoint -nt $outputs.log ]] || return
  fi
  kept_search "$@" | cmp -s -- - "$outputs.search" || return
  ((${#sums[@]} == 0)) || [[ ${sums[0]} == "$(sha256sum <"$outputs.log")" ]] ||
    die "$outputs.log has changed since it was decoded: restore it, or remove it to decode again."
}

# lay_out_test FOLDER TEXT: write the test set in TEXT and the dictionaries to FOLDER, as fairseq's raw text.
lay_out_test() {
  local part=$1.part
  [[ ! -f $1/.complete ]] || return 0
  clear_data "$1" "$part"
  mkdir -p "$part"
  cp "$(binary_data)"/dict.{src,tgt}.txt "$part"
  cp "$2/test.src" "$part/test.src-tgt.src"
  cp "$2/test.tgt" "$part/test.src-tgt.tgt"
  wean-checksum "$part" >/dev/null
  : >"$part/.complete"
  mv "$part" "$1"
}

# generate SYSTEM SET [ARGUMENTS...]: decode $RUN/text-SET, or the recipe's TEXT, to $RUN/SYSTEM/SET.log. It reads raw
# text, because replacing or copying an unknown word needs its spelling.
generate() {
  local system=$1 set=$2 folder=$RUN/$1 raw device=() flags
  raw=$(binary_data)-$set
  shift 2
  read -ra flags <<<"${SEARCH_FLAGS:-}"
  if decoded "$system" "$set" "$@"; then
    say "decoding $set with $system: done before"
    [[ -s $folder/search.txt ]] || store_search "$folder" "$set" "$@"
    return
  fi
  need_gpus
  ((GPUS == 0)) && device=(--cpu)
  say "decoding $set with $system (fairseq-generate)"
  lay_out_test "$raw" "${TEXT:-$RUN/text-$set}"
  rm -f "$folder/$set".{log.part,sha256,search} # an interrupted decoding is repeated
  beside_others python -P -m wean_fairseq.training.progress --label "$system, $set" --output "$folder/$set.log.part" --errors "$folder/$set.err" \
    --count S- --total "$(wc -l <"$raw/test.src-tgt.src")" -- \
    fairseq-generate "$raw" --user-dir "$ROOT/wean_fairseq" --task "$task" --source-lang src --target-lang tgt \
    --dataset-impl raw --path "$folder/checkpoint_best.pt" --seed "$SEED" "${device[@]}" "${search[@]}" \
    --batch-size 64 --no-progress-bar "$@" "${flags[@]}" ||
    stopped "decoding" "$folder/$set.err" "$folder/$set.log.part"
  mv "$folder/$set.log.part" "$folder/$set.log"
  store_search "$folder" "$set" "$@"
  { sha256sum <"$folder/$set.log" && sha256sum <"$folder/checkpoint_best.pt"; } | write_state "$folder/$set.sha256"
  kept_search "$@" | write_state "$folder/$set.search"
}

# store_search FOLDER SET ARGUMENTS...: store the search of the first decoded set next to the checkpoint in FOLDER, for
# later use (wean_fairseq/storage/search.py).
store_search() {
  local folder=$1 set=$2
  shift 2
  [[ -s $folder/search.set ]] || write_state "$folder/search.set" <<<"$set"
  if cmp -s -- "$folder/search.set" - <<<"$set"; then
    search_arguments "$@" | write_state "$folder/search.txt"
    tool wean-checksum "$folder/search.txt" >/dev/null
  fi
}

# tool COMMAND...: run a command, and show its messages only if it fails (importing fairseq always prints a message).
tool() {
  "$@" 2>"$RUN/tool.err" && return
  grep -v tensorboardX "$RUN/tool.err" | printable >&2 || true
  exit 1
}
