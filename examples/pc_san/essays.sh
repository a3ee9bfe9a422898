# shellcheck shell=bash disable=SC2034,SC2154
# Essays from topic words. This is the common part of zhihu.sh, essay.sh, commongen.sh, ablations.sh and the baselines'
# recipes. They source this file after recipe.sh, and call `essays NAME` or `commongen`.
#
#   BERT      local directory of a transformers model; the paper's is BERT-base, Chinese (default: a tiny BERT, trained on
#             the text)
#   BERT_UPDATES  updates of the tiny BERT (default: 2,000)
#   VECTORS   text file of initial word vectors for every system, as wide as its embeddings; train (default) = word2vec on
#             the training text; none
#   SIZE      paper (default), or small, which trains on a CPU
#   WARMUP    updates until the rate of the Transformers is highest (default: 4,000)
#   OPTIMISER  adam (default) or adadelta, for the LSTMs and PPG
#   LENGTH, SHORTEST  maximum and minimum length of an output in words (default: 120 and 50, as in the paper; CommonGen 30
#             and 1)
#   NGRAM     length of n-grams that may not repeat in an output (default: 0 = no restriction)
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${SIZE:=small}" "${BERT_UPDATES:=5}" "${LENGTH:=20}" "${SHORTEST:=1}" \
  "${LIMIT:=300}" "${TEST_LIMIT:=10}"
: "${EPOCHS:=20}" "${SIZE:=paper}" "${RATE:=0.0005}" "${WARMUP:=4000}" "${BATCH:=32}" "${BEAM:=5}" "${WORDS:=50000}" \
  "${LENGTH:=120}" "${SHORTEST:=50}" "${NGRAM:=0}" "${BERT:=}" "${BERT_UPDATES:=2000}" "${VECTORS:=train}"
declare -A arch=(
  [pc_san]=pc_san [transformer]=essay_transformer [mta_lstm]=mta_lstm [tat_lstm]=mta_lstm [tav_lstm]=mta_lstm
  [sc_lstm]=sc_lstm [ppg]=ppg
  # These systems are the ablations in Tables 4 and 5 of the paper.
  [no_bert]=pc_san [last_layer]=pc_san [static_mixture]=pc_san [no_context]=pc_san [source_context]=pc_san
)
declare -A change=(
  [tat_lstm]="--topic-mode tat" [tav_lstm]="--topic-mode tav"
  [no_bert]="--bert-layers none" [last_layer]="--bert-layers last" [static_mixture]="--bert-layers static"
  [no_context]="--context none" [source_context]="--context source"
)
task=topic_essay
forbidden=()
case $SIZE in
  paper) suffix='' transformer_width=768 lstm_width=300 ppg_width=512 ;;
  small) suffix=_small transformer_width=128 lstm_width=128 ppg_width=128 ;;
  *) die "SIZE must be paper or small, but is $SIZE." ;;
esac
# The best checkpoint has the best likelihood, because the loss of MTA-LSTM has an additional term.
validation=(--best-checkpoint-metric nll_loss --patience 5)

# essays NAME: run the comparison on zhihu or essay, as released with MTA-LSTM or in plain files.
essays() {
  local source=(--data "$DATA")
  if [[ -f $DATA/TrainingData.txt ]]; then
    need_files "Set DATA to a directory with both files of the corpus." "$DATA"/{TrainingData,TestData}.txt
    source=(--train "$DATA/TrainingData.txt" --test "$DATA/TestData.txt")
  else
    need_files "Set DATA to a directory with the $1 corpus: TrainingData.txt and TestData.txt as released with MTA-LSTM, \
or {train,valid,test}.{src,tgt}." "$DATA"/{train,valid,test}.{src,tgt}
  fi
  begin
  # The released corpora write <UNK> for their own unknown words. Outputs must not contain it.
  prepare essay "${source[@]}" --seed "$SEED" --max-topics 5 --unknown '<UNK>'
  forbidden=(--unkpen 1000)
  test_of_text test
  references=("$RUN/text-test/test.tgt")
  compare
}

# commongen: run the comparison on CommonGen, where 3 to 5 concept words become a sentence. The public development set,
# whose references are known, is the test set. It is not used for any choice. The model is validated only at the end,
# and the last checkpoint counts as the best.
commongen() {
  [[ -z ${PATIENCE:-} ]] || die "this recipe validates only at the end, so that PATIENCE has no effect: leave it out."
  need_files "Set DATA to a directory with CommonGen: {train,valid}.{src,tgt}." "$DATA"/{train,valid}.{src,tgt}
  begin
  prepare commongen --data "$DATA" --unit moses --lowercase
  LIMIT=${TEST_LIMIT:-} prepare_test test commongen --data "$DATA" --unit moses --lowercase --references
  ln -sf valid.src "$RUN/text-test/test.src"
  ln -sf valid.ref0 "$RUN/text-test/test.tgt"
  mapfile -t references < <(files_like "$RUN/text-test" 'valid.ref*')
  validation=(--best-checkpoint-metric num_updates --maximize-best-checkpoint-metric --validate-interval "$EPOCHS")
  compare
}

# begin: fail with one sentence, before any file is created, if the settings are impossible. Otherwise record the
# settings.
begin() {
  local system width files
  need_systems "${!arch[@]}"
  if [[ -n $BERT ]]; then
    [[ -d $BERT ]] || die "there is no directory $BERT: set BERT to a local transformers directory, or leave it out."
    BERT=$(realpath "$BERT")
    need_files "Set BERT to a local transformers directory, or leave it out." "$BERT/config.json"
    mapfile -d '' -t files < <(find "$BERT" -maxdepth 1 -type f -print0 | LC_ALL=C sort -z)
    inputs+=("${files[@]}")
  fi
  if [[ $VECTORS != train && $VECTORS != none ]]; then
    need_files "Set VECTORS to a text file of word vectors, to train, or to none." "$VECTORS"
    VECTORS=$(realpath "$VECTORS")
    width=$(awk '{ print NF == 2 ? $2 : NF - 1; exit }' "$VECTORS")
    for system in $SYSTEMS; do
      [[ $width == "$(width_of "$system")" ]] ||
        die "$VECTORS has $width numbers per word, but $system reads $(width_of "$system"): name SYSTEMS that they fit."
    done
  fi
  remember "DATA=$(realpath "$DATA")" "SIZE=$SIZE" "BERT=$BERT" "VECTORS=$VECTORS" "WARMUP=$WARMUP" "WORDS=$WORDS" \
    ${OPTIMISER:+"OPTIMISER=$OPTIMISER"} "BERT_UPDATES=$BERT_UPDATES"
}

# width_of SYSTEM: print the width of the system's initial word vectors.
width_of() {
  case $1 in
    mta_lstm | tat_lstm | tav_lstm | sc_lstm) echo "$lstm_width" ;;
    ppg) echo "$ppg_width" ;;
    *) echo "$transformer_width" ;;
  esac
}

# compare: train and decode each of $SYSTEMS on $RUN/text, and score them on the test set "test" against $references.
compare() {
  local system
  binarise "$WORDS" 0 --dataset-impl raw
  for system in $SYSTEMS; do
    BIN=$RUN/bin
    settings "$system"
    train "$system" "${arch[$system]}$suffix" "${optimisation[@]}" "${inputs[@]}" --no-epoch-checkpoints "${validation[@]}"
    generate "$system" test --beam "$BEAM" --lenpen 1 --min-len "$SHORTEST" --max-len-b "$LENGTH" \
      --no-repeat-ngram-size "$NGRAM" "${forbidden[@]}"
    [[ $system != ppg ]] || tool python "$ROOT/preprocess/clause_chunks.py" --generated "$RUN/ppg/test.log" \
      --output "$RUN/ppg/test.txt" --overwrite
    # These systems have the layer mixtures that Figure 3 of the paper shows.
    [[ ! $system =~ ^(pc_san|static_mixture|no_context|source_context)$ ]] ||
      tool wean-plot layers "$RUN/$system/checkpoint_best.pt" --output "$RUN/$system/mixture" --overwrite >/dev/null
  done
  samples test 20
  score test "${references[@]}" -- --tokenize none --preset paper:pc-san standard
}

# settings SYSTEM: set the arguments `criterion`, `optimisation`, `inputs` (only for training) and `search`, and create
# the system's input files.
settings() {
  local system=$1
  criterion=model_loss search=(--max-topics 5) inputs=(--max-topics 5)
  case $system in
    transformer)
      criterion=query_embedding
      optimisation=("${noam[@]}")
      vectors "$(width_of transformer)" --encoder-embed-path --decoder-embed-path
      ;;
    mta_lstm | tat_lstm | tav_lstm | sc_lstm | ppg)
      optimisation=("${recurrent[@]}")
      vectors "$(width_of "$system")"
      [[ $system == mta_lstm ]] && search+=(--essay-length "$(mean_length)")
      if [[ $system == ppg ]]; then
        chunks
      fi
      ;;
    *)
      optimisation=("${noam[@]}")
      vectors "$(width_of "$system")"
      if [[ $system != no_bert ]]; then
        tiny_bert
        search+=(--bert "$BERT" --bert-cache "$RUN/bert-features")
      fi
      inputs=("${search[@]}" "${inputs[@]:2}")
      ;;
  esac
  # shellcheck disable=SC2206
  inputs+=(${change[$system]:-})
}

# `noam` has the settings of PC-SAN (section 4.2), and the learning rate and warm-up of Vaswani et al. for its width.
# The LSTMs use the settings of MTA-LSTM's released code, or with OPTIMISER=adadelta the optimiser of the MTA-LSTM and
# PPG papers.
noam=(
  --optimizer fused_adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr "$RATE" --lr-scheduler inverse_sqrt
  --warmup-updates "$WARMUP" --batch-size "$BATCH" --label-smoothing 0.1
)
recurrent=(--optimizer fused_adam --lr 0.001 --clip-norm 10 --batch-size "$BATCH")
case ${OPTIMISER:-adam} in
  adam) ;;
  adadelta) recurrent=(--optimizer adadelta --lr 1 --clip-norm 10 --batch-size "$BATCH") ;;
  *) die "OPTIMISER must be adam or adadelta, but is $OPTIMISER." ;;
esac

# tiny_bert: if BERT is empty, set it to the folder of a tiny BERT trained on the training text.
tiny_bert() {
  [[ -z $BERT ]] || return 0
  BERT=$RUN/bert
  check_prepared "$BERT"
  [[ -f $BERT/manifest.json ]] && return
  say "BERT: training a tiny one on the essays (BERT_UPDATES=$BERT_UPDATES); give a real one as BERT=DIR"
  python "$ROOT/preprocess/make_tiny_bert.py" --text "$RUN/text/train.tgt" "$RUN/text/train.src" --output "$BERT" \
    --updates "$BERT_UPDATES" --seed "$SEED" >"$RUN/bert.log" 2>&1 || fail "training the tiny BERT" "$RUN/bert.log"
}

# vectors WIDTH [OPTION...]: add $VECTORS, or vectors trained on the text, to `inputs`, as --topic-vectors or as the
# given options.
vectors() {
  local file=$VECTORS option
  [[ $VECTORS != none ]] || return 0
  if [[ $VECTORS == train ]]; then
    file=$RUN/vectors-$1/vectors.txt
    check_prepared "$RUN/vectors-$1"
    if [[ ! -f $RUN/vectors-$1/manifest.json ]]; then
      say "word vectors: training $1 dimensions on the text (word2vec)"
      python "$ROOT/preprocess/word_vectors.py" --text "$RUN/text/train.tgt" "$RUN/text/train.src" --dim "$1" \
        --seed "$SEED" --output "$RUN/vectors-$1" >"$RUN/vectors.log" 2>&1 ||
        fail "training the word vectors" "$RUN/vectors.log"
    fi
  fi
  for option in "${@:2}"; do
    inputs+=("$option" "$file")
  done
  (($# > 1)) || inputs+=(--topic-vectors "$file")
}

# chunks: write the essays, split into chunks for PPG, and their binary data.
chunks() {
  BIN=$RUN/bin-chunks
  check_prepared "$RUN/chunks"
  if [[ ! -f $RUN/chunks/manifest.json ]]; then
    # The prepared text contains <unk> for unknown words. A literal <unk> in the original text was escaped.
    python "$ROOT/preprocess/clause_chunks.py" --data "$RUN/text" --output "$RUN/chunks" --unknown '<unk>' \
      >"$RUN/chunks.log" 2>&1 || fail "cutting the essays" "$RUN/chunks.log"
  fi
  TEXT=$RUN/chunks binarise "$WORDS" 0 --dataset-impl raw
}

# mean_length: print the mean length of the training essays, including the end symbol, for MTA-LSTM's target length.
mean_length() {
  awk '{ words += NF + 1 } END { printf "%d", words / NR + 0.5 }' "$RUN/text/train.tgt"
}
