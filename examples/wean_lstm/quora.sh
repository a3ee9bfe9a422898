#!/usr/bin/env bash
# WEAN against the Seq2seq baseline on Quora duplicate questions, which are not in the paper.
#
#   DATA=path/to/quora bash examples/wean_lstm/quora.sh
#
# DATA is the published quora_duplicate_questions.tsv or train.csv, from which preprocess/quora.py draws 100,000 / 4,000
# / 20,000 duplicates. It may also be a directory with existing splits train.src, train.tgt, valid.src, ..., with one
# question per line and its duplicate on the same line of .tgt. The settings are the same as for PWKP (2 layers, 256
# wide, dropout 0.4, Adam 0.001, clip 5, batch 64).
#
#   SYSTEMS  wean_lstm, seq2seq_lstm; wean_dot and wean_concat, with other scores; wean_detached, whose embeddings get no
#            gradient from the output layer; lstm, fairseq's own, with input feeding, whose outputs keep their <unk>
#   WIDTH    width of embeddings and states
set -euo pipefail
: "${DATA:=data/quora}" "${SYSTEMS:=wean_lstm seq2seq_lstm}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EVALUATE:=50}" "${LIMIT:=4000}" "${TEST_LIMIT:=200}"
: "${EPOCHS:=4}" "${EVALUATE:=390}" "${WIDTH:=256}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=5}" "${WORDS:=50000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
need_quora

declare -A options=(
  [wean_lstm]='' [seq2seq_lstm]='' [lstm]="--encoder-layers 2 --decoder-layers 2 --dropout 0.4"
  [wean_dot]="--query-score dot" [wean_concat]="--query-score concat" [wean_detached]="--detach-query-embedding"
)
need_systems "${!options[@]}"

remember "DATA=$(realpath "$DATA")" "WIDTH=$WIDTH" "WORDS=$WORDS"
prepare quora --data "$DATA" --lowercase
test_of_text test
# Words that occur only once become <unk>, so that the embedding of <unk> is trained.
binarise "$WORDS" 2
validate_by_bleu "$EVALUATE" 50
for system in $SYSTEMS; do
  arch=$system criterion=query_embedding search=(--replace-unk --search-preset wean)
  sizes=(--embed-dim "$WIDTH" --hidden-size "$WIDTH")
  case $system in
    wean_*) arch=wean_lstm ;;
    lstm)
      criterion=cross_entropy search=(--search-preset wean)
      sizes=(
        --encoder-embed-dim "$WIDTH" --encoder-hidden-size "$WIDTH" --decoder-embed-dim "$WIDTH"
        --decoder-hidden-size "$WIDTH" --decoder-out-embed-dim "$WIDTH"
      )
      ;;
  esac
  read -ra changes <<<"${options[$system]}"
  train "$system" "$arch" "${sizes[@]}" "${changes[@]}" "${wean_optimisation[@]}" "${validation[@]}" \
    --max-pair-length 50 --length-policy drop
  generate "$system" test --beam "$BEAM" --max-len-b 50
done
samples test 20
known_sentences test
score test "$RUN/text-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
  --tokenize none --metric bleu ibleu ibleu-0.7 self-bleu rouge-l copy-rate length-ratio
