# shellcheck shell=bash disable=SC2034,SC2154
# How recipe.sh trains: one system, several settings of it to choose from, and all SYSTEMS and SEEDS side by side.

# train SYSTEM ARCH [ARGUMENTS...]: -> $RUN/SYSTEM/checkpoint_best.pt; resumes from the last checkpoint. TOKENS, TRAIN_FLAGS and
# PATIENCE come after the recipe's own arguments, so that they win. With RATES or DROPOUTS every combination is trained in
# $RUN/SYSTEM/tries, and $RUN/SYSTEM is linked to the one that is best on validation. RATES_SYSTEM (RATES_cdnpg_r_s for
# cdnpg_r+s) is a system's own list: optimisers differ in what rates they bear. A SYSTEM with _query, as copynet_query, is
# the ARCH whose output layer queries the embeddings of the words that it generates (WEAN).
train() {
  local system=$1 arch=$2 flags rates rate dropout tried
  shift 2
  rates=RATES_${system//[^[:alnum:]]/_}
  rates=${!rates:-${RATES:-}}
  train_side_by_side
  [[ $system != *_query ]] || set -- --output-layer query_embedding "$@"
  read -ra flags <<<"${TRAIN_FLAGS:-}"
  # No batch has more pairs than tokens.
  set -- "$@" ${TOKENS:+--max-tokens "$TOKENS" --batch-size "$TOKENS"} "${flags[@]}" ${PATIENCE:+--patience "$PATIENCE"}
  if [[ -z $rates${DROPOUTS:-} ]]; then
    train_once "$system" "$arch" "$@"
    return
  fi
  for rate in ${rates:-own}; do
    for dropout in ${DROPOUTS:-own}; do
      tried=()
      [[ $rate == own ]] || tried+=(--lr "$rate")
      [[ $dropout == own ]] || tried+=(--dropout "$dropout")
      train_once "$system/tries/lr-$rate,dropout-$dropout" "$arch" "$@" "${tried[@]}"
    done
  done
  tool python "$LIB/trainings.py" choose "$RUN/$system"
}

# train_once NAME ARCH [ARGUMENTS...]: one training in $RUN/NAME.
train_once() {
  local system=$1 arch=$2 folder=$RUN/$1 launcher=(fairseq-train) device=() done=''
  shift 2
  set -- --task "$task" --arch "$arch" --criterion "$criterion" --seed "$SEED" "$@"
  keep_command "$folder" "$@"
  [[ -f $folder/.trained ]] && done=$(<"$folder/.trained")
  if [[ -f $folder/.trained ]] && ((${done:-$EPOCHS} >= EPOCHS)); then
    say "training $system: done before"
    return
  fi
  say "training $system (fairseq-train; stop it and start again as you like; log: $folder/train.log)"
  if ((GPUS == 0)); then
    device=(--cpu)
  elif ((GPUS > 1)); then
    launcher=(torchrun --standalone --nproc-per-node "$GPUS" --no-python fairseq-train)
    device=(--distributed-world-size "$GPUS")
  fi
  beside_others python "$LIB/progress.py" --label "$system" --output "$folder/train.out" --epochs "$EPOCHS" -- \
    "${launcher[@]}" "$(binary_data)" --user-dir "$ROOT/wean_fairseq" "$@" "${device[@]}" --save-dir "$folder" \
    --max-epoch "$EPOCHS" --log-format simple --log-interval 20 --log-file "$folder/train.log" ||
    stopped "training" "$folder/train.out"
  [[ -f $folder/checkpoint_best.pt ]] || die "the training ended without a checkpoint, see $folder/train.log."
  echo "$EPOCHS" >"$folder/.trained"
}

# keep_command FOLDER ARGUMENTS...: the options of a training, the last of each, one a line -> FOLDER/command; others later
# would go on from a model that was trained otherwise. When validation comes may change: in some recipes after EPOCHS.
keep_command() {
  local folder=$1 asked before
  shift
  asked=$(printf ' %s' "${@//"$RUN"/RUN}" | sed 's/ --/\n--/g' | sed '1d; /^--validate-interval /d' |
    awk '{ last[$1] = $0 } END { for (option in last) print last[option] }' | LC_ALL=C sort)
  mkdir -p "$folder"
  [[ -f $folder/command ]] || printf '%s\n' "$asked" >"$folder/command"
  before=$(<"$folder/command")
  [[ $asked == "$before" ]] && return
  die "$folder was begun with other options (then: $(only_in "$before" "$asked"); now: $(only_in "$asked" "$before"))," \
    "set RUN to another directory."
}

# only_in TEXT OTHER: the lines of TEXT that are not in OTHER, on one line.
only_in() {
  local lines
  lines=$(LC_ALL=C comm -23 <(printf '%s\n' "$1") <(printf '%s\n' "$2"))
  printf '%s' "${lines:-as now}" | tr '\n' ' '
}

# train_side_by_side: where there are several JOBS or SEEDS, each of SYSTEMS with each seed first, JOBS at a time: every
# one is this recipe again in a process that trains and decodes it (JOB="SEED SYSTEM") and scores nothing. With SBATCH
# the list is written as a Slurm job array instead.
train_side_by_side() {
  local seed system jobs=()
  [[ -z ${JOB:-}${listed:-} ]] || return 0
  ((JOBS > 1)) || [[ -n ${SEEDS}${SBATCH} ]] || return 0
  listed=yes
  for seed in ${SEEDS:-$SEED}; do
    for system in $SYSTEMS; do
      jobs+=("$seed $system")
    done
  done
  ((${#jobs[@]} > 1)) || [[ -n $SBATCH ]] || return 0
  mkdir -p "$TABLE/jobs"
  if [[ -n $SBATCH ]]; then
    write_job_array "${jobs[@]}"
    say "wrote $SBATCH: ${#jobs[@]} trainings; give it to sbatch, and start this recipe again without SBATCH for the scores"
    exit 0
  fi
  say "${#jobs[@]} trainings, $JOBS at a time (a log each in $TABLE/jobs)"
  # shellcheck disable=SC2016 # expanded by the shell of the job
  printf '%s\n' "${jobs[@]}" | RUN=$TABLE GPUS=$GPUS OMP_NUM_THREADS=$OMP_NUM_THREADS xargs -P "$JOBS" -d '\n' -n 1 \
    --process-slot-var=SLOT bash -c 'set -o pipefail; JOB=$2 bash "$0" 2>&1 | tee -a "$1/jobs/${2/ /-}.log"' \
    "$0" "$TABLE" || die "not all of them ended well; the same command goes on from here (logs: $TABLE/jobs)."
  for seed in $SEEDS; do # the first one's scores are this process's
    [[ $seed == "$SEED" ]] || RUN=$TABLE/seed$seed SEED=$seed SEEDS='' JOBS=1 bash "$0" || exit
  done
}

# write_job_array JOB...: -> $SBATCH; with GPUS each job has one.
write_job_array() {
  {
    printf '%s\n' '#!/usr/bin/env bash' "#SBATCH --job-name=$RECIPE" "#SBATCH --array=0-$(($# - 1))" \
      "#SBATCH --chdir=$PWD" "#SBATCH --output=$TABLE/jobs/%a.log"
    ((GPUS == 0)) || echo '#SBATCH --gpus=1'
    printf 'jobs=('
    printf ' %q' "$@"
    # shellcheck disable=SC2016 # expanded by the shell of the job
    printf ' )\nJOB=${jobs[SLURM_ARRAY_TASK_ID]} SBATCH= GPUS=%d RUN=%q bash %q\n' "$((GPUS > 0))" "$TABLE" "$0"
  } >"$SBATCH"
}

# begin_job: the settings of a JOB. What several jobs need is made by one of them while the others wait.
begin_job() {
  local devices
  SEED=${JOB% *} SYSTEMS=${JOB#* }
  if ((GPUS > 0)) && [[ -n ${SLOT:-} ]]; then
    IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s , 0 "$((GPUS - 1))")}"
    export CUDA_VISIBLE_DEVICES=${devices[SLOT % ${#devices[@]}]}
    GPUS=1
  fi
  mkdir -p "$TABLE/jobs"
  exec {alone}>"$TABLE/jobs/.preparing"
  flock "$alone"
}

# beside_others COMMAND...: run what jobs may do at the same time.
beside_others() {
  local status=0
  [[ -z ${JOB:-} ]] || flock -u "$alone"
  "$@" || status=$?
  [[ -z ${JOB:-} ]] || flock "$alone"
  return "$status"
}
