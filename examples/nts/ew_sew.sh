#!/usr/bin/env bash
# WEAN's Table 2: NTS, NTS-w2v and EncDecA on EW-SEW (English Wikipedia -> Simple English Wikipedia). SYSTEMS="enc_dec_a
# dress dress_ls" adds DRESS and DRESS-LS, which their paper trains on WikiLarge.
#
#   DATA=path/to/NeuralTextSimplification/data TURK=path/to/turkcorpus bash examples/nts/ew_sew.sh
#
# DATA and TURK are the same as for examples/wean_lstm/ew_sew.sh. By default, NTS uses the best hypothesis of beam 5.
# With RERANK="nts nts_w2v", the beam and hypothesis that are best on the tuning sentences are also scored, as in NTS.
# systems.sh describes the word vectors and sizes.
set -euo pipefail
: "${DATA:=data/ew_sew}" "${TURK:=data/turkcorpus}" "${SYSTEMS:=nts nts_w2v enc_dec_a}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=1000}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=15}" "${BEAM:=5}" "${WORDS:=50000}" "${CUTOFF:=4}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/lib/simplification.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/simplification.sh"
need_tools
need_ew_sew

# shellcheck source=examples/nts/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
check_systems
remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "SIZE=$SIZE" "WORD2VEC=$WORD2VEC" "GLOVE=$GLOVE" \
  "CUTOFF=$CUTOFF" "WORDS=$WORDS"
prepare_ew_sew
train_all "$WORDS" 0
for system in $SYSTEMS; do
  settings "$system"
  generate "$system" turk --beam "$BEAM" --max-len-b 100
done
rerank_all turk 100
SYSTEMS=$(with_reranked)
score_ew_sew
