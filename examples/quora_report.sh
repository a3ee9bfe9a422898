#!/usr/bin/env bash
# Report every Quora system on one page. The script trains and scores missing systems, and then reports on all existing
# systems.
#
#   DATA=path/to/quora bash examples/quora_report.sh
#   FAMILIES="" bash examples/quora_report.sh                            # reports what has been trained, trains nothing
#   FAMILIES="" RUNS="a/run another/run" bash examples/quora_report.sh   # of any run directories
#
#   FAMILIES  recipes to run first, each as examples/FAMILY/quora.sh with the variables of this shell, such as EPOCHS;
#             finished steps are skipped (default: all six)
#   RUN       directory for the runs, instead of the recipes' own, runs/FAMILY/quora
#   RUNS      run directories or files of wean-evaluate record to report (default: the runs, and the seeds of
#             granularity_transformer/table2.sh)
#   OUTPUT    path of the page (default: runs/quora_report)
set -euo pipefail
set -o noglob # so that a `*` in FAMILIES is not expanded to a list of files
ROOT=$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${FAMILIES=wean_lstm copy_transformer granularity_transformer pointer_generator residual_lstm dnpg}"
: "${SMOKE:=0}" "${RUN:=}"
[[ $RUN != -* ]] || RUN=./$RUN
suffix=$([[ $SMOKE != 1 ]] || echo -smoke)
: "${OUTPUT:=${RUN:-$ROOT/runs}/quora_report$suffix}"
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
RECIPE=quora_report
# shellcheck source=examples/lib/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/checks.sh"

for name in fairseq-train wean-report; do
  command -v "$name" >/dev/null || die "$name is not on PATH: run 'make setup' once, then 'source .venv/bin/activate'."
done
for family in $FAMILIES; do
  [[ -f $ROOT/examples/$family/quora.sh ]] || die "there is no recipe examples/$family/quora.sh."
done
for family in $FAMILIES; do
  # Each recipe has its own systems. An empty RUN selects the directory of the recipe.
  env -u SYSTEMS RUN="${RUN:+$RUN/$family}" bash "$ROOT/examples/$family/quora.sh"
done

if [[ -n ${RUNS:-} ]]; then
  read -ra runs <<<"$RUNS"
elif [[ -n $RUN ]]; then
  runs=("$RUN")
else
  set +o noglob
  shopt -s nullglob
  runs=("$ROOT"/runs/*/quora"$suffix"/ "$ROOT"/runs/granularity_transformer/table2"$suffix"/seed*/quora/)
  ((${#runs[@]} > 0)) || die "nothing has been trained yet: leave FAMILIES out, or name run directories in RUNS."
fi
wean-report --output "$OUTPUT" -- "${runs[@]}"
