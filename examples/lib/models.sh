# shellcheck shell=bash disable=SC2154
# Export the model folder at the end of a recipe.

# export_model SYSTEM FOLDER: export the system's best checkpoint with its text settings to FOLDER. The export is
# repeated if the checkpoint or any other source has changed. The old folder stays until the new one is complete.
export_model() {
  local system=$1 folder=$2 note part others scores=()
  note=$(tool python -P -m wean_fairseq.training.trainings note "$RUN" "$system" ${continue_with:+--continue-with "$continue_with"})
  if [[ -f $folder.sources && $(<"$folder.sources") == "$(model_sources "$system" "$folder" "$note")" ]]; then
    say "model of $system: done before"
    return
  fi
  say "model of $system: writing $folder (wean-export)"
  [[ ! -e $folder || (-d $folder && ! -L $folder) ]] || die "$folder is not a folder: move it elsewhere, and start again."
  others=$(other_files "$folder")
  [[ -z $others ]] || die "$folder has files that are not of its model ($others): move them elsewhere, and start again."
  find "$RUN/" -mindepth 1 -maxdepth 1 -name '.wean-model-??????????.partial' -exec rm -rf {} + # left by a kill
  part=$(mktemp -d -- "$RUN/.wean-model-XXXXXXXXXX.partial")
  [[ ! -f $RUN/test.json ]] || scores=(--scores "$RUN/test.json")
  wean-export "$RUN/$system/checkpoint_best.pt" --data "$(binary_data)" --text "$RUN/text" --output "$part/new" \
    "${scores[@]}" ${note:+--note "$note"} >"$RUN/export.log" 2>&1 || stopped "writing the model" "$RUN/export.log"
  [[ ! -e $folder ]] || mv -T -- "$folder" "$part/old"
  mv -T -- "$part/new" "$folder"
  rm -rf -- "$part"
  model_sources "$system" "$folder" "$note" | write_state "$folder.sources"
}

# model_sources SYSTEM FOLDER NOTE: print the checksums of the sources of FOLDER, and of the files in it.
model_sources() {
  local file
  for file in "$RUN/$1"/{checkpoint_best.pt,search.txt} "$RUN"/{text/manifest.json,test.json} "$(binary_data)"/dict.{src,tgt}.txt; do
    [[ ! -f $file ]] || sha256sum <"$file"
  done
  [[ ! -d $2 ]] || (CDPATH='' cd -- "$2" && find . -type f -exec sha256sum {} + | LC_ALL=C sort)
  printf '%s\n' "$3"
}

# other_files FOLDER: print the names in FOLDER that wean-export did not write, on one line.
other_files() {
  [[ ! -d $1 ]] || comm -23 <(find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort) \
    <({ echo checksums.sha256 && cut -c67- "$1/checksums.sha256"; } 2>/dev/null | LC_ALL=C sort) | paste -sd ' '
}
