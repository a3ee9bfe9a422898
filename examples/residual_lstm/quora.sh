#!/usr/bin/env bash
# C-DNPG's Table 2: Residual LSTM on paraphrases with words, trained as in its paper and with Adam.
#
#   DATA=path/to/quora bash examples/residual_lstm/quora.sh
#   SET=twitter_url DATA=path/to/twitter_url bash examples/residual_lstm/quora.sh
#
# DATA is the file of the public question pairs, or a directory with train/valid/test.{src,tgt}, such as the output of
# preprocess/twitter_url.py for Twitter URL.
#
# The sizes are from the paper (Prakash et al., COLING 2016: 4 layers of 512 units, embeddings 512, dropout 0.5). The
# first system also has the optimiser of the paper: SGD for 10 epochs with a rate of 1, halved after every third epoch.
# The paper does not state the clipping, which is 5 here. The second system is the same network with Adam, which the
# later paraphrase literature uses for its LSTM baselines. The text has 8,000 words and at most 20 words per sentence,
# as in DNPG's table.
# shellcheck disable=SC2034,SC2154
set -euo pipefail
: "${SET:=quora}" "${DATA:=data/$SET}" "${RECIPE:=residual_lstm/$SET}"
: "${SYSTEMS:=residual_lstm residual_lstm_adam}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${SIZES:=--embed-dim 32 --hidden-size 32}" "${LIMIT:=400}" "${TEST_LIMIT:=20}"
# RATE is the learning rate of Adam.
: "${EPOCHS:=10}" "${SIZES:=}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=8}" "${WORDS:=8000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_paraphrases

criterion=model_loss
search=(--max-pair-length 20 --length-policy truncate)
read -ra sizes <<<"$SIZES"

# The learning rate of each epoch. The last one applies to all later epochs.
sgd=(--optimizer sgd --lr '1,1,1,0.5,0.5,0.5,0.25,0.25,0.25,0.125' --lr-scheduler fixed --clip-norm 5 --sentence-avg)
adam=(--optimizer fused_adam --adam-betas '(0.9, 0.999)' --lr "$RATE" --clip-norm 2)
need_systems {residual,stacked}_lstm{,_adam}

remember "DATA=$(realpath "$DATA")" "SIZES=$SIZES" "WORDS=$WORDS"
prepare "$SET" --data "$DATA" --lowercase
test_of_text test
binarise "$WORDS" 0
for system in $SYSTEMS; do
  optimisation=("${sgd[@]}")
  if [[ $system == *_adam ]]; then
    optimisation=("${adam[@]}")
  fi
  train "$system" "${system%_adam}" "${sizes[@]}" "${optimisation[@]}" --batch-size "$BATCH" \
    --max-pair-length 20 --length-policy truncate --no-epoch-checkpoints
  generate "$system" test --beam "$BEAM" --max-len-b 20
done
samples test 20
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
  --tokenize none --preset paper:cdnpg-fixed standard
