"""Run ``fairseq-preprocess`` over a finished output directory."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from corpus.output import MANIFEST, SPLITS
from wean_fairseq.errors import UserError, name_some
from wean_fairseq.storage.data_files import LOG, is_data
from wean_fairseq.storage.files import remove_partial, sha256_of, whole_folder
from wean_fairseq.storage.json_files import read_json
from wean_fairseq.storage.manifest import NAME as CHECKSUMS


def binarise(
    text: Path,
    folder: Path,
    sizes: dict[str, int],
    *,
    dictionaries: Sequence[Path] = (),
    workers: int = 1,
    overwrite: bool = False,
) -> bool:
    """Write fairseq's binary data and dictionaries from text. The folder has a temporary name until it is complete.

    Args:
        text: output directory of a script, which contains ``train.src`` and so on.
        folder: output folder.
        sizes: ``words`` (the size of the dictionary, 0 = no limit), ``threshold`` (words seen less often become
            ``<unk>``), ``separate_dictionaries`` (one dictionary per side instead of a joint one), and optionally
            ``raw_data`` (keep the data as text).
        dictionaries: files with source and target dictionaries of an earlier text, which are used unchanged.
        workers: number of processes.
        overwrite: replace the result of an earlier run.

    Returns:
        True if the data was written, False if it was already complete.

    Raises:
        UserError: if the folder cannot be written or the command fails. The message has the last line of the command's
            output.
    """
    made_from: dict[str, object] = {"text_manifest_sha256": sha256_of(text / MANIFEST), **sizes}
    made_from |= {"dictionaries_sha256": [sha256_of(path) for path in dictionaries]} if dictionaries else {}
    remove_partial(folder.parent, folder.name)
    if folder.exists() and not _may_replace(folder, made_from, overwrite):
        return False
    with whole_folder(folder, replace=overwrite) as new:
        line = [
            sys.executable,
            "-P",  # do not import modules of the working directory
            "-m",
            "fairseq_cli.preprocess",
            *_arguments(text, new, sizes, dictionaries),
            f"--workers={workers}",
        ]
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise UserError(f"fairseq-preprocess failed: {last}")
        written = {path.name: sha256_of(path) for path in sorted(new.iterdir())}
        (new / MANIFEST).write_text(json.dumps({**made_from, "written": written}, indent=2) + "\n", encoding="utf-8")
    return True


def _arguments(text: Path, folder: Path, sizes: dict[str, int], dictionaries: Sequence[Path]) -> list[str]:
    """Return the options of fairseq-preprocess."""
    line = ["--source-lang=src", "--target-lang=tgt", f"--destdir={folder}"]
    prefixes = [split for split in SPLITS if (text / f"{split}.src").is_file()]
    if "train" not in prefixes:
        raise UserError("--binarise needs a training split, which the dictionary is counted from.")
    line += [f"--{split}pref={text / split}" for split in prefixes]
    line += ["--dataset-impl=raw"] if sizes.get("raw_data") else []
    if dictionaries:
        return [*line, *(f"--{side}dict={path}" for side, path in zip(("src", "tgt"), dictionaries, strict=True))]
    sides = ("src", "tgt") if sizes["separate_dictionaries"] else ("src",)
    line += [f"--threshold{side}={sizes['threshold']}" for side in sides]
    line += [f"--nwords{side}={sizes['words']}" for side in sides if sizes["words"]]
    return line if sizes["separate_dictionaries"] else [*line, "--joined-dictionary"]


def _may_replace(folder: Path, made_from: dict[str, object], overwrite: bool) -> bool:
    """Return True if ``folder`` is an outdated or damaged output of this module, False if it is complete.

    Raises:
        UserError: if ``folder`` was not written by this module, is damaged, or must not be replaced.
    """
    manifest = folder / MANIFEST
    recorded = None
    with suppress(OSError, ValueError):  # a folder with an unreadable manifest is not an output of this module
        recorded = read_json(manifest)
    if not isinstance(recorded, dict) or "text_manifest_sha256" not in recorded:
        raise UserError(f"{folder} exists and is not an output of --binarise: choose another directory.")
    written = recorded.pop("written", {})  # outputs of older versions have no list of files
    if recorded == made_from:
        changed = [name for name, digest in written.items() if _digest(folder / name) != digest]
        if not changed:
            return False
        if not overwrite:
            raise UserError(
                f"{folder / changed[0]} was changed or removed since it was written: pass --overwrite to redo it."
            )
    known = {MANIFEST, LOG, CHECKSUMS, *written}
    if foreign := sorted(path.name for path in folder.iterdir() if path.name not in known and not is_data(path.name)):
        raise UserError(
            f"{folder} has files that --binarise did not write ({name_some(foreign)}): move them elsewhere."
        )
    if not overwrite:
        raise UserError(f"{folder} was made from other text or options: pass --overwrite, or choose another directory.")
    return True


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or an empty text if it cannot be read."""
    try:
        return sha256_of(path)
    except OSError:
        return ""
