# shellcheck shell=bash
# Common part of lcsts_char.sh and lcsts_word.sh. Both scripts set SETTING to a setting of preprocess/lcsts.py.
#
# DATA contains the released PART_I.txt (training), PART_II.txt (validation) and PART_III.txt (test), or
# {train,valid,test}.{src,tgt}, with one text per line and its summary on the same line of .tgt. From PART_II and
# PART_III only pairs with a score of at least 3 are used. The sizes are from the paper (section 5.2: embeddings 350,
# hidden 500; 3,000 characters or 10,000 words). The scores are ROUGE on the characters of the first 40 words. The paper
# does not state the beam size. Here it is 10. For words, the authors' code uses other values:
# SYSTEMS=copynet_lcsts_full WORDS=20000 BEAM=30. (copynet_release and copynet_lcsts_release are earlier names.)
set -euo pipefail
: "${DATA:=data/lcsts}" "${SYSTEMS:=copynet_lcsts rnnsearch_lcsts enc_dec_lcsts}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EMBED_DIM:=32}" "${HIDDEN_SIZE:=48}" "${LIMIT:=400}" "${TEST_LIMIT:=400}"
: "${EPOCHS:=10}" "${EMBED_DIM:=}" "${HIDDEN_SIZE:=}" "${RATE:=0.001}" "${BATCH:=40}" "${BEAM:=10}"
case $SETTING in
  copynet-characters) : "${WORDS:=3000}" ;;
  copynet-words) : "${WORDS:=10000}" ;;
esac
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_lcsts
need_systems {copynet,rnnsearch,enc_dec}{,_lcsts} copynet{,_lcsts}_{full,release}

# Each arch has its own sizes. They are 500 and 750 for copynet_lcsts_full, and 350 and 500 for the others.
sizes=(${EMBED_DIM:+--embed-dim "$EMBED_DIM"} ${HIDDEN_SIZE:+--hidden-size "$HIDDEN_SIZE"})
# shellcheck disable=SC2034 # recipe.sh reads both
criterion=model_loss search=(--search-preset copynet)
# The paper does not describe the training, so Adam with a learning rate of 0.001 is used as in the authors' code.
optimisation=(--optimizer fused_adam --adam-betas '(0.9, 0.999)' --clip-norm 5 --dropout 0.1 --no-epoch-checkpoints)

remember "DATA=$(realpath "$DATA")" "SETTING=$SETTING" "WORDS=$WORDS" "EMBED_DIM=$EMBED_DIM" \
  "HIDDEN_SIZE=$HIDDEN_SIZE"
prepare lcsts --data "$DATA" --setting "$SETTING"
test_of_text test
binarise "$WORDS" 0 --dataset-impl raw
decay_linearly "$RATE" "$BATCH"
for system in $SYSTEMS; do
  train "$system" "$system" "${sizes[@]}" "${schedule[@]}" "${optimisation[@]}" --oov-slots 128
  generate "$system" test --beam "$BEAM" --max-len-b 33 --oov-slots 128
done
samples test 20
score test "$RUN/text/test.tgt" -- --preset paper:copynet-lcsts --lead 15 30
