#!/usr/bin/env bash
# C-DNPG's Table 2: C-DNPG (Gu et al., COLING 2022) against the Transformer on Twitter URL paraphrases, at the same budget.
#
#   DATA=path/to/twitter_url bash examples/granularity_transformer/twitter_url.sh
#   DATA=... VARIANT="r s" bash examples/granularity_transformer/twitter_url.sh
#
# DATA contains train/valid/test.{src,tgt}, which preprocess/twitter_url.py creates from the released files. VARIANT is
# one or more of r (resonance), s (scope), rs (their product), r+s (their mean).
set -euo pipefail
: "${DATA:=data/twitter_url}" "${VARIANT:=r rs}"
: "${SYSTEMS:=transformer cdnpg_${VARIANT// / cdnpg_}}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/granularity_transformer/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
need_tools
need_twitter_url
compare twitter_url
