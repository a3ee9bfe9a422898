# shellcheck shell=bash disable=SC2154
# Export the model folder at the end of a recipe.

# export_model SYSTEM FOLDER: export the system's best checkpoint with its text settings to FOLDER. The export is
# repeated if the checkpoint or any other source has changed. The old folder stays until the new one is complete.
export_model() {
  local system=$1 folder=$2 note scores=()
  note=$(tool python -P -m wean_fairseq.training.trainings note "$RUN" "$system" ${continue_with:+--continue-with "$continue_with"})
  if model_sources "$system" "$folder" "$note" | cmp -s -- - "$folder.sources"; then
    say "model of $system: done before"
    return
  fi
  say "model of $system: writing $folder (wean-export)"
  [[ ! -f $RUN/test.json ]] || scores=(--scores "$RUN/test.json")
  wean-export "$RUN/$system/checkpoint_best.pt" --data "$(binary_data)" --text "$RUN/text" --output "$folder" --overwrite \
    "${scores[@]}" ${note:+--note "$note"} >"$RUN/export.log" 2>&1 || stopped "writing the model" "$RUN/export.log"
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
