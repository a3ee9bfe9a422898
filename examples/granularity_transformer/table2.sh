#!/usr/bin/env bash
# C-DNPG's Table 2: ten systems on Quora and Twitter URL, averaged over SEEDS and printed next to the published numbers.
#
#   QUORA=path/to/quora TWITTER_URL=path/to/twitter_url bash examples/granularity_transformer/table2.sh
#
# SETS selects quora, twitter_url or both, SEEDS lists the seeds (the paper has five runs), and SYSTEMS selects the
# rows. The recipe also reads the variables of quora.sh, and can be stopped and started again. The table is printed and
# stored as $RUN/table2.md. JOBS=N trains N systems at the same time.
set -euo pipefail
: "${QUORA:=data/quora}" "${TWITTER_URL:=data/twitter_url}" "${SETS:=quora twitter_url}" "${SEEDS:=1 2 3 4 5}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/granularity_transformer/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
: "${SYSTEMS:=$TABLE2}"
need_tools

# data_of SET: set DATA for this data set. Fail with one sentence if there is no data.
data_of() {
  inputs=()
  case $1 in
    quora)
      DATA=$QUORA
      need_quora
      ;;
    twitter_url)
      DATA=$TWITTER_URL
      need_twitter_url
      ;;
    *) die "there is no data set $1 here; choose from quora and twitter_url." ;;
  esac
}

# Check all of this before the first training, because a training may take days.
check_systems
for set in $SETS; do
  data_of "$set"
done
main=$RUN
for set in $SETS; do
  data_of "$set"
  RUN=$main/$set
  compare "$set"
done
if [[ -n $SEEDS && -z ${JOB:-}$RECIPE_STAGE ]]; then
  tool python "$LIB/published_table.py" cdnpg-table2 --runs "$TABLE" --output "$TABLE/table2.md"
fi
