#!/usr/bin/env bash
# PC-SAN's Tables 4 and 5: variants of the BERT features and of the context in the queries.
#
#   DATA=path/to/zhihu BERT=path/to/bert-base-chinese bash examples/pc_san/ablations.sh
#
# SET selects the data set in DATA: zhihu, essay or commongen (see the recipes of these names).
set -euo pipefail
: "${DATA:=data/zhihu}" "${SYSTEMS:=pc_san no_bert last_layer static_mixture no_context source_context}" "${SET:=zhihu}"
[[ $SET == commongen ]] && : "${LENGTH:=30}" "${SHORTEST:=1}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/pc_san/essays.sh
source "$(dirname "${BASH_SOURCE[0]}")/essays.sh"
need_tools
case $SET in
  commongen) commongen ;;
  zhihu | essay) essays "$SET" ;;
  *) die "SET must be zhihu, essay or commongen, but is $SET." ;;
esac
