#!/usr/bin/env bash
# WEAN's Tables 1 and 3: EncDecA, NTS and NTS-w2v on PWKP (WikiSmall). SYSTEMS="enc_dec_a dress dress_ls" adds DRESS and
# DRESS-LS.
#
#   DATA=path/to/wikismall bash examples/nts/pwkp.sh
#
# DATA contains the files of the DRESS data bundle, as for examples/wean_lstm/pwkp.sh. The systems read text in which
# names are replaced by placeholders. The names are restored in their outputs, which are scored against the original
# text in lower case. systems.sh describes the word vectors and sizes.
set -euo pipefail
: "${DATA:=data/wikismall}" "${SYSTEMS:=enc_dec_a nts nts_w2v}"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${LIMIT:=1000}" "${TEST_LIMIT:=20}"
: "${EPOCHS:=15}" "${BEAM:=5}" "${WORDS:=50000}" "${CUTOFF:=3}"
# shellcheck source=examples/lib/recipe.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/recipe.sh"
need_tools
name=$DATA/PWKP_108016.tag.80.aner
need_files "Set DATA to the wikismall directory of the DRESS data bundle (see github.com/XingxingZhang/dress)." \
  "$name".{train,valid,test}.{src,dst} "$name".ori.test.{src,dst}
[[ ! -f $name.map.t7 ]] || inputs+=("$name.map.t7")

# shellcheck source=examples/nts/systems.sh
source "$(dirname "${BASH_SOURCE[0]}")/systems.sh"
check_systems
remember "DATA=$(realpath "$DATA")" "SIZE=$SIZE" "WORD2VEC=$WORD2VEC" "GLOVE=$GLOVE" "CUTOFF=$CUTOFF" \
  "WORDS=$WORDS"
prepare pwkp --data "$DATA" --lowercase
test_of_text test
prepare_test names pwkp --data "$DATA" --form original --split test --lowercase
train_all "$WORDS" 0
for system in $SYSTEMS; do
  settings "$system"
  generate "$system" test --beam "$BEAM" --max-len-b 50
  tool python "$ROOT/preprocess/restore_entities.py" --entities "$RUN/text/test.entities" \
    --generated "$RUN/$system/test.log" --output "$RUN/$system/names.txt" --overwrite
done
rerank_all test 50
for system in $RERANK; do
  for folder in "$RUN/$system"_{bleu,sari}; do
    tool python "$ROOT/preprocess/restore_entities.py" --entities "$RUN/text/test.entities" \
      --input "$folder/test.txt" --output "$folder/names.txt" --overwrite
  done
done
SYSTEMS=$(with_reranked)
samples names 20
score names "$RUN/text-names/test.tgt" -- --preset paper:wean-pwkp --tokenize none
