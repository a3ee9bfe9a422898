#!/usr/bin/env bash
# CopyNet's Table 4: dialogues of one turn, as characters. In DS-I, the training set has the same names, places and
# other entities as the test set. In DS-II, the entities of the test set are new. The paper's patterns were never
# released. They are replaced by 173 patterns of this project (preprocess/dialogue_patterns.py).
#
#   bash examples/copynet/dialogue.sh
#
# SETS selects ds1, ds2 or both (default: both). Sizes and beam are the same as for the synthetic rules (section 5.3). A
# system with _query, such as copynet_query, scores the characters that it generates by querying their embeddings
# (WEAN).
set -euo pipefail
: "${SYSTEMS:=copynet rnnsearch}" "${SETS:=ds1 ds2}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${GENERATE:=--train 800 --valid 40 --test 40}"
: "${EPOCHS:=30}" "${GENERATE:=}" "${RATE:=0.001}" "${BATCH:=40}" "${BEAM:=10}" "${DROPOUT:=0.3}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_number BEAM "$BEAM" 10 # the scores need ten hypotheses
need_each SETS "$SETS" "ds1 ds2"
need_systems {copynet,rnnsearch,enc_dec}{,_query}

refuse_limits GENERATE
read -ra size <<<"$GENERATE" # options of the script that generates the data
criterion=model_loss
search=(--search-preset copynet)
# The paper does not describe the training, so Adam with a learning rate of 0.001 is used as in the authors' code.
optimisation=(--optimizer fused_adam --adam-betas '(0.9, 0.999)' --clip-norm 5 --dropout "$DROPOUT" --no-epoch-checkpoints)

main=$RUN
remember "size=${size[*]}"
complete=$RUN/text/ds2/manifest.json prepare dialogue_patterns --seed "$SEED" "${size[@]}"
for set in $SETS; do
  RUN=$main/$set
  mkdir -p "$RUN"
  link_inside "../text/$set" "$RUN/text"
  link_inside "../text/$set" "$RUN/text-$set"
  decay_linearly "$RATE" "$BATCH"
  for system in $SYSTEMS; do
    # Each system has a suitable dictionary of all characters. For new names, CopyNet has to learn to copy unknown
    # characters. Therefore, in its training, characters that occur fewer than 15 times are unknown.
    threshold=2
    [[ $set/$system == ds2/copynet* ]] && threshold=15
    BIN=$RUN/bin-$threshold
    binarise -1 "$threshold" --dataset-impl raw
    # As for the synthetic rules, attention reads the position and the coverage of each character.
    features=()
    [[ ${system%_query} == enc_dec ]] || features=(--location-width 57 --attention-coverage)
    train "$system" "${system%_query}" "${features[@]}" "${schedule[@]}" "${optimisation[@]}"
    generate "$system" "$set" --beam "$BEAM" --nbest 10 --max-len-b 57
  done
  samples "$set" 20
  score "$set" "$RUN/text/test.tgt" -- --preset paper:copynet-dialogue --groups "$RUN/text/test.kind"
done
