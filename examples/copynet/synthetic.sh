#!/usr/bin/env bash
# CopyNet's Table 1: rules over 1,000 symbols whose variables must be copied. No data is needed: rules like those of the
# paper are generated, with 20,000 training and 20,000 test instances (preprocess/copynet_rules.py).
#
#   bash examples/copynet/synthetic.sh
#
# The sizes are from the paper (section 5.1: bidirectional GRU, hidden 300, embeddings 150, beam 10). As in the paper,
# an output counts as correct only if it is completely correct. As in the authors' code for this task, attention reads
# the position and the coverage of each source symbol, both in CopyNet and in RNNSearch. Therefore they differ only in
# copying.
set -euo pipefail
: "${SYSTEMS:=copynet rnnsearch enc_dec}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=2}" "${GENERATE:=--rules 10 --train-per-rule 100 --test-per-rule 4}"
: "${EPOCHS:=24}" "${GENERATE:=}" "${RATE:=0.001}" "${BATCH:=40}" "${BEAM:=10}" "${DROPOUT:=0.3}" "${EVALUATE:=500}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_systems copynet rnnsearch enc_dec

refuse_limits GENERATE
read -ra size <<<"$GENERATE" # options of the script that generates the data
criterion=model_loss
search=(--search-preset copynet)
# The paper does not describe the training, so Adam with a learning rate of 0.001 is used as in the authors' code. With
# dropout 0.1, CopyNet overfits its 20,000 instances and copies slightly less accurately.
optimisation=(--optimizer fused_adam --adam-betas '(0.9, 0.999)' --clip-norm 5 --dropout "$DROPOUT" --no-epoch-checkpoints)
# The loss cannot select the best checkpoint. While the outputs improve, it grows: the model becomes confident where the
# source does not determine the boundary between x and y. Therefore the model is validated only at the end, or by BLEU
# of greedy outputs if PATIENCE is set.
validation=(--validate-interval "$EPOCHS")
[[ -z ${PATIENCE:-} ]] || validate_by_bleu "$EVALUATE" 57

remember "size=${size[*]}"
prepare copynet_rules --seed "$SEED" "${size[@]}"
test_of_text test
binarise -1 0 --dataset-impl raw
decay_linearly "$RATE" "$BATCH"
for system in $SYSTEMS; do
  features=()
  [[ $system == enc_dec ]] || features=(--location-width 57 --attention-coverage)
  train "$system" "$system" "${features[@]}" "${schedule[@]}" "${optimisation[@]}" "${validation[@]}"
  generate "$system" test --beam "$BEAM" --max-len-b 57
done
samples test 20
score test "$RUN/text/test.tgt" -- --preset paper:copynet-synthetic --groups "$RUN/text/test.type"
