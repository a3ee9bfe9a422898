#!/usr/bin/env bash
# C-DNPG's Table 2: nine systems on Quora and Twitter URL, averaged over SEEDS, printed beside the published numbers.
#
#   QUORA=path/to/quora TWITTER_URL=path/to/twitter_url bash examples/granularity_transformer/table2.sh
#
# SETS chooses among quora and twitter_url, SEEDS gives the seeds (the paper: five runs), SYSTEMS the rows. It takes the
# variables of quora.sh too, and can be stopped and started again; the table is printed and kept as $RUN/table2.md.
set -euo pipefail
: "${QUORA:=data/quora}" "${TWITTER_URL:=data/twitter_url}" "${SETS:=quora twitter_url}" "${SEEDS:=1 2 3 4 5}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/granularity_transformer/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
: "${SYSTEMS:=$TABLE2}"
need_tools

table=$RUN
for set in $SETS; do
  if [[ $set == quora ]]; then DATA=$QUORA; else DATA=$TWITTER_URL; fi
  "need_$set"
  for SEED in $SEEDS; do
    RUN=$table/$set/seed$SEED
    compare "$set"
  done
done
tool "$LIB/published_table.py" cdnpg-table2 --runs "$table" --output "$table/table2.md"
