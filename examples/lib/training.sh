# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# Train the systems of a recipe, with one setting or with several settings to choose from.

# train SYSTEM ARCH [ARGUMENTS...]: train a system, resuming from its last checkpoint. The result is
# $RUN/SYSTEM/checkpoint_best.pt. TOKENS, TRAIN_FLAGS (or system_flags, if a recipe sets it) and PATIENCE come after the
# recipe's own arguments and override them. With RATES or DROPOUTS, every combination is trained in $RUN/SYSTEM/tries,
# and $RUN/SYSTEM is linked to the best combination on validation. With TRY_EPOCHS, each combination is trained for that
# number of epochs, and only the best one is trained to the end. RATES_SYSTEM (RATES_cdnpg_r_s for cdnpg_r+s) is the
# list of one system, because optimisers tolerate different rates. A SYSTEM with _query, such as copynet_query, is the
# ARCH with an output layer that queries the embeddings of the generated words (WEAN).
train() {
  local system=$1 arch=$2 flags rates
  shift 2
  rates=RATES_${system//[^[:alnum:]]/_}
  rates=${!rates:-${RATES:-}}
  check_search
  [[ -n ${only_check:-} ]] || train_side_by_side
  [[ $RECIPE_STAGE != prepare ]] || exit 0
  [[ $system != *_query ]] || set -- --output-layer query_embedding "$@"
  read -ra flags <<<"${system_flags-${TRAIN_FLAGS:-}}"
  # A batch of TOKENS tokens has at most TOKENS pairs.
  set -- "$@" ${TOKENS:+--max-tokens "$TOKENS" --batch-size "$TOKENS"} "${flags[@]}" ${PATIENCE:+--patience "$PATIENCE"}
  if [[ -z $rates${DROPOUTS:-} ]]; then
    [[ ! -d $RUN/$system/tries ]] ||
      die "$RUN/$system has trainings with several RATES or DROPOUTS: give the same again, or set RUN to another directory."
    train_once "$system" "$arch" "$@"
    return
  fi
  [[ -L $RUN/$system/train.log || ! -e $RUN/$system/train.log ]] ||
    die "$RUN/$system was trained without RATES and DROPOUTS: leave them out, or set RUN to another directory."
  # All tries must have the same options except for the settings to choose from.
  keep_command "$RUN/$system/tries" --arch "$arch" --seed "$SEED" "$@"
  TRIED='' train_tries "${TRY_EPOCHS:-$EPOCHS}" "$system" "$arch" "$@"
  [[ -z ${only_check:-} ]] || return 0
  tool python -P -m wean_fairseq.training.trainings choose "$RUN/$system"
  ((${TRY_EPOCHS:-$EPOCHS} >= EPOCHS)) ||
    TRIED=$(dirname -- "$(readlink -- "$RUN/$system/train.log")") train_tries "$EPOCHS" "$system" "$arch" "$@"
}

# train_tries EPOCHS SYSTEM ARCH [ARGUMENTS...]: train each combination of `rates` and DROPOUTS for EPOCHS epochs, or
# only the one in the folder TRIED.
train_tries() {
  local EPOCHS=$1 system=$2 arch=$3 rate dropout folder tried
  shift 3
  for rate in ${rates:-own}; do
    for dropout in ${DROPOUTS:-own}; do
      folder=tries/lr-$rate,dropout-$dropout tried=()
      [[ -z $TRIED || $TRIED == "$folder" ]] || continue
      [[ $rate == own ]] || tried+=(--lr "$rate")
      [[ $dropout == own ]] || tried+=(--dropout "$dropout")
      train_once "$system/$folder" "$arch" "$@" "${tried[@]}"
    done
  done
}

# check_training SYSTEM ARCH [ARGUMENTS...]: fail with one sentence if `train` would reject the options. No file is
# written.
check_training() { only_check=yes train "$@"; }

# check_search: fail with one sentence if fairseq-generate would refuse SEARCH_FLAGS together with the options `search`
# before it loads a model. Otherwise it would do so only after the training.
check_search() {
  local flags said
  [[ -n ${SEARCH_FLAGS:-} && ${search_is_checked-none} != "${search[*]}" ]] || return 0
  read -ra flags <<<"$SEARCH_FLAGS"
  said=$(
    python -P -c '
import wean_fairseq
wean_fairseq.register()
from fairseq import options
options.parse_args_and_arch(options.get_generation_parser())' \
      "$(binary_data)" --user-dir "$ROOT/wean_fairseq" --task "$task" --path none "${search[@]}" \
      --beam "${BEAM:-5}" --max-len-b 10000 "${flags[@]}" 2>&1
  ) || {
    said=${said##*error: }
    die "SEARCH_FLAGS cannot be given to fairseq-generate ($SEARCH_FLAGS): ${said%.}."
  }
  search_is_checked=${search[*]}
}

# processes: print the number of processes that train together.
processes() { printf '%s' "${PROCESSES:-$((GPUS > 1 ? GPUS : 1))}"; }

# train_once NAME ARCH [ARGUMENTS...]: run one training in $RUN/NAME.
train_once() {
  local system=$1 arch=$2 folder=$RUN/$1 device=()
  shift 2
  set -- --task "$task" --arch "$arch" --criterion "$criterion" --seed "$SEED" "$@"
  keep_command "$folder" "$@"
  [[ -z ${only_check:-} ]] || return 0
  if (($(trained_epochs "$system") >= EPOCHS)); then
    say "training $system: done before"
    return
  fi
  need_gpus
  say "training $system (fairseq-train; stop it and start again as you like; log: $folder/train.log)"
  ((GPUS > 0)) || device=(--cpu)
  beside_others python -P -m wean_fairseq.training.progress --label "$system" --output "$folder/train.out" --epochs "$EPOCHS" \
    --processes "$(processes)" -- fairseq-train "$(binary_data)" --user-dir "$ROOT/wean_fairseq" "$@" "${device[@]}" --save-dir "$folder" \
    --max-epoch "$EPOCHS" --log-format simple --log-interval 20 --log-file "$folder/train.log" ||
    stopped "training" "$folder/train.out"
  [[ -f $folder/checkpoint_best.pt ]] || die "the training ended without a checkpoint, see $folder/train.log."
  if ended_by_time "$system"; then
    say "training $system was ended by --stop-time-hours: repeat the command with a larger value to continue it"
    return
  fi
  write_state "$folder/.trained" <<<"$EPOCHS"
}

# ended_by_time SYSTEM: succeed if --stop-time-hours ended the last run of a training. Every run logs the number of
# parameters at its start.
ended_by_time() {
  local log=$RUN/$1/train.log
  [[ -f $log ]] &&
    awk '/num\. shared model params/ { n = 0 } / > stop_time_hours: |and --stop-time-hours is / { n = 1 } END { exit !n }' <"$log"
}

# trained_epochs SYSTEM: print the number of EPOCHS with which the training of a system was finished. Print 0 if the
# training is not finished, or if the file is invalid. Earlier versions wrote the file also after --stop-time-hours.
trained_epochs() {
  local epochs='' file=$RUN/$1/.trained
  [[ ! -f $file ]] || ended_by_time "$1" || IFS= read -r epochs <"$file" || true
  whole_number "$epochs"
}

# keep_command FOLDER ARGUMENTS...: record the options of a training in FOLDER/command, with the last value of each.
# Later runs with other options are refused, because they would continue a model that was trained differently. Only the
# validation interval may change, because in some recipes it depends on EPOCHS. state.py ignores --stop-time-hours.
keep_command() {
  local folder=$1 changes status=0
  shift
  changes=$(
    without_run "$RUN" "$@" | paste -sd ' ' | sed 's/^/ /; s/ --/\n--/g' | sed '1d; /^--validate-interval /d' |
      awk '{ last[$1] = $0 } END { for (option in last) print last[option] }' | LC_ALL=C sort |
      python -P -m wean_fairseq.training.state "$folder/command" ${only_check:+--check}
  ) || status=$?
  ((status == 0)) && return
  ((status == 3)) || die "$changes"
  die "$folder was begun with other options ($changes): set RUN to another directory."
}
