#!/usr/bin/env bash
# DNPG, and DNPG whose generated words are scored by querying the embeddings (WEAN), on Quora duplicate questions.
#
#   DATA=path/to/quora bash examples/dnpg/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}.
set -euo pipefail
: "${DATA:=data/quora}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_quora
DATASET=quora
# shellcheck source=examples/dnpg/paraphrase.sh
source "$(dirname "${BASH_SOURCE[0]}")/paraphrase.sh"
