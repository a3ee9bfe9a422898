#!/usr/bin/env bash
# NTS, NTS-w2v and EncDecA compared with WEAN on public simplification pairs, tested on PWKP-100 and Turk-359. The
# papers use other training data.
#
#   DATA=path/to/simplification TURK=path/to/turkcorpus PWKP=path/to/pwkp bash examples/nts/simplification.sh
#
# The training data is the data of examples/wean_lstm/simplification.sh instead of the papers' data. The README in that
# folder describes it. All systems make EPOCHS passes over it. Words that occur fewer than THRESHOLD times are <unk>.
# systems.sh describes the sizes and word vectors. With SIZE=equal, the tables also show iBLEU with two weights and
# self-BLEU.
#
#   SENTENCE_MODEL  folder of a sentence encoder: adds similarity-source and similarity-reference to the tables
set -euo pipefail
: "${DATA:=data/simplification}" "${TURK:=data/turkcorpus}" "${PWKP:=data/pwkp}"
: "${SYSTEMS:=nts nts_w2v enc_dec_a wean_lstm}" "${SENTENCE_MODEL:=}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=1000}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=15}" "${BEAM:=5}" "${WORDS:=50000}" "${THRESHOLD:=2}" "${CUTOFF:=4}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
# shellcheck source=examples/lib/simplification.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/simplification.sh"
need_tools
need_public_pairs
need_sentence_model

# shellcheck source=examples/nts/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
check_systems
remember "DATA=$(realpath "$DATA")" "TURK=$(realpath "$TURK")" "PWKP=$(realpath "$PWKP")" "SIZE=$SIZE" \
  "WORD2VEC=$WORD2VEC" "GLOVE=$GLOVE" "CUTOFF=$CUTOFF" "THRESHOLD=$THRESHOLD" "WORDS=$WORDS"
say "note: this training set replaces those of the papers, so no score below compares with their tables"

prepare_public_pairs
# Some words have to become <unk> in training, so that the embedding of <unk> is trained.
train_all "$WORDS" "$THRESHOLD"
for system in $SYSTEMS; do
  settings "$system"
  generate "$system" pwkp --beam "$BEAM" --max-len-b 50
  generate "$system" turk --beam "$BEAM" --max-len-b 100
done
rerank_all pwkp 50
rerank_all turk 100
SYSTEMS=$(with_reranked)
[[ $SIZE != equal ]] || more_metrics=(--metric ibleu ibleu-0.7 self-bleu)
[[ -z $SENTENCE_MODEL ]] ||
  more_metrics=("${more_metrics[@]:---metric}" similarity-source similarity-reference --sentence-model "$SENTENCE_MODEL")
score_public_pairs
say "note: this training set replaces those of the papers, so no score above compares with their tables"
