#!/usr/bin/env bash
# As quora.sh, on Twitter URL paraphrases.
#
#   DATA=path/to/twitter_url bash examples/dnpg/twitter_url.sh
#
# DATA holds train/valid/test.{src,tgt}, made from the released files by preprocess/twitter_url.py.
set -euo pipefail
: "${DATA:=data/twitter_url}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_twitter_url
DATASET=twitter_url
# shellcheck source=examples/dnpg/paraphrase.sh
source "$(dirname "${BASH_SOURCE[0]}")/paraphrase.sh"
