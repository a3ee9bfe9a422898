#!/usr/bin/env bash
# Write every table of the four papers in Markdown. Each table has the published numbers next to the numbers in results/
# with their sources. For missing numbers, it has the command that would measure them. No model is trained or decoded.
#
#   bash examples/paper_tables.sh
#   RELEASED="pwkp=path/to/outputs" bash examples/paper_tables.sh   # scores released outputs again
#
#   RESULTS   folder that wean-evaluate record writes (default: results of this checkout)
#   OUTPUT    new file to write (default: runs/paper_tables.md, which is replaced)
#   RELEASED  SET=FOLDER of each data set whose systems' authors released outputs, see docs/evaluation.md
#   TABLES    only these, see `wean-evaluate paper-tables --help` (default: all)
set -euo pipefail
ROOT=$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${RESULTS:=$ROOT/results}" "${OUTPUT:=}" "${RELEASED:=}" "${TABLES:=}"
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
command -v wean-evaluate >/dev/null || {
  printf "paper_tables: error: wean-evaluate is not on PATH: run 'make setup' once, then 'source .venv/bin/activate'.\n" >&2
  exit 1
}

arguments=(--results "$RESULTS" --output "${OUTPUT:-$ROOT/runs/paper_tables.md}")
[[ -n $OUTPUT ]] || arguments+=(--overwrite)
read -ra released <<<"$RELEASED"
read -ra tables <<<"$TABLES"
((${#released[@]} == 0)) || arguments+=(--released "${released[@]}")
((${#tables[@]} == 0)) || arguments+=(--table "${tables[@]}")
wean-evaluate paper-tables "${arguments[@]}"
