#!/usr/bin/env bash
# Sentence pairs of your own -> a trained model that rewrites running text, beside a baseline, with scores and a report.
#
#   DATA=pairs.csv bash examples/own_pairs.sh
#
# DATA is a .csv, .tsv or .jsonl with both sides, or two text files ("mine.src mine.tgt"). Beside what every recipe takes:
#   COLUMNS=a,b  names of the source's and the target's column (default: the two that there are)
#   ARCH         what is trained beside the baseline (default: wean_lstm): wean_lstm, copynet, pointer_generator,
#                residual_lstm, paraphrase_transformer, copy_transformer, granularity_transformer and its presets
#   CASE         truecase (default), lowercase, or keep      BPE   merges of byte pair encoding (default: 0 = words)
#   UNIT         moses (default), words, characters, jieba   WIDTH of embeddings and layers (default: fits the pairs)
# Ends with the folder $RUN/model, which wean-generate, wean-inspect and wean_fairseq.load read.
set -euo pipefail
shopt -u checkwinsize # else bash sets COLUMNS to the width of the terminal
RECIPE=own_pairs
: "${ARCH:=wean_lstm}" "${BASELINE:=seq2seq_lstm}" "${CASE:=truecase}" "${BPE:=0}" "${UNIT:=moses}"
[[ ${SMOKE:-0} != 1 ]] || : "${LIMIT:=400}" "${TEST_LIMIT:=20}"
SYSTEMS=$BASELINE
[[ $ARCH == "$BASELINE" ]] || SYSTEMS="$BASELINE $ARCH"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/recipe.sh"
need_tools
[[ -n ${DATA:-} ]] || die "set DATA to your pairs: a .csv, .tsv or .jsonl, or two text files."
read -ra files <<<"$DATA"
[[ -f $DATA ]] && files=("$DATA")
need_files "Set DATA to a .csv, .tsv or .jsonl with both sides, or to two text files." "${files[@]}"

text=(--data "${files[@]}" --unit "$UNIT" --bpe "$BPE" --seed "$SEED" --drop-leaks pairs)
case $CASE in
  truecase | lowercase) text+=("--$CASE") ;;
  keep) ;;
  *) die "CASE is $CASE; choose truecase, lowercase or keep." ;;
esac
# A number alone is the width of somebody's terminal.
if [[ ${COLUMNS:-} == *,* ]]; then text+=(--columns "$COLUMNS"); fi

remember "DATA=$(realpath "${files[@]}" | tr '\n' ' ')" "ARCH=$ARCH" "CASE=$CASE" "BPE=$BPE" "UNIT=$UNIT"
prepare own_pairs "${text[@]}"
grep -o '^own_pairs: \(train\|valid\|test\): [0-9,]* lines' "$RUN/text.log" || true
test_of_text test
# Words seen once become <unk>, so that <unk> itself is trained; pieces of words are all known.
((BPE > 0)) && threshold=0 || threshold=2
binarise 50000 "$threshold" --dataset-impl raw

# Few pairs are learnt by heart by a wide model: it is narrower then, and sees them more often.
pairs=$(wc -l <"$RUN/text/train.src")
if ((pairs < 5000)); then
  : "${WIDTH:=64}" "${EPOCHS:=$([[ $SMOKE == 1 ]] && echo 2 || echo 20)}" "${RATE:=0.003}"
elif ((pairs < 50000)); then
  : "${WIDTH:=128}" "${EPOCHS:=12}" "${RATE:=0.002}"
else
  : "${WIDTH:=256}" "${EPOCHS:=8}" "${RATE:=0.001}"
fi
# settings SYSTEM: sets the criterion, and the arguments `optimisation` and `search` of a system.
settings() {
  local sizes=(--embed-dim "$WIDTH" --hidden-size "$WIDTH") dropout=(--dropout 0.3)
  criterion=model_loss
  search=()
  case $1 in
    wean_lstm* | seq2seq_lstm*) criterion=query_embedding search=(--search-preset wean --replace-unk) ;;
    copynet*) search=(--search-preset copynet) ;;
    pointer_generator*) dropout=() ;; # it has none
    residual_lstm | stacked_lstm) ;; # no attention: nothing to put in the place of <unk>
    paraphrase_transformer | copy_transformer | granularity_transformer*)
      sizes=(--embed-dim "$WIDTH" --ffn-dim $((WIDTH * 4)) --attention-heads 4)
      [[ $1 == copy_transformer ]] || search=(--replace-unk)
      ;;
    *) die "there is no arch $1 for pairs here; the head of examples/own_pairs.sh names those that there are." ;;
  esac
  optimisation=(
    "${sizes[@]}" "${dropout[@]}" --optimizer adam --adam-betas '(0.9, 0.999)' --lr "$RATE" --clip-norm 2
    --lr-scheduler inverse_sqrt --warmup-updates 200 --batch-size 64 --no-epoch-checkpoints --patience 4
  )
}

for system in $SYSTEMS; do
  settings "$system"
  train "$system" "$system" "${optimisation[@]}"
  generate "$system" test --beam 5 --max-len-a 2 --max-len-b 10
done
without_pieces test
samples test 20
score test "$(read_text test)/test.tgt" -- --metric bleu sari rouge-l copy-rate length-ratio
tool wean-report "$RUN" --output "$RUN/report" >"$RUN/report.log"

if [[ ! -f $RUN/model/config.json ]]; then
  wean-export "$RUN/$ARCH/checkpoint_best.pt" --data "$(binary_data)" --text "$RUN/text" --output "$RUN/model" \
    >"$RUN/export.log" 2>&1 || fail "writing the model" "$RUN/export.log"
fi
say "a page about both systems: $RUN/report/report.html"
say "the model, to be used by one of these:"
printf '    wean-generate --model %q --input sentences.txt --output rewritten.txt\n' "$RUN/model"
printf '    python -c '\''import wean_fairseq; print(wean_fairseq.load("%s").generate("..."))'\''\n' "$RUN/model"
