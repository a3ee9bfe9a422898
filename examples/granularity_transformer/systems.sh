# shellcheck shell=bash disable=SC2034,SC2154
# The systems of C-DNPG's Table 2, all on the same word pieces. quora.sh, twitter_url.sh and table2.sh source this file
# after recipe.sh and call `compare`.
#
# The settings are from the paper (section 4). In all systems, source and target have at most 20 word pieces, and the
# beam is 8. The Transformers have 3 + 3 layers, 450 wide, 9 heads, and AdamW with a linear warm-up to 5e-5 and a linear
# decay to 0 over 100,000 updates of 32 pairs (32 epochs of Quora). Baselines from other papers are trained as these
# papers describe, or as RBM (Li et al., EMNLP 2018) trained them on the same data. SIZES, RATE, WARMUP, BATCH and
# EPOCHS adapt the run to the machine.
#
# FSET reads every sentence followed by a similar training pair ($RUN/pairs). It has the sizes in the research code of
# its authors, unless SIZES overrides them. FSET_SIZES adds further options, such as "--edit-layers 2".
#
# A system with _skip, such as transformer_skip, excludes the first target word from the loss, as the C-DNPG authors' code does.
#
#   VOCAB    vocab.txt of bert-base-uncased, for the paper's word pieces (default: learn MERGES from the training text)
#   MERGES   merges of byte pair encoding (default: 8,000)
#   VARIANT  in quora.sh and twitter_url.sh: r (resonance), s (scope), rs (their product), r+s (their mean), or several
#   SIZES, RATE, WARMUP  options, learning rate and warm-up of the Transformers (default: the paper's)
#   FSET_SIZES  more options of FSET, as in FSET_SIZES="--edit-layers 2"
#   QUORA, TWITTER_URL  data of table2.sh. Its SETS is quora, twitter_url or both
TABLE2="residual_lstm pointer_generator transformer copy_transformer dnpg fset cdnpg_r cdnpg_s cdnpg_rs cdnpg_r+s"
[[ ${SMOKE:-0} != 1 ]] || : "${EPOCHS:=1}" "${SIZES:=--embed-dim 32 --ffn-dim 64 --attention-heads 2}" "${WARMUP:=5}" \
  "${EVALUATE:=5}" "${MERGES:=300}" "${LIMIT:=300}" "${TEST_LIMIT:=20}" \
  "${FSET_SIZES:=--edit-dim 32 --edit-layers 1 --encoder-layers 2 --decoder-layers 2}"
: "${EPOCHS:=32}" "${SIZES:=}" "${WARMUP:=5000}" "${EVALUATE:=5000}" "${MERGES:=8000}" "${RATE:=0.00005}" "${BATCH:=32}" \
  "${BEAM:=8}" "${FSET_SIZES:=}"
declare -A arch=(
  [residual_lstm]=residual_lstm
  [pointer_generator]=pointer_generator
  [transformer]=paraphrase_transformer
  [copy_transformer]=copy_transformer
  [dnpg]=dnpg
  [fset]=fset
  [cdnpg_r]=granularity_transformer_resonance
  [cdnpg_s]=granularity_transformer_scope
  [cdnpg_rs]=granularity_transformer_product
  [cdnpg_r+s]=granularity_transformer_mean
)
criterion=model_loss
validation=(  # keep the best checkpoint by validation loss, and stop after six validations without improvement
  --validate-interval-updates "$EVALUATE" --save-interval-updates "$EVALUATE" --keep-interval-updates 1
  --validate-interval "$EPOCHS" --no-epoch-checkpoints --patience 6  # validate only after the last epoch
)
read -ra sizes <<<"$SIZES"
read -ra fset_sizes <<<"$FSET_SIZES"

# check_systems: fail with one sentence if $SYSTEMS contains an unknown name.
check_systems() {
  # shellcheck disable=SC2086 # names of systems
  need_systems $TABLE2 ${TABLE2// /_skip }_skip
}

# compare DATASET: prepare $DATA, train and decode each of $SYSTEMS, and score all of them together.
compare() {
  # BIN and TEXT may have values from an earlier data set.
  local dataset=$1 pieces=(--bpe "$MERGES") decoding dump system BIN='' TEXT=''
  if [[ -n ${VOCAB:-} ]]; then
    need_files "Set VOCAB to the vocab.txt of bert-base-uncased, or leave it out." "$VOCAB"
    pieces=(--unit wordpiece --wordpiece-vocab "$VOCAB")
  fi
  check_systems
  remember "DATA=$(realpath "$DATA")" "SIZES=$SIZES" "RATE=$RATE" "WARMUP=$WARMUP" "BATCH=$BATCH" "pieces=${pieces[*]}"
  prepare "$dataset" --data "$DATA" --lowercase "${pieces[@]}"
  test_of_text test
  binarise -1 0 --dataset-impl raw
  for system in $SYSTEMS; do
    settings "${system%_skip}"
    [[ $system != *_skip ]] || optimisation+=(--skip-first-target)
    train "$system" "${arch[${system%_skip}]}" "${optimisation[@]}" "${limits[@]}" "${validation[@]}"
    decoding=(--beam "$BEAM" --lenpen 1 --max-len-b 20)
    if [[ $system == cdnpg* ]]; then
      dump=$RUN/$system/granularity.jsonl
      decoding+=(--granularity-dump "$dump")
      if ! decoded "$system" test "${decoding[@]}" || [[ ! -f $dump ]]; then
        # Both files are written together, so a file of an interrupted decoding must be removed.
        rm -f "$dump" "$RUN/$system/test.log"
      fi
    fi
    generate "$system" test "${decoding[@]}"
    if [[ $system == cdnpg* ]]; then
      say "z per layer of ten questions: $RUN/$system/granularity.png; means of function and content words next to it"
      tool wean-plot granularity --dump "$dump" --number 10 --output "$RUN/$system/granularity" --overwrite >/dev/null
    fi
  done
  without_pieces test
  samples test 20
  known_sentences test
  score test "$RUN/plain-test/test.tgt" -- --groups "$RUN/text-test/test.known" \
    --tokenize none --preset paper:cdnpg-compat paper:cdnpg-fixed standard
}

# settings SYSTEM: set the arguments `optimisation` (including network sizes), `limits` and `search`, and create the
# additional training data that the system needs.
settings() {
  limits=(--max-pair-length 20 --length-policy truncate)
  search=("${limits[@]}")
  BIN='' TEXT=''
  case $1 in
    residual_lstm) optimisation=(--optimizer fused_adam --lr 0.001 --clip-norm 2 --batch-size "$BATCH") ;;
    pointer_generator)
      optimisation=(
        --optimizer adagrad_accumulator --initial-accumulator-value 0.1 --lr 0.1 --clip-norm 2 --batch-size 80
      )
      ;;
    dnpg)
      weak_labels
      optimisation=(
        --granularity-labels "$RUN/labels" --optimizer fused_adam --lr "0.0005,0.0005,0.0005,0.0001" --lr-scheduler fixed
        --clip-norm 1 --batch-size "$BATCH" --best-checkpoint-metric nll_loss
      )
      ;;
    fset)
      similar_pairs
      limits=() search=() # the sentences are truncated before their pairs are appended
      decay_linearly "$RATE" "$BATCH"
      optimisation=(
        --share-embeddings "${sizes[@]}" "${fset_sizes[@]}" "${schedule[@]}" --warmup-updates "$WARMUP" --optimizer adamw
        --weight-decay 0.01 --clip-norm 1
      )
      ;;
    *)
      decay_linearly "$RATE" "$BATCH"
      optimisation=(
        "${sizes[@]}" "${schedule[@]}" --warmup-updates "$WARMUP" --optimizer adamw --weight-decay 0.01 --clip-norm 1
      )
      ;;
  esac
}
