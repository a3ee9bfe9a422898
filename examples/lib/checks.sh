# shellcheck shell=bash disable=SC2153
# Check a recipe's variables and files before anything is written. recipe.sh sources this file.

# With POSIXLY_CORRECT, sed does not understand the escapes in `printable`, and bash has other rules.
unset POSIXLY_CORRECT

# say TEXT: print one line, in which paths below the current directory are shortened. A job prints nothing about work
# that an earlier run has done.
say() {
  local text="$*"
  [[ -z ${JOB:-} || $text != *": done before" ]] || return 0
  printf '[%s] %s\n' "$RECIPE" "${text//"$PWD/"/}" | printable
}
die() { printf '%s: error: %s\n' "$RECIPE" "${*//$'\n'/ }" | printable >&2; exit 1; }

# printable: print at most 4,000 bytes of each line of standard input, without control characters, which a terminal
# would execute. They are the ASCII and C1 control characters (U+0080 to U+009F, also as a single byte outside of a
# UTF-8 character), and the characters that change the direction of text.
printable() {
  local character='[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}'
  tr -d '\000-\010\013-\037\177' | LC_ALL=C sed -E "s/\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xc2[\x80-\x9f]//g
    s/($character|\xc2[\xa0-\xbf])|[\x80-\x9f]/\1/g; s/^(.{4000}).*/\1/"
}

# fail WHAT LOG...: print the error message of the plugin in a log, or else the log's last lines, and exit.
fail() {
  local what=$1 log sentence
  shift
  for log in "$@"; do
    [[ -s $log ]] || continue
    sentence=$(tail -n 50 "$log" | grep 'error: ' | tail -n 1 || true)
    # use the names of the variables instead of the options, with = before a value
    sentence=$(sed -E 's/--(columns|header|valid|test)( (a|an|and|are|folders?|has|is|names?|of|or|the)\b|[^ ])/\U\1\E\2/g
      s/--(columns|header|valid|test) /\U\1\E=/g' <<<"$sentence")
    if [[ $sentence == *": error: "* && $sentence != *Traceback* ]]; then
      die "$what failed: ${sentence#*error: } (log: $log)"
    fi
    printf '%s: error: %s failed; the end of %s:\n' "$RECIPE" "$what" "$log" | printable >&2
    tail -n 12 "$log" | cut -c1-300 | printable | sed 's/^/    /' >&2
    exit 1
  done
  die "$what failed."
}

# need_files HINT FILE...: fail with one sentence if a file is missing. Add the files to `inputs`, which `remember`
# hashes.
inputs=()
need_files() {
  local hint=$1 file
  shift
  for file in "$@"; do
    [[ ! -d $file ]] || die "$file is a folder. $hint"
    [[ -f $file || ! -e $file ]] || die "$file is a pipe or a device, not a regular file. $hint"
    [[ -f $file ]] || die "there is no $file. $hint"
  done
  inputs+=("$@")
}

# need_sentence_model: check that $SENTENCE_MODEL is empty or the folder of a sentence encoder. It is read after all
# trainings.
need_sentence_model() {
  [[ -z $SENTENCE_MODEL || -f $SENTENCE_MODEL/config.json ]] ||
    die "there is no $SENTENCE_MODEL/config.json. Set SENTENCE_MODEL to the folder of a sentence encoder, or leave it out."
}

# need_quora: check that $DATA is the published file of Quora question pairs, or a directory with its splits.
need_quora() {
  if [[ -f $DATA ]]; then
    inputs+=("$DATA")
  else
    need_files "Set DATA to the file of the public Quora question pairs, or a directory with train/valid/test.{src,tgt}." \
      "$DATA"/{train,valid,test}.{src,tgt}
  fi
}

# need_twitter_url: check that $DATA has the splits of Twitter URL.
need_twitter_url() {
  need_files "Set DATA to a directory with train/valid/test.{src,tgt}: preprocess/twitter_url.py makes it." \
    "$DATA"/{train,valid,test}.{src,tgt}
}

# need_paraphrases: check that $DATA is the data of $SET.
need_paraphrases() {
  case $SET in
    quora | twitter_url) "need_$SET" ;;
    *) die "SET must be quora or twitter_url, but is $SET." ;;
  esac
}

# need_lcsts: check that $DATA contains the released parts of LCSTS, or its splits.
need_lcsts() {
  if [[ -f $DATA/PART_I.txt ]]; then
    need_files "Set DATA to a directory with all three parts of LCSTS." "$DATA"/PART_{I,II,III}.txt
  else
    need_files "Set DATA to a directory with LCSTS (PART_I.txt, PART_II.txt and PART_III.txt, or these pairs of files), which HIT Shenzhen gives out on application (icrc.hitsz.edu.cn)." \
      "$DATA"/{train,valid,test}.{src,tgt}
  fi
}

# refuse_limits SETTING: fail if LIMIT is set, because the size of generated data is reduced with SETTING instead.
refuse_limits() {
  [[ -z ${LIMIT:-}${TEST_LIMIT:-} ]] || die "the data is generated here: give its size by $1, not by LIMIT."
}

# need_tools: check that fairseq and the plugin are installed.
need_tools() {
  local name
  for name in fairseq-train wean-evaluate; do
    command -v "$name" >/dev/null ||
      die "$name is not on PATH: run 'make setup' once, then 'source .venv/bin/activate'."
  done
}

# check_variables: fail with one sentence if a variable has an invalid value. A number is used in bash arithmetic only
# after this check or `whole_number`, because there the text `a[$(command)]` would run the command.
check_variables() {
  local name value before='' most
  for name in "${GIVEN_NAMES[@]}" SBATCH; do
    [[ ${!name} != *$'\n'* ]] || die "$name has a line break in its value: recipes keep one setting per line."
  done
  for value in $SEEDS; do
    need_number SEEDS "$value" 0
    [[ " $before " != *" $value "* ]] || die "SEEDS names $value twice: $SEEDS."
    before+=" $value"
  done
  for name in SEED SPLIT_SEED SLOT LIMIT TEST_LIMIT BPE MERGES WARMUP CUTOFF THRESHOLD NGRAM; do
    need_number "$name" "${!name-}" 0
  done
  for name in EPOCHS TRY_EPOCHS PATIENCE EVALUATE BATCH BEAM WORDS WIDTH TOKENS EMBED_DIM HIDDEN_SIZE REWARD_EPOCHS \
    BERT_UPDATES LENGTH SHORTEST; do
    need_number "$name" "${!name-}" 1
  done
  # With many more processes, the memory of the machine would be used up, see MOST_PROCESSES in wean_fairseq/ranges.py.
  most=$((4 * $(nproc --all)))
  ((most >= 64)) || most=64
  need_number GPUS "${GPUS-}" 0 "$most"
  for name in JOBS PROCESSES OMP_NUM_THREADS; do
    need_number "$name" "${!name-}" 1 "$most"
  done
  ((JOBS * ${PROCESSES:-1} <= most)) ||
    die "JOBS=$JOBS with PROCESSES=$PROCESSES each are $((JOBS * PROCESSES)) processes: give numbers whose product is at most $most."
  [[ -z $SEEDS || " $SEEDS " == *" $SEED "* ]] || die "SEED=$SEED is not one of SEEDS ($SEEDS): leave SEED out."
  for name in RATE RATES "${!RATES_@}"; do
    for value in ${!name-}; do
      need_rates "$name" "$value"
    done
  done
  for name in DROPOUT DROPOUTS; do
    for value in ${!name-}; do
      [[ $name/$value == DROPOUTS/own || $value =~ ^(0|0?\.[0-9]+)$ ]] ||
        die "$name must be a number of at least 0 and below 1, such as 0.3, but is $value."
    done
  done
  for name in TRAIN_FLAGS SIZES FSET_SIZES; do
    refuse_options "$name" --save-dir --max-epoch --log-file --log-format --log-interval --user-dir --task --arch -a --seed \
      --cpu --no-save --disable-validation --source-lang --target-lang --train-subset --valid-subset
  done
  refuse_options SEARCH_FLAGS --path --results-path --user-dir --task --source-lang --target-lang -s -t --dataset-impl \
    --gen-subset --seed --cpu --quiet --score-reference --prefix-size --num-shards --shard-id --no-progress-bar --log-format --log-file
  refuse_options GENERATE --output --overwrite --seed
  [[ -z $SBATCH || (-d $(dirname -- "$SBATCH") && ! -d $SBATCH) ]] ||
    die "SBATCH must be a file in a folder that exists, but is $SBATCH."
  [[ ! -e $SBATCH && ! -L $SBATCH ]] || die "SBATCH must be a new file, but there is $SBATCH already: choose another name."
  [[ $RUN != *[:,]* && $RUN != *\$\{* ]] || die "RUN has : or , or \${ in its name, which fairseq splits or replaces: choose another than $RUN."
  [[ $SMOKE =~ ^[01]$ ]] || die "SMOKE must be 0 or 1, but is $SMOKE."
}

# gpus: print the number of GPUs that nvidia-smi finds.
gpus() { { nvidia-smi --list-gpus 2>/dev/null || true; } | wc -l; }

# torch_gpus: print the number of GPUs that torch finds, also those of other vendors. This takes seconds.
torch_gpus() {
  local number
  number=$(python -P -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null) || number=0
  whole_number "$number"
}

# need_gpus: check that the machine has GPUS. Computers that only write a job array or score outputs need none.
need_gpus() {
  ((GPUS == 0)) || (($(gpus) >= GPUS)) || (($(torch_gpus) >= GPUS)) ||
    die "GPUS is $GPUS, more than this machine has: give GPUS=0 to use the CPU, with one process or several (PROCESSES)."
}

# need_number NAME VALUE LEAST [MOST]: check that VALUE is empty or a whole number of at least LEAST and at most MOST.
need_number() {
  local most=${4:-999999999}
  [[ -z $2 ]] || { [[ $2 =~ ^(0|[1-9][0-9]{0,8})$ ]] && (($2 >= $3 && $2 <= most)); } ||
    die "$1 must be a whole number of at least $3 and at most $most, but is $2."
}

# refuse_options NAME OPTION...: check that the variable NAME has none of these options, which may be abbreviated there.
refuse_options() {
  local name=$1 word option
  shift
  for word in ${!name-}; do
    for option in "$@"; do
      [[ $word != -?* || ($option != "${word%%=*}" && ($word != --?* || $option != "${word%%=*}"*)) ]] ||
        die "$name has $word, but the recipe sets $option itself or cannot run with it: leave it out."
    done
  done
}

# need_rates NAME VALUE: check that VALUE is a learning rate above 0, or a comma-separated list, one per epoch.
need_rates() {
  local number='([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})?'
  [[ $1/$2 == RATES*/own || $2 =~ ^$number(,$number)*$ && ! ,$2, =~ ,[0.]+([eE][-+]?[0-9]+)?, ]] ||
    die "$1 must be a learning rate above 0, such as 0.001, but is $2."
}

# whole_number TEXT: print TEXT, which may come from a file, if it is a whole number, and otherwise 0.
whole_number() {
  if [[ $1 =~ ^[1-9][0-9]{0,8}$ ]]; then printf '%s' "$1"; else printf 0; fi
}

# need_each NAME VALUES CHOICES: check that each of the VALUES of the variable NAME is one of CHOICES.
need_each() {
  local value
  for value in $2; do
    [[ $value != *[!a-z0-9_]* && " $3 " == *" $value "* ]] || die "$1 names $value, which is not here; choose from $3."
  done
}

# need_systems NAME...: check that SYSTEMS has some of these names, each once.
need_systems() {
  local system seen=' '
  [[ -n ${SYSTEMS//[$' \t']/} ]] || die "SYSTEMS has only spaces; choose from $*."
  for system in $SYSTEMS; do
    [[ " $* " == *" $system "* ]] || die "there is no system $system here; choose from $*."
    [[ $seen != *" $system "* ]] || die "SYSTEMS names $system twice: name each system once."
    seen+="$system "
  done
}

# files_like FOLDER PATTERN: print the files in FOLDER whose names match PATTERN, sorted, one per line. Names with a
# line break are excluded, because their second line would be read as another file or an option.
files_like() { find "$1/" -maxdepth 1 -name "$2" ! -name $'*\n*' | LC_ALL=C sort; }

# files_of NAME: set the array `files` to the files in the variable NAME, which is one file whose name may contain
# spaces, or several files separated by spaces. A file name that begins with a dash is not treated as an option.
files_of() {
  local index
  files=("${!1}")
  [[ -e ${!1} ]] || read -ra files <<<"${!1}"
  ((${#files[@]})) || die "$1 has only spaces: name one file or two."
  for index in "${!files[@]}"; do
    [[ ${files[index]} != -* ]] || files[index]=./${files[index]}
  done
}

