#!/usr/bin/env bash
# C-DNPG's Table 2: C-DNPG (Gu et al., COLING 2022) against the Transformer on Quora duplicate questions, at the same
# budget. The random split differs from the paper, and BPE replaces BERT's word pieces unless VOCAB is given.
#
#   DATA=path/to/quora bash examples/granularity_transformer/quora.sh
#   DATA=... VARIANT="r s" bash examples/granularity_transformer/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}. VARIANT is one or more of
# r (resonance), s (scope), rs (their product), r+s (their mean).
set -euo pipefail
: "${DATA:=data/quora}" "${VARIANT:=r rs}"
: "${SYSTEMS:=transformer cdnpg_${VARIANT// / cdnpg_}}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/granularity_transformer/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
need_tools
need_quora
compare quora
