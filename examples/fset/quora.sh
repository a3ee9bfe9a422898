#!/usr/bin/env bash
# C-DNPG's Table 2: FSET (Kazemnejad et al., ACL 2020) against the Transformer on paraphrases, at the same budget. Here,
# FSET retrieves pairs by TF-IDF.
#
#   DATA=path/to/quora bash examples/fset/quora.sh
#   SET=twitter_url DATA=path/to/twitter_url bash examples/fset/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}, such as the output of
# preprocess/twitter_url.py for Twitter URL. The settings follow C-DNPG's Table 2, see systems.sh.
set -euo pipefail
: "${SET:=quora}" "${DATA:=data/$SET}" "${RECIPE:=fset/$SET}" "${SYSTEMS:=transformer fset}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/granularity_transformer/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/../granularity_transformer/systems.sh"
need_tools
need_paraphrases
compare "$SET"
