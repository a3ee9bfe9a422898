# shellcheck shell=bash disable=SC2034,SC2154
# Training of the systems of simplification.sh, pwkp.sh and ew_sew.sh, which source this file after recipe.sh. Settings:
#
#   WORD2VEC  global vectors of nts_w2v: Google News, 300 wide, as text (default: learnt from both sides of the training text)
#   GLOVE     vectors of enc_dec_a: GloVe 840B, 300 wide (default: learnt from both sides of the training text)
#   SIZE      paper (default), small: NTS with 256 units and embeddings of 150 + 100, for a CPU, or equal: all systems
#             WIDTH (128) wide, with dropout 0.3 and the optimiser of all_systems.sh. DRESS is trained
#             with rewards by SGD with batches of 16, and its reward models keep their sizes and dropout.
#   CUTOFF    words seen at most this number of times are <unk> to enc_dec_a, as in its authors' code (default: 4; PWKP 3)
#   REWARD_EPOCHS  epochs of DRESS after those of enc_dec_a, as in its authors' code (default: 18)
#   RERANK    systems that are also searched with the re-ranking of NTS, as in RERANK="nts nts_w2v"
#   THRESHOLD  words seen less often are <unk> to the other systems, in simplification.sh (default: 2)
: "${SIZE:=paper}" "${WORD2VEC:=}" "${GLOVE:=}" "${RERANK:=}"
[[ $SMOKE != 1 ]] || : "${REWARD_EPOCHS:=2}" "${WIDTH:=16}"
: "${REWARD_EPOCHS:=18}" "${WIDTH:=128}"

glove_size=() glove_dim=300 query_size=() lexical_size=() dress_dropout=() baseline=256
case $SIZE in
  paper) nts_size=() global_dim=300 local_dim=200 ;;
  small) nts_size=(--embed-dim 250 --hidden-size 256) global_dim=150 local_dim=100 ;;
  equal)
    ((WIDTH % 2 == 0)) || die "SIZE=equal needs an even WIDTH, but WIDTH is $WIDTH."
    nts_size=(--embed-dim "$WIDTH" --hidden-size "$WIDTH") global_dim=$((WIDTH / 2)) local_dim=$((WIDTH / 2))
    glove_size=("${nts_size[@]}") glove_dim=$WIDTH query_size=("${nts_size[@]}") dress_dropout=(--dropout 0.3)
    lexical_size=(--lexical-dim "$WIDTH") baseline=$WIDTH
    [[ -z ${RATES:-} ]] || RATES_dress=${RATES_dress:-0.01} # the reward training of DRESS begins with a trained model
    [[ -z $WORD2VEC$GLOVE ]] || die "SIZE=equal learns all word vectors from the training text: leave WORD2VEC and GLOVE out."
    [[ " $SYSTEMS " != *_adam\ * ]] || die "SIZE=equal trains nts and nts_w2v by Adam: name them in SYSTEMS without _adam."
    ;;
  *) die "SIZE must be paper, small or equal, but is $SIZE." ;;
esac
# In DRESS, the number of words trained by cross entropy falls from 24 to 0. The reward models are small.
dress=(--baseline-width "$baseline" --given-words 24 --fewer-words 3 --fewer-every 2)
auto_encoder_size=(--embed-dim 256 --hidden-size 256 --num-layers 2)
language_model_size=(--decoder-embed-dim 100 --decoder-hidden-size 200 --decoder-out-embed-dim 200)
if [[ $SMOKE == 1 && $SIZE != equal ]]; then
  nts_size=(--embed-dim 20 --hidden-size 16) global_dim=12 local_dim=8
  glove_size=(--embed-dim 12 --hidden-size 16) lexical_size=(--lexical-dim 12) glove_dim=12
fi
if [[ $SMOKE == 1 ]]; then
  [[ $SIZE == equal ]] || baseline=16
  dress=(--baseline-width "$baseline" --given-words 6 --fewer-words 6 --fewer-every 1)
  auto_encoder_size=(--embed-dim 12 --hidden-size 16 --num-layers 1)
  language_model_size=(--decoder-embed-dim 12 --decoder-hidden-size 16 --decoder-out-embed-dim 16)
fi

# NTS (section 2) uses SGD with a rate of 1 on the mean loss per sentence, as in OpenNMT. The rate is halved every epoch
# after the 8th of 15 epochs. For another number of EPOCHS, it is halved after 8/15 of them, rounded up. The checkpoint
# with the best perplexity is kept.
nts_training=(
  --optimizer sgd --lr 1 --lr-scheduler fixed --force-anneal "$(((EPOCHS * 8 + 14) / 15 + 1))" --lr-shrink 0.5
  --clip-norm 5 --sentence-avg --batch-size 64 --max-pair-length 80 --length-policy drop --no-epoch-checkpoints
)
# These are the options of EncDecA's released code, which stops after the first epoch without a better perplexity. The
# systems with _adam are versions of NTS that are trained with these options. They are not in the papers. They are meant
# for runs of a few epochs, which are too short for SGD.
adam=(
  --optimizer fused_adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-8 --lr 0.001 --clip-norm 5 --sentence-avg
  --batch-size 32 --max-pair-length 85 --length-policy drop --no-epoch-checkpoints --patience 1
)

enc_dec_a_training=("${adam[@]}")
query_training=("${wean_optimisation[@]}" --max-pair-length 50 --length-policy drop --no-epoch-checkpoints)
if [[ $SIZE == equal ]]; then
  nts_training=(
    "${equal_optimisation[@]}" --max-pair-length 85 --length-policy drop --no-epoch-checkpoints --dropout 0.3
  )
  enc_dec_a_training=("${nts_training[@]}") query_training=("${nts_training[@]}")
fi

# check_systems: check $SYSTEMS and the files of vectors.
check_systems() {
  local system file
  need_systems nts nts_adam nts_w2v nts_w2v_adam enc_dec_a dress dress_ls wean_lstm seq2seq_lstm
  for system in $RERANK; do
    [[ -n ${JOB:-} || " $SYSTEMS " == *" $system "* ]] || die "RERANK names $system, which is not one of SYSTEMS ($SYSTEMS)."
  done
  for file in ${WORD2VEC:+"$WORD2VEC"} ${GLOVE:+"$GLOVE"}; do
    need_files "Set WORD2VEC and GLOVE to text files of word vectors, or leave them out." "$file"
  done
}

# learn_vectors NAME DIM FILE...: learn skip-gram vectors of every word of FILE..., and write them to $RUN/vectors-NAME/vectors.txt
learn_vectors() {
  local name=$1 dim=$2 folder=$RUN/vectors-$1
  shift 2
  check_prepared "$folder"
  [[ ! -f $folder/manifest.json ]] || return 0
  say "word vectors: training $name, $dim numbers per word (word2vec)"
  python "$ROOT/preprocess/word_vectors.py" --text "$@" --dim "$dim" --window 10 --min-count 1 --epochs 5 \
    --seed "$SEED" --output "$folder" >"$folder.log" 2>&1 || fail "training the word vectors" "$folder.log"
}

# settings SYSTEM: set BIN and the arguments `training`, and create the vector files that the system needs.
settings() {
  local text=$RUN/text global=$WORD2VEC glove=$GLOVE
  local optimisation=("${nts_training[@]}")
  [[ $1 != *_adam ]] || optimisation=("${adam[@]}")
  BIN=$RUN/bin
  case $1 in
    nts | nts_adam) training=("${nts_size[@]}" "${optimisation[@]}") ;;
    nts_w2v | nts_w2v_adam)
      if [[ -z $global ]]; then
        learn_vectors "global-$global_dim" "$global_dim" "$text/train.src" "$text/train.tgt"
        global=$RUN/vectors-global-$global_dim/vectors.txt
      fi
      learn_vectors local-source "$local_dim" "$text/train.src"
      learn_vectors local-target "$local_dim" "$text/train.tgt"
      training=(
        "${nts_size[@]}" --local-dim "$local_dim" --global-vectors "$global"
        --local-source-vectors "$RUN/vectors-local-source/vectors.txt"
        --local-target-vectors "$RUN/vectors-local-target/vectors.txt" "${optimisation[@]}"
      )
      ;;
    enc_dec_a)
      BIN=$RUN/bin-cutoff
      training=("${glove_size[@]}" "${enc_dec_a_training[@]}")
      if [[ -n $glove ]]; then
        training+=(--freeze-vectors) # the authors' code also freezes GloVe vectors
      else
        learn_vectors "global-$glove_dim" "$glove_dim" "$text/train.src" "$text/train.tgt"
        glove=$RUN/vectors-global-$glove_dim/vectors.txt
      fi
      training+=(--global-vectors "$glove")
      ;;
    dress | dress_ls) BIN=$RUN/bin-cutoff ;;
    *) training=("${query_size[@]}" "${query_training[@]}") ;;
  esac
}

# train_in_turn SYSTEM: run train_SYSTEM for a system on which other systems are based. If several jobs need it, one job
# trains it while the others wait.
train_in_turn() {
  local turn
  exec {turn}>>"$RUN/.$1"
  [[ -z ${JOB:-} ]] || beside_others flock "$turn"
  "train_$1"
  exec {turn}>&-
}

# train_enc_dec_a: train EncDecA with its separate dictionary.
train_enc_dec_a() {
  settings enc_dec_a
  binarise -1 "$((CUTOFF + 1))"
  train enc_dec_a enc_dec_a "${training[@]}"
}

# train_rewards: train the reward models of DRESS with EncDecA's dictionary. They are an auto-encoder for source and
# target sentences, and a language model for target sentences. The result is $RUN/dress-rewards.
train_rewards() {
  local folder=$RUN/dress-rewards words=$RUN/bin-cutoff/dict.tgt.txt split
  mkdir -p "$folder/text"
  for split in train valid; do
    awk '!seen[$0]++' "$RUN/text/$split".{src,tgt} >"$folder/text/$split.src"
    cp "$folder/text/$split.src" "$folder/text/$split.tgt"
  done
  TEXT=$folder/text BIN=$folder/bin binarise -1 0 --srcdict "$words"
  BIN=$folder/bin train_once dress-rewards/auto_encoder stacked_lstm "${auto_encoder_size[@]}" --dropout 0.2 "${adam[@]}"
  if [[ ! -f $folder/lines/.complete ]]; then
    clear_data "$folder/lines"
    fairseq-preprocess --only-source --srcdict "$words" --destdir "$folder/lines" --workers "$(nproc)" \
      --trainpref "$RUN/text/train.tgt" --validpref "$RUN/text/valid.tgt" >"$folder/lines.log" 2>&1 ||
      fail fairseq-preprocess "$folder/lines.log"
    touch "$folder/lines/.complete"
  fi
  task=language_modeling criterion=cross_entropy BIN=$folder/lines train_once dress-rewards/language_model lstm_lm \
    "${language_model_size[@]}" --dropout 0.2 --sample-break-mode eos --required-batch-size-multiple 1 \
    --optimizer fused_adam --lr 0.001 --clip-norm 5 --batch-size 32 --no-epoch-checkpoints --patience 1
}

# train_dress: fine-tune EncDecA with rewards, as in the released code of DRESS. Here, the checkpoint is kept whose
# greedy outputs for the validation sentences have the highest reward. The authors' code keeps epoch 16 of 18. The
# reward models in that code are larger and trained differently.
train_dress() {
  train_in_turn enc_dec_a
  train_rewards
  criterion=policy_gradient EPOCHS=$REWARD_EPOCHS train dress enc_dec_a "${glove_size[@]}" "${dress_dropout[@]}" ${GLOVE:+--freeze-vectors} \
    --finetune-from-model "$RUN/enc_dec_a/checkpoint_best.pt" "${dress[@]}" \
    --auto-encoder "$RUN/dress-rewards/auto_encoder/checkpoint_best.pt" \
    --language-model "$RUN/dress-rewards/language_model/checkpoint_best.pt" \
    --optimizer sgd --lr 0.01 --clip-norm 5 --batch-size 16 --max-pair-length 85 --length-policy drop \
    --no-epoch-checkpoints --best-checkpoint-metric reward --maximize-best-checkpoint-metric
}

# train_dress_ls: train the lexical model that is mixed into DRESS, with the attention of DRESS. The released code uses
# EncDecA's attention.
train_dress_ls() {
  train_in_turn dress
  criterion=model_loss train dress_ls dress_ls "${glove_size[@]}" "${lexical_size[@]}" ${GLOVE:+--freeze-vectors} \
    --base-checkpoint "$RUN/dress/checkpoint_best.pt" "${enc_dec_a_training[@]}" --skip-first-target
}

# train_all WORDS THRESHOLD: train each of $SYSTEMS, with a dictionary of at most WORDS words that occur at least
# THRESHOLD times. enc_dec_a and the systems based on it have another dictionary.
train_all() {
  local system
  for system in $SYSTEMS; do
    settings "$system"
    case $system in
      enc_dec_a | dress | dress_ls) train_in_turn "$system" ;;
      *)
        binarise "$1" "$2"
        train "$system" "${system%_adam}" "${training[@]}"
        ;;
    esac
  done
}

# search_beams SYSTEM SET TEXT LENGTH: write the two best hypotheses of each sentence of $RUN/TEXT, at most LENGTH words
# long, to $RUN/SYSTEM/SET-5.log and SET-12.log, one log per beam.
search_beams() {
  local beam
  for beam in 5 12; do
    [[ -e $RUN/text-$2-$beam ]] || link_inside "$3" "$RUN/text-$2-$beam"
    generate "$1" "$2-$beam" --beam "$beam" --nbest 2 --max-len-b "$4"
  done
}

# rerank_all SET LENGTH: decode SET with each of $RERANK, with outputs of at most LENGTH words. Write the outputs to
# SET.txt, and the scores on the validation sentences to SET.choice.{txt,json}, in $RUN/SYSTEM_bleu and
# $RUN/SYSTEM_sari.
rerank_all() {
  local set=$1 length=$2 system metric folder references
  mapfile -t references < <(files_like "$RUN/text" 'valid.ref*')
  ((${#references[@]})) || references=("$RUN/text/valid.tgt")
  mkdir -p "$RUN/text-tune"
  link_inside ../text/valid.src "$RUN/text-tune/test.src"
  link_inside ../text/valid.tgt "$RUN/text-tune/test.tgt"
  for system in $RERANK; do
    [[ " $SYSTEMS " == *" $system "* ]] || continue # another job runs the searches of this system
    settings "$system"
    search_beams "$system" "tune$length" text-tune "$length"
    search_beams "$system" "$set" "text-$set" "$length"
    for metric in bleu sari; do
      folder=$RUN/${system}_$metric
      mkdir -p "$folder"
      tool wean-evaluate rerank --metric "$metric" --tokenize none \
        --src "$RUN/text/valid.src" --ref "${references[@]}" \
        --tune {5="$RUN/$system/tune$length-5",12="$RUN/$system/tune$length-12"}.log \
        --test {5="$RUN/$system/$set-5",12="$RUN/$system/$set-12"}.log \
        --output "$folder/$set.txt" --json "$folder/$set.choice.json" --overwrite >"$folder/$set.choice.txt"
      say "$system on $set, best $metric on validation: beam $(grep -- '<- chosen' "$folder/$set.choice.txt" | tr -s ' ')"
    done
  done
}

# with_reranked: print SYSTEMS, and the names of the outputs that rerank_all created from them.
with_reranked() {
  local system
  printf '%s' "$SYSTEMS"
  for system in $RERANK; do
    printf ' %s' "${system}_bleu" "${system}_sari"
  done
}
