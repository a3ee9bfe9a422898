# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# Run several trainings of a recipe in parallel, for several systems or seeds, or write them as a Slurm job array.

# note_environment: store the environment variables that recipes read in GIVEN_NAMES, and as NAME=VALUE, quoted for a
# shell, in GIVEN.
note_environment() {
  local name
  mapfile -t GIVEN_NAMES < <(
    {
      LC_ALL=C comm -12 <(compgen -e | LC_ALL=C sort) \
        <(grep -rhoE '\$\{?!?[A-Z][A-Z0-9_]+' "$ROOT/examples" --include='*.sh' | tr -cd 'A-Z0-9_\n' | LC_ALL=C sort -u)
      compgen -e RATES_
    } | grep -vxE 'PATH|PWD|HOME|PYTHONPATH|CUDA_VISIBLE_DEVICES|JOB|JOBS|SLOT|RECIPE_STAGE|SBATCH' || true
  )
  GIVEN=()
  for name in "${GIVEN_NAMES[@]}"; do
    GIVEN+=("$name=$(printf '%q' "${!name}")")
  done
}

# same_command NAME VALUE: print the command that repeats this recipe with the settings of the environment and another
# value of NAME.
same_command() {
  local given command="$1=$2"
  for given in "${GIVEN[@]}"; do
    [[ $given == @("$1"|OMP_NUM_THREADS)=* ]] || command+=" $given"
  done
  printf '%s bash %q' "$command" "$0"
}

# train_side_by_side: with several JOBS or SEEDS, first run each of SYSTEMS with each seed, JOBS at a time. Each job is
# this recipe in another process that trains and decodes one system (JOB="SEED SYSTEM") without scoring. With SBATCH,
# the list of jobs is written as a Slurm job array instead.
train_side_by_side() {
  local seed system jobs=()
  [[ -z ${JOB:-}${listed:-}$RECIPE_STAGE ]] || return 0
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
    with_other_seeds prepare
    write_job_array "${jobs[@]}"
    say "wrote $SBATCH: ${#jobs[@]} trainings; give it to sbatch after you have edited its time and CPU lines, and" \
      "start this recipe again without SBATCH for the scores"
    # The computer where a job is submitted often has no GPU, although the computers of the cluster have GPUs.
    [[ $GPUS != 0 || " ${GIVEN_NAMES[*]} " == *' GPUS '* ]] ||
      say "no GPU was found here, so the jobs use the CPU. To give each job a GPU, remove the file and write it again with GPUS=1"
    exit 0
  fi
  say "${#jobs[@]} trainings, $JOBS at a time (a log each in $TABLE/jobs)"
  # shellcheck disable=SC2016 # expanded by the shell of the job
  printf '%s\n' "${jobs[@]}" | RUN=$TABLE SEEDS=$SEEDS GPUS=$GPUS OMP_NUM_THREADS=$OMP_NUM_THREADS xargs -P "$JOBS" \
    -d '\n' -n 1 --process-slot-var=SLOT \
    bash -c 'set -o pipefail; JOB=$2 bash "$0" 2>&1 | tee -a "$1/jobs/${2/ /-}.log"' \
    "$0" "$TABLE" || die "not all of them ended well; the same command continues from here (logs: $TABLE/jobs)."
  with_other_seeds score # this process scores the first seed
}

# with_other_seeds STAGE: run this recipe again for all seeds except the first. With the stage `prepare`, the recipe
# ends before the first training. With the stage `score`, it computes the scores of one seed, but not the scores over
# all seeds.
with_other_seeds() {
  local seed
  for seed in $SEEDS; do
    [[ $seed == "$SEED" ]] || RECIPE_STAGE=$1 RUN=$TABLE SEED=$seed SEEDS=$SEEDS JOBS=1 bash "$0" || exit
  done
}

# write_job_array JOB...: write the jobs to $SBATCH. With GPUS, each job has one GPU. Every value is quoted, and no name
# is in an #SBATCH line.
write_job_array() {
  local given
  {
    printf '%s\n' '#!/usr/bin/env bash' "#SBATCH --job-name=${RECIPE//[^[:alnum:]._-]/_}" \
      "#SBATCH --array=0-$(($# - 1))" '# Edit these: the time of the longest training, and the CPUs of each.' \
      '#SBATCH --time=24:00:00' '#SBATCH --cpus-per-task=4'
    ((GPUS == 0)) || echo '#SBATCH --gpus=1'
    echo '# Where the programs are; add what else the nodes need, such as lines with "module load".'
    printf 'export PATH=%q\n' "$PATH"
    printf 'cd -- %q || exit\njobs=(\n' "$PWD"
    printf '  %q\n' "$@"
    printf ')\nlogs=%q\n' "$TABLE/jobs"
    cat <<'SCRIPT'
task=${SLURM_ARRAY_TASK_ID:-none}
if [[ ! $task =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((task >= ${#jobs[@]})); then
  echo "error: SLURM_ARRAY_TASK_ID is $task: give this script to sbatch, or set it to 0 ... $((${#jobs[@]} - 1))." >&2
  exit 2
fi
exec >>"$logs/$task.log" 2>&1
settings=(
SCRIPT
    for given in "${GIVEN[@]}"; do
      [[ $given == @(RUN|GPUS|SEED)=* ]] || printf '  %s\n' "$given"
    done
    printf '  %q\n' "SEEDS=$SEEDS" "SEED=${SEED}" "GPUS=$((GPUS > 0))" "RUN=$(realpath -- "$TABLE")"
    # shellcheck disable=SC2016 # expanded by the shell of the job
    [[ " ${GIVEN_NAMES[*]} " == *' OMP_NUM_THREADS '* ]] || echo '  "OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}"'
    # shellcheck disable=SC2016
    printf ')\nexec env "${settings[@]}" SBATCH= JOB="${jobs[task]}" bash %q\n' "$(realpath -- "$0")"
  } | write_state "$SBATCH"
}

# read_job: set SEED and SYSTEMS to the values in JOB.
read_job() {
  [[ $JOB =~ ^[0-9]+\ [[:alnum:]_][[:alnum:]_.+-]*$ ]] || die "JOB is set by this recipe for its own processes, and is $JOB: unset it."
  SEED=${JOB% *} SYSTEMS=${JOB#* }
}

# begin_job: select the GPU of a JOB, and take the lock for preparations. If several jobs need the same files, one job
# creates them while the others wait.
begin_job() {
  local devices
  if ((GPUS > 0)) && [[ -n ${SLOT:-} ]]; then
    IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s , 0 "$((GPUS - 1))")}"
    export CUDA_VISIBLE_DEVICES=${devices[SLOT % ${#devices[@]}]}
    GPUS=1
  fi
  mkdir -p "$TABLE/jobs"
  exec {alone}>"$TABLE/jobs/.preparing"
  flock "$alone"
}

# beside_others COMMAND...: release the lock for preparations while a command runs, so that jobs can run it in parallel.
beside_others() {
  local status=0
  [[ -z ${JOB:-} ]] || flock -u "$alone"
  "$@" || status=$?
  [[ -z ${JOB:-} ]] || flock "$alone"
  return "$status"
}
