#!/usr/bin/env bash
# Compare all systems in one table, on the same sentence pairs, with the same words, the same width and the same budget.
#
#   DATA=path/to/quora bash examples/all_systems.sh
#   DATA=... RATES="0.001 0.003" SEEDS="1 2 3" JOBS=2 bash examples/all_systems.sh
#
# DATA is the published file of Quora question pairs, or a directory with {train,valid,test}.{src,tgt}.
#
# This comparison is not in any paper. The embeddings and layers of every system have the width WIDTH (Transformers: 3 +
# 3 layers with 4 heads). The systems read lower-cased words that occur at least twice in the training text. They are
# trained by Adam with the same schedule, are validated by their loss after every epoch, and decode with beam 5. The
# arch determines the layers and the attention.
#
#   SYSTEMS  archs, and lstm, which is fairseq's own (default: all)
#   WIDTH    of embeddings and layers      RATES  learning rates to choose from on validation (default: RATE, 0.001)
#   SENTENCE_MODEL  folder of a sentence encoder: adds the columns similarity-source and similarity-reference
set -euo pipefail
all="seq2seq_lstm lstm wean_lstm residual_lstm rnnsearch copynet pointer_generator nts enc_dec_a paraphrase_transformer
copy_transformer granularity_transformer_resonance granularity_transformer_scope granularity_transformer_product
granularity_transformer_mean dnpg fset"
: "${DATA:=data/quora}" "${SYSTEMS:=${all//$'\n'/ }}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${WIDTH:=16}" "${LIMIT:=400}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=40}" "${PATIENCE:=8}" "${WIDTH:=128}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=5}" "${WORDS:=50000}"
: "${SENTENCE_MODEL:=}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/recipe.sh"
need_tools
need_quora
need_sentence_model
# shellcheck disable=SC2086 # names of systems
need_systems $all

# settings SYSTEM: set the criterion and the arguments `sizes` and `search` of a system, and create its additional data.
# shellcheck disable=SC2034 # recipe.sh reads criterion, BIN and TEXT
settings() {
  local lstm=(--embed-dim "$WIDTH" --hidden-size "$WIDTH")
  local transformer=(
    --embed-dim "$WIDTH" --ffn-dim $((4 * WIDTH)) --attention-heads 4 --encoder-layers 3 --decoder-layers 3
  )
  criterion=model_loss BIN='' TEXT=''
  search=(--replace-unk)
  case $1 in
    wean_lstm | seq2seq_lstm)
      criterion=query_embedding sizes=("${lstm[@]}" --dropout 0.3)
      search=(--replace-unk --search-preset wean)
      ;;
    lstm)
      criterion=cross_entropy search=(--search-preset wean)
      sizes=(--encoder-layers 2 --decoder-layers 2 --dropout 0.3)
      sizes+=(--encoder-embed-dim "$WIDTH" --encoder-hidden-size "$WIDTH" --decoder-embed-dim "$WIDTH")
      sizes+=(--decoder-hidden-size "$WIDTH" --decoder-out-embed-dim "$WIDTH")
      ;;
    copynet) sizes=("${lstm[@]}" --dropout 0.3) search=(--search-preset copynet) ;;
    rnnsearch) sizes=("${lstm[@]}" --dropout 0.3) search=(--replace-unk --search-preset copynet) ;;
    pointer_generator) sizes=("${lstm[@]}") search=() ;; # this arch has no dropout
    residual_lstm) sizes=("${lstm[@]}" --dropout 0.3) search=() ;; # this arch has no attention to replace <unk>
    nts | enc_dec_a) sizes=("${lstm[@]}" --dropout 0.3) ;;
    copy_transformer) sizes=("${transformer[@]}" --dropout 0.3) search=() ;;
    paraphrase_transformer | granularity_transformer_*) sizes=("${transformer[@]}" --dropout 0.3) ;;
    dnpg)
      weak_labels
      sizes=(
        --granularity-labels "$RUN/labels" --phrase-dim "$WIDTH" --phrase-heads 4 --sentence-dim $((WIDTH / 2))
        --sentence-heads 4 --dropout 0.3 --best-checkpoint-metric nll_loss
      )
      search=()
      ;;
    fset)
      similar_pairs
      sizes=("${transformer[@]}" --edit-dim "$WIDTH" --share-embeddings --dropout 0.3) search=()
      ;;
  esac
}

of_seed=$RUN RUN=$TABLE
remember_data "DATA=$(realpath "$DATA")" "WIDTH=$WIDTH" "WORDS=$WORDS" "BATCH=$BATCH"
prepare quora --data "$DATA" --lowercase
test_of_text test
# Words that occur only once become <unk>, so that the embedding of <unk> is trained.
binarise "$WORDS" 2 --dataset-impl raw
RUN=$of_seed
share_data

decoding=(--beam "$BEAM" --max-len-a 2 --max-len-b 10)
for system in $SYSTEMS; do
  settings "$system"
  train "$system" "$system" "${sizes[@]}" "${equal_optimisation[@]}" --no-epoch-checkpoints
  generate "$system" test "${decoding[@]}"
done
samples test 20
metrics=(bleu ibleu ibleu-0.7 sari self-bleu copy-rate length-ratio)
[[ -z $SENTENCE_MODEL ]] || metrics+=(similarity-source similarity-reference)
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" --tokenize none \
  --metric "${metrics[@]}" ${SENTENCE_MODEL:+--sentence-model "$SENTENCE_MODEL"}
