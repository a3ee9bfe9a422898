#!/usr/bin/env bash
# WEAN's Table 1: WEAN on PWKP (WikiSmall), with the settings of the paper (section 3.1).
#
#   DATA=path/to/wikismall bash examples/wean_lstm/pwkp.sh
#
# DATA contains the files of the DRESS data bundle: PWKP_108016.tag.80.aner.{train,valid,test}.{src,dst}, with
# placeholders for names, and PWKP_108016.tag.80.aner.ori.test.{src,dst}, with the original names. The model reads the
# text with placeholders. The names are restored in its outputs (from PWKP_108016.tag.80.aner.map.t7 if it exists,
# otherwise from the two forms of the source). The outputs are scored against the original text, lower-cased.
set -euo pipefail
: "${DATA:=data/wikismall}" "${SYSTEMS:=wean_lstm_pwkp seq2seq_lstm}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${EVALUATE:=20}" "${LIMIT:=2000}" "${TEST_LIMIT:=40}"
: "${EPOCHS:=50}" "${EVALUATE:=500}" "${RATE:=0.001}" "${BATCH:=64}" "${BEAM:=10}" "${WORDS:=50000}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
name=$DATA/PWKP_108016.tag.80.aner
need_files "Set DATA to the wikismall directory of the DRESS data bundle (see github.com/XingxingZhang/dress)." \
  "$name".{train,valid,test}.{src,dst} "$name".ori.test.{src,dst}
[[ ! -f $name.map.t7 ]] || inputs+=("$name.map.t7")
need_systems {wean,seq2seq}_lstm{,_lcsts} wean_lstm_pwkp wean_lstm_ew_sew

remember "DATA=$(realpath "$DATA")" "WORDS=$WORDS"
prepare pwkp --data "$DATA" --lowercase
test_of_text test
prepare_test names pwkp --data "$DATA" --form original --split test --lowercase
binarise "$WORDS" 0
validate_by_bleu "$EVALUATE" 50
for system in $SYSTEMS; do
  train "$system" "$system" "${wean_optimisation[@]}" "${validation[@]}" --max-pair-length 50 --length-policy drop
  generate "$system" test --beam "$BEAM" --max-len-b 50
  tool python "$ROOT/preprocess/restore_entities.py" --entities "$RUN/text/test.entities" \
    --generated "$RUN/$system/test.log" --output "$RUN/$system/names.txt" --overwrite
done
samples names 20
score names "$RUN/text-names/test.tgt" -- --preset paper:wean-pwkp --tokenize none
