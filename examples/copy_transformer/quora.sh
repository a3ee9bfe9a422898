#!/usr/bin/env bash
# Transformer, Transformer+Copy, and Transformer+Copy whose generated words are scored by querying the embeddings (WEAN),
# on Quora duplicate questions, at the same budget.
#
#   DATA=path/to/quora bash examples/copy_transformer/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}.
set -euo pipefail
: "${DATA:=data/quora}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_quora
DATASET=quora
# shellcheck source=examples/copy_transformer/paraphrase.sh
source "$(dirname "${BASH_SOURCE[0]}")/paraphrase.sh"
