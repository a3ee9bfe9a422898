#!/usr/bin/env bash
# Run a training until it is finished. If it is killed or crashes, it is restarted, resumes from its last checkpoint and
# ends with bit-identical results (see docs/reliability.md).
#
#   bash examples/train_until_done.sh fairseq-train DATA --user-dir wean_fairseq --save-dir FOLDER ...
#   bash examples/train_until_done.sh torchrun --standalone --nproc-per-node 8 --no-python fairseq-train DATA ...
#
#   TRIES=5   number of consecutive ends without a new checkpoint after which it gives up
#   WAIT=10   seconds before a restart, doubled after each try without a checkpoint, at most 600
#
# Use --save-interval-updates, because work since the last checkpoint is repeated. The exit statuses are:
#
#   0            the training is finished, or has reached its --stop-time-hours
#   1            it has ended TRIES times in a row without writing a checkpoint
#   2            a restart cannot help: its options are wrong (its exit status is 2), or it printed
#                `wean_fairseq: error: ...`, for example because it diverged, its data is damaged or the disk is full
#   129 130 143  this script was stopped (HUP, INT: Ctrl-C, TERM), and so was the training, which got the same signal
set -euo pipefail

: "${TRIES:=5}" "${WAIT:=10}"
readonly LONGEST=600 DOUBLINGS=10 # 2 ^ 10 seconds are more than LONGEST

# shellcheck source=examples/lib/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/checks.sh"

say() { printf '[until done] %s\n' "$*" | printable >&2; }

die() { # die STATUS WHAT
  say "error: $2"
  exit "$1"
}

(($# > 0)) || die 2 "give the command of a training, such as: fairseq-train DATA --save-dir FOLDER ..."
[[ $TRIES =~ ^[1-9][0-9]{0,5}$ ]] || die 2 "TRIES must be a number of at least 1, but is '$TRIES'."
[[ $WAIT =~ ^(0|[1-9][0-9]{0,5})$ ]] || die 2 "WAIT must be a number of seconds, but is '$WAIT'."
command -v -- "$1" >/dev/null || die 2 "there is no command '$1': run 'make setup' once, then 'source .venv/bin/activate'."

# save_dir ARGUMENTS...: print the folder of the checkpoints.
save_dir() {
  local folder=checkpoints
  while (($# > 0)); do
    case $1 in
      --save-dir) folder=${2:-} ;;
      --save-dir=* | checkpoint.save_dir=*) folder=${1#*=} ;;
    esac
    shift
  done
  printf '%s' "$folder"
}

FOLDER=$(save_dir "$@")
[[ $FOLDER == /* ]] || FOLDER=./$FOLDER # otherwise `find` reads a name such as -delete as an expression
TEMPORARY=$(mktemp -d)
# This variable marks the environment of all processes of the training, also of those that other processes have started.
MARK="WEAN_TRAIN_UNTIL_DONE=$TEMPORARY"
readonly FOLDER TEMPORARY MARK
trap 'rm -rf -- "$TEMPORARY"' EXIT

running='' # the current child process: the training, or the pause before a restart
stopped='' # the signal that was received
pass_on() {
  stopped=$1
  # The training is in another process group, so that it receives only the signal that is passed on.
  [[ -z $running ]] || kill -s "$1" -- "-$running" 2>/dev/null || true
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064
  trap "pass_on $signal" "$signal"
done

# wait_for PROCESS: wait for a process and set `status`. Pass on signals that arrive while it runs.
wait_for() {
  running=$1
  # If the signal arrived before the process started, wait a second, because a process that has just started could
  # miss it.
  [[ -z $stopped ]] || { sleep 1 && pass_on "$stopped"; }
  while true; do
    status=0
    wait "$running" || status=$?
    kill -0 "$running" || break
  done 2>/dev/null
  running=''
}

# start COMMAND...: make one try, unless a signal has arrived. Set `status`, and write the standard error of the try to
# $TEMPORARY/errors.
start() {
  local copying
  rm -f -- "$TEMPORARY/pipe"
  mkfifo "$TEMPORARY/pipe"
  [[ -z $stopped ]] || return 0
  set -m # start children in separate process groups
  tee "$TEMPORARY/errors" <"$TEMPORARY/pipe" >&2 &
  copying=$!
  # This opens the pipe for tee, which would wait forever if the training were killed before it opened the pipe.
  exec 3>"$TEMPORARY/pipe"
  touch "$TEMPORARY/begin"
  env "$MARK" "$@" </dev/null 2>&3 3>&- &
  exec 3>&-
  set +m
  wait_for "$!"
  end_the_rest "$!"
  wait "$copying" 2>/dev/null || true
}

# end_the_rest GROUP: end the remaining processes of a leader that was killed. Otherwise, they would continue to write
# into the folder. They are data workers, other ranks, and the processes of torchrun, which have separate process
# groups.
end_the_rest() {
  local file process
  kill -s KILL -- "-$1" 2>/dev/null || true
  for file in $(grep -lsxzF -- "$MARK" /proc/[0-9]*/environ || true); do
    process=${file#/proc/}
    kill -s KILL "${process%/environ}" 2>/dev/null || true
  done
}

wrote_a_checkpoint() {
  [[ -n $(find "$FOLDER" -mindepth 1 -maxdepth 1 -name 'checkpoint*.pt' -newer "$TEMPORARY/begin" 2>/dev/null) ]]
}

# sentence: print the error message of the plugin about a problem that only the user can solve. A lost process is not
# such a problem, because restarting all processes helps.
sentence() {
  grep -aE '^(wean_fairseq: error: |wean_fairseq\.[a-z_.]+\.[A-Z][A-Za-z]*: )' "$TEMPORARY/errors" |
    grep -av '^wean_fairseq: error: another process of this training' | tail -n 1
}

failures=0 restarts=0
while true; do
  start "$@"
  if [[ -n $stopped ]]; then
    say "stopped by $stopped; the same command goes on from the last checkpoint in $FOLDER"
    exit $((128 + $(kill -l "$stopped")))
  fi
  if ((status == 0)); then
    say "done, after $restarts restart(s): the training is in $FOLDER"
    exit 0
  fi
  if said=$(sentence); then
    die 2 "starting the training again cannot fix this: ${said#*: error: }"
  elif ((status == 2)); then
    die 2 "the command says that it is called wrongly (exit status 2), see above."
  fi
  how="exit status $status"
  ((status <= 128)) || how="killed by $(kill -l $((status - 128)) 2>/dev/null || printf 'a signal')"
  if wrote_a_checkpoint; then
    failures=0
  else
    failures=$((failures + 1))
  fi
  ((failures < TRIES)) ||
    die 1 "the training has ended $failures times in a row without a new checkpoint in $FOLDER, now with $how: see above."
  doublings=$((failures > 1 ? failures - 1 : 0))
  pause=$((WAIT << (doublings < DOUBLINGS ? doublings : DOUBLINGS)))
  ((pause <= LONGEST)) || pause=$LONGEST
  restarts=$((restarts + 1))
  say "the training ended ($how); restart $restarts in $pause seconds"
  set -m
  sleep "$pause" &
  set +m
  wait_for "$!"
  if [[ -n $stopped ]]; then
    say "stopped by $stopped; the same command goes on from the last checkpoint in $FOLDER"
    exit $((128 + $(kill -l "$stopped")))
  fi
done
