#!/usr/bin/env bash
# Run the whole pipeline on generated data: text -> fairseq-preprocess -> fairseq-train -> fairseq-generate -> scores.
# It takes a few minutes on two cores. The script has no arguments. All files are written to runs/quickstart. A second
# run shows the results immediately, and an interrupted run continues. SMOKE=1, SEED, EPOCHS and RUN work as in the
# recipes.
set -euo pipefail
RECIPE=quickstart
SYSTEMS=wean_lstm
SENTENCE="The famous physician purchased a car in 1969."
NEIGHBOURS_OF="purchased buy demolished quickly physician children river wealthy"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
refuse_limits SMOKE=1
if [[ $SMOKE == 1 ]]; then
  : "${EPOCHS:=1}"
  pairs=1000 sizes=(--valid 50 --test 50)
  evaluate=8
else
  : "${EPOCHS:=3}"
  pairs=24000 sizes=(--valid 500 --test 1000)
  evaluate=125 # validate three times per epoch
fi
updates=$(((pairs + 63) / 64)) # updates per epoch
((GPUS <= 1)) || GPUS=1
((OMP_NUM_THREADS <= 4)) || OMP_NUM_THREADS=4 # more threads do not help a small model
remember "SMOKE=$SMOKE"
model=${RUN#"$PWD/"}/model

write_text() {
  if [[ -f $RUN/text/manifest.json ]]; then
    check_prepared "$RUN/text"
    say "text: done before"
    return
  fi
  say "text: writing synthetic paraphrase pairs to $RUN/text"
  python "$ROOT/preprocess/synthetic_paraphrase.py" --output "$RUN/text" --overwrite --seed "$SEED" \
    --train "$pairs" "${sizes[@]}" >"$RUN/text.log" 2>&1 || fail "writing the text" "$RUN/text.log"
}

# write_synonyms: write the synonyms of the grammar, one set per line.
write_synonyms() {
  python -P - "$RUN/text/manifest.json" >"$RUN/synonyms.txt" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as manifest:
    print("\n".join(json.load(manifest)["synonym_sets"]))
PYTHON
}

title() { printf '\n== %s\n\n' "$*"; }

write_text
binarise 10000 1
validate_by_bleu "$evaluate" 40
# The paper uses other settings, with a much longer training. With few updates, a learning rate that falls to 0 works
# better. Weight decay shrinks the random initial embeddings, so that mainly the learnt part remains.
train wean_lstm wean_lstm --embed-dim 192 --hidden-size 192 --dropout 0.15 "${wean_optimisation[@]}" "${validation[@]}" \
  --lr 0.005 --weight-decay 1.1 --lr-scheduler polynomial_decay --total-num-update $((updates * EPOCHS))
test_of_text test
generate wean_lstm test --beam 5 --max-len-b 40

if [[ ! -s $RUN/test.json || ! -s $RUN/scores.txt || ! $RUN/scores.txt -nt $RUN/wean_lstm/test.log ]]; then
  tool wean-evaluate --generated WEAN="$RUN/wean_lstm/test.log" --src "$RUN/text-test/test.src" \
    --ref "$RUN/text-test/test.tgt" --metric bleu exact@1 --json "$RUN/test.json" --overwrite --decoded --quiet \
    >"$RUN/scores.txt.part"
  mv "$RUN/scores.txt.part" "$RUN/scores.txt"
fi
export_model wean_lstm "$RUN/model"

report() {
  local rewritten
  rewritten=$(tool wean-generate --model "$RUN/model" <<<"$SENTENCE")
  title "An ordinary sentence, rewritten by the exported model $model"
  printf 'source  %s\nWEAN    %s\n' "$SENTENCE" "$rewritten"
  title "Ten of $(wc -l <"$RUN/text-test/test.src") test sentences"
  cat "$RUN/test.samples.txt"
  title "Scores on the test set (synthetic text: this shows that the model learns, not how good it is on real text)"
  cat "$RUN/scores.txt"
  title "Nearest neighbours in the embedding that encoder, decoder and output layer share"
  local words=() word
  for word in $NEIGHBOURS_OF; do
    if grep -q "^$word " "$RUN/bin/dict.src.txt"; then # a small vocabulary may lack some of these words
      words+=("$word")
    fi
  done
  write_synonyms
  tool wean-plot neighbours "${words[@]}" --checkpoint "$RUN/wean_lstm/checkpoint_best.pt" \
    --dict "$RUN/bin/dict.src.txt" --synonyms "$RUN/synonyms.txt" --output "$RUN/neighbours" --overwrite
  title "Parameters of the output layer at the sizes of the paper (its Table 5)"
  tool wean-evaluate parameters
  title "Training curve"
  tool wean-plot curves WEAN="$RUN/wean_lstm/train.log" --metric loss bleu --training --output "$RUN/curve" --overwrite
}

if [[ ! -s $RUN/report.txt || ! $RUN/report.txt -nt $RUN/scores.txt || ! $RUN/report.txt -nt $RUN/model.sources ]]; then
  say "results: writing $RUN/report.txt"
  samples test 10 >/dev/null
  report >"$RUN/report.txt.part"
  mv "$RUN/report.txt.part" "$RUN/report.txt"
fi
printable <"$RUN/report.txt"
if [[ ! -s $RUN/report/report.html || ! $RUN/report/report.html -nt $RUN/report.txt ]]; then
  tool wean-report "$RUN" --output "$RUN/report" >"$RUN/report.log"
fi
say "report: $RUN/report/report.html"
say "next commands:"
printf '    source .venv/bin/activate\n'
printf '    wean-inspect quickstart=%q   # try sentences in a browser\n' "$model" | printable
printf '    DATA=pairs.csv bash examples/own_pairs.sh   # train on your own sentence pairs\n'
