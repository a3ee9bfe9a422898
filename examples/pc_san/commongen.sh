#!/usr/bin/env bash
# PC-SAN and its baselines on CommonGen, which is not in the paper. A model turns 3 to 5 concept words into an English
# sentence.
#
#   DATA=path/to/commongen BERT=path/to/bert-base-uncased bash examples/pc_san/commongen.sh
#
# DATA contains {train,valid}.{src,tgt}, with concepts and one sentence per line. This data set is larger than the data
# sets of the paper, and it is in English.
set -euo pipefail
: "${DATA:=data/commongen}" "${SYSTEMS:=pc_san transformer mta_lstm}" "${LENGTH:=30}" "${SHORTEST:=1}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/pc_san/essays.sh
source "$(dirname "${BASH_SOURCE[0]}")/essays.sh"
need_tools
commongen
