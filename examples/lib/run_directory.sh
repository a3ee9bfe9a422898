# shellcheck shell=bash disable=SC2153,SC2154
# Checks of a recipe's run directory, and removal of the recipe's own files in it. recipe.sh sources this file.
#
# A recipe replaces files with its own names. Therefore it accepts only a directory that is new or empty or has a mark of
# a recipe, and it removes only files that fairseq-preprocess or the recipe itself writes.

run_mark='a run of wean_fairseq' # line in .run.lock, which is written when the settings are recorded

# is_ours DIRECTORY: succeed if a directory is empty, or has a file that a recipe writes when a step begins or ends.
is_ours() {
  [[ -n $(find "$1/" -maxdepth 1 '(' -name .complete -o -name manifest.json -o -name command -o -name .trained -o \
    -name checksums.sha256 ')' -type f -print -quit) || -z $(ls -A -- "$1/") ]] || is_settings "$1/settings"
}

# is_settings FILE: succeed if a file has settings in the format of wean_fairseq/training/state.py.
is_settings() {
  [[ -f $1 ]] && grep -qaE '^(SEED=[0-9]+$|SHA-256 of .+=[0-9a-f]{64}$)' -- "$1" && ! grep -qav '=' -- "$1"
}

# is_run: succeed if $TABLE is the run directory of a recipe or of wean-train. In earlier versions, the lock had no mark
# and the settings could be only in the directories of seeds and data sets.
is_run() {
  local file
  if [[ (-e $TABLE/.run.lock || -L $TABLE/.run.lock) && ! -f $TABLE/.run.lock && ! -d $TABLE/.run.lock ]]; then
    die "$TABLE/.run.lock is not a file: remove it, and start again."
  fi
  ! grep -qsxF -- "$run_mark" "$TABLE/.run.lock" || return 0
  ! is_settings "$TABLE/settings" || return 0
  [[ -f $TABLE/.run.lock ]] || return
  while IFS= read -r -d '' file; do
    ! is_settings "$file" || return 0
  done < <(find "$TABLE/" -mindepth 2 -maxdepth 3 -type f \
    -regex '.*/\(seed[0-9]+\|quora\|twitter_url\)/settings' -print0)
  return 1
}

# need_run: fail with one sentence if $TABLE has files of the user and is not the run directory of a recipe. Logs of the
# recipe itself may be there, as files of Slurm.
need_run() {
  local file
  is_run && return
  file=$(find "$TABLE/" -mindepth 1 -maxdepth 1 ! -name '.*' '(' -type d -o ! -regex '.*\.\(log\|out\)' -o \
    -regex '.*/\(text\|vectors\|preprocess\|labels\|pairs\|export\|report\|bert\|chunks\).*\.log' ')' -print -quit)
  [[ -z $file ]] || die "$file is not a file of a recipe: set RUN to a new or an empty directory."
}

# refuse MESSAGE: fail with a message about an entry of $TABLE, unless the whole directory is not one of a recipe.
refuse() {
  [[ ! -r $TABLE ]] || need_run
  die "$1"
}

# refuse_link PATH: fail because of a link to a directory that the recipe would fill.
refuse_link() {
  refuse "$1 is a link to a directory with other or incomplete files: empty it, or remove the link, and start again."
}

# check_run: fail with one sentence if the run directory or a directory in it cannot be read and written, or if it
# contains something that is not a regular file, such as a FIFO, which would block, or a link to a file outside of it,
# which would be overwritten. A link to a directory outside of it is accepted if the directory is empty or has a mark of
# a recipe.
check_run() {
  local root entry
  [[ -d $TABLE ]] || return 0
  root=$(realpath -- "$TABLE")
  [[ $root != / && $root != "$(realpath -m -- "${HOME:-/}")" ]] ||
    die "RUN is $root, which is not for the files of a recipe: set RUN to a new or an empty directory."
  entry=$(find "$root" -maxdepth 6 -type d ! '(' -readable -writable -executable ')' -print -quit 2>/dev/null || true)
  [[ -z $entry ]] || refuse "$entry cannot be read and written: set RUN to another directory, or change its permissions."
  while IFS= read -r -d '' entry; do
    if [[ -d $entry ]]; then
      [[ $(realpath -- "$entry") == "$root"/* ]] || is_ours "$entry" || refuse_link "$entry"
      continue
    fi
    [[ -L $entry && $(realpath -m -- "$entry") == "$root"/* && (-f $entry || ! -e $entry) ]] ||
      refuse "$entry is not a file, or is a link to one outside of the run directory: remove it, and start again."
  done < <(find "$root" -mindepth 1 -maxdepth 6 -name '.?*' -type d -prune -o ! -type f ! -type d -print0)
  check_kinds "$root"
  # `command` records a training. With SEEDS, the scores of all seeds would replace the scores of a training without
  # SEEDS, and vice versa.
  entry=$(find "$root" -mindepth 1 -maxdepth 6 -name 'seed[0-9]*' -prune -o -type f -name command -print -quit)
  [[ -z $SEEDS || -z $entry ]] ||
    die "$TABLE has a training without SEEDS: leave SEEDS out, or set RUN to another directory."
  entry=$(find "$root" -mindepth 3 -maxdepth 6 -path "*/seed[0-9]*/*" -type f -name command -print -quit)
  [[ -n $SEEDS || ${entry#"$root/"} != seed[0-9]* ]] ||
    die "$TABLE has trainings with SEEDS: give SEEDS again, or set RUN to another directory."
}

# check_kinds ROOT: fail with one sentence if a directory has a name of files that recipes write, or conversely.
check_kinds() {
  local entry name files=()
  for name in settings command .run.lock .trained .complete .preparing search.set '*.log' '*.log.part' '*.err' '*.out' \
    '*.txt' '*.json' '*.jsonl' '*.tsv' '*.md' '*.search' '*.sha256' '*.sources' '*.pt' '*.png' '*.pdf' '*.svg' '*.src' '*.tgt' test.known; do
    files+=(-o -name "$name")
  done
  entry=$(find "$1" -mindepth 1 -maxdepth 5 -type d '(' "${files[@]:1}" ')' -print -quit)
  [[ -z $entry ]] || refuse "$entry is a directory, but a recipe writes a file of this name: move it, and start again."
  entry=$(find "$1" -mindepth 1 -maxdepth 3 -xtype f -regextype posix-extended -regex \
    '.*/((text|bin)(-[^/.]+)?|(plain|vectors)-[^/.]+|jobs|model|report|labels|pairs|chunks|bert|tries|dress-rewards|seed[0-9]+)' \
    -print -quit)
  [[ -z $entry ]] || refuse "$entry is a file, but a recipe makes a directory of this name: move it, and start again."
}

# clear_data DIRECTORY...: remove incomplete directories of binary data. Fail with one sentence if one of them has a file
# that neither fairseq-preprocess nor a recipe writes.
clear_data() {
  local folder file
  for folder in "$@"; do
    [[ -d $folder ]] || continue
    [[ ! -L $folder || -z $(ls -A -- "$folder/") ]] || refuse_link "$folder"
    file=$(find "$folder/" -mindepth 1 ! '(' -type f -regextype posix-extended -regex \
      '.*/(dict(\.[a-z]+)?\.txt|(train|valid|test)(\.src-[^/]+|(\.pt[0-9]+)?\.(bin|idx))|preprocess\.log|checksums\.sha256|\.complete|\.wean-[0-9a-f]+\.partial)' \
      ')' ! '(' -type d -name '.wean-*.partial' ')' -print -quit)
    [[ -z $file ]] || die "$file is not a file of a recipe, which would replace $folder: move it, and start again."
  done
  for folder in "$@"; do
    [[ -L $folder ]] || rm -rf -- "$folder"
  done
}

# link_inside TARGET PATH: make a symbolic link within the run directory. Only such a link is replaced.
link_inside() {
  [[ ! -L $2 || $(readlink -- "$2") != "$1" ]] || return 0
  [[ ! -e $2 && ! -L $2 ]] || [[ -L $2 && $(realpath -m -- "$2") == "$(realpath -- "$TABLE")"/* ]] ||
    die "$2 is not a link of a recipe: move it, and start again."
  ln -sfn -- "$1" "$2"
}
