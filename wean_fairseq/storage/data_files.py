"""Check text of the scripts in ``preprocess/``, and data that fairseq-preprocess made from it.

This module imports neither fairseq nor torch, so that ``wean-checksum``, which every recipe calls, starts quickly.
"""

import os
import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from ..errors import UserError
from .files import check_whole, is_beside, open_regular, read_regular, sha256_of
from .json_files import read_json

MANIFEST = "manifest.json"  # written by the scripts of preprocess/
LOG = "preprocess.log"  # fairseq-preprocess appends its options and counts whenever it writes data
LARGEST_LOG = 1 << 24  # maximum size of the log in bytes
_LONGEST_LINE = 1 << 24  # lines with at least this number of bytes are refused
# A line of the log names a text and the number of its sentences.
_MADE_FROM = re.compile(r"^\[[^]\n\0]+\] ([^\n\0]+): (\d{1,18}) sents, ", re.MULTILINE)
_WEIGHTS = (".pt", ".bin", ".safetensors")  # suffixes of checkpoints and of exported models
_DATA = re.compile(r"dict\..+\.txt|[^.]+\.[^.]+-[^.]+\.[^.]+(\.bin|\.idx)?")


class _Split(Struct):
    """A split of a prepared text. ``kept`` is its number of pairs."""

    kept: int


class _Splits(Struct):
    train: _Split


class PairCounts(Struct):
    """The part of a manifest with the number of training pairs."""

    splits: _Splits


class PreparedFile(Struct):
    """Entry of a file in a manifest."""

    sha256: str


class _PreparedText(Struct):
    """The part of a manifest that lists the files."""

    files: dict[str, PreparedFile]


def check_prepared(folder: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """Refuse files of a prepared text that have changed since a script of ``preprocess/`` wrote them.

    A file such as ``train.src`` that is not in the manifest is refused if the manifest has other files of its split,
    because a change of it would not be noticed. Other files that are not in the manifest belong to the user.

    Args:
        folder: output folder of the script. Without a manifest of these scripts, no file is checked.
        names: the files to check (default: all files in the manifest).

    Returns:
        The SHA-256 of each checked file.

    Raises:
        UserError: if a file has changed, cannot be read or is not listed, or the manifest cannot be read. The message
            names the file.
    """
    try:
        files = convert(read_json(folder / MANIFEST), _PreparedText).files
    except (FileNotFoundError, NotADirectoryError, ValidationError):  # none, or a manifest of something else
        return {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder / MANIFEST} cannot be read ({error}): restore it, or run its script again."
        ) from error
    advice = (
        f"restore it, or delete {folder} and run its script again; if the change is intended, copy the file to a "
        f"folder without {MANIFEST}"
    )
    digests = {}
    for name in files if names is None else [name for name in names if name in files]:
        reason = f"has changed since its checksum was written to {folder / MANIFEST}"
        try:
            digests[name] = sha256_of(folder / name)
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
        if digests.get(name) != files[name].sha256:
            raise UserError(f"{folder / name} {reason}: {advice}.")
    splits = {name.partition(".")[0] for name in files}
    for name in names or ():
        if name not in files and name.partition(".")[0] in splits and (folder / name).exists():
            raise UserError(
                f"{folder / name} is not in {folder / MANIFEST}, which lists the other files of this folder: restore "
                "the list, or move the file to another folder."
            )
    return digests


def is_data(name: str) -> bool:
    """Return True if a file with this name belongs to the data of fairseq-preprocess."""
    return _DATA.fullmatch(name) is not None


def has_data(folder: Path) -> bool:
    """Return True if a folder contains data of fairseq-preprocess."""
    return any(is_data(path.name) for path in folder.iterdir())


def has_data_or_model(folder: Path) -> bool:
    """Return True if a folder contains data of fairseq-preprocess or checkpoints, or is an exported model or in one."""
    in_folder = has_data(folder) or any(path.suffix in _WEIGHTS for path in folder.iterdir())
    return in_folder or any((parent / "model.safetensors").exists() for parent in folder.absolute().parents)


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each data file in ``folder``.

    Raises:
        OSError: if a file cannot be read.
        UserError: if there is no data, or if its sentences do not match the lines of the text.
    """
    check_lines(folder)
    paths = [path for path in sorted(folder.iterdir()) if path.is_file()]
    paths = [path for path in paths if is_data(path.name) or path.name == LOG]
    if not any(is_data(path.name) for path in paths):
        raise UserError(f"{folder} has no data that fairseq-preprocess wrote: name the directory that has (--destdir).")
    return {path.name: sha256_of(path) for path in paths}


def sentences_of(folder: Path) -> dict[str, int]:
    """Return the names of the texts from which data was created, with their numbers of sentences.

    They are in the log of fairseq-preprocess. Without a log, there are none.
    """
    log = folder / LOG
    if not log.is_file():
        return {}
    named = _MADE_FROM.findall(read_regular(log, LARGEST_LOG).decode("utf-8", "replace"))
    return {name: int(sentences) for name, sentences in named}


def check_lines(folder: Path) -> None:
    """Refuse data whose sentences do not match the lines of the text that it was created from.

    Raw data is itself text. For binary data, the text is checked if it is in the parent folder of ``folder``. If both
    sides contain the same number of carriage returns, all later pairs are shifted, and no other check detects this.
    Other folders are not read, because the log, which names the text, may come from another person.

    Raises:
        UserError: if they do not match. The message names the text and the line.
    """
    for path in sorted(folder.iterdir()):
        if is_data(path.name) and path.suffix not in (".txt", ".bin", ".idx"):
            check_text(path)
    # A log may name the same file in several ways, but the file is read only once.
    texts = {Path(os.path.realpath(name)): sentences for name, sentences in sentences_of(folder).items()}
    for text, sentences in texts.items():
        if not (is_beside(text, folder) and os.path.isfile(text)):  # noqa: PTH113 - Path.is_file raises for long names
            continue
        lines, broken, first = 0, 0, 0
        for lines, line in enumerate(_lines(text), start=1):
            inside = line.removesuffix(b"\n").removesuffix(b"\r").count(b"\r")
            broken += inside
            first = first or (lines if inside else 0)
        if broken and sentences == lines + broken:
            raise UserError(
                f"the data in {folder} has {sentences} sentences of {text}, which has {lines} lines: line {first} has "
                "a carriage return in it, which fairseq-preprocess takes for a line's end, so that sentences may be "
                "paired with others; prepare the text with preprocess/parallel_text.py, which takes it out, and run "
                "fairseq-preprocess again."
            )


def check_text(path: Path) -> None:
    """Refuse a text that makes fairseq fail, or that fairseq splits into other lines or words.

    A missing text is accepted.

    Raises:
        UserError: if the text is refused. The message names the line.
    """
    if not path.is_file():
        return
    advice = "prepare the text with preprocess/parallel_text.py, which takes it out"
    for number, raw in enumerate(_lines(path), start=1):
        where = f"line {number} of {path}"
        if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
            raise UserError(f"{where} begins with a byte order mark, which would belong to its first word: {advice}.")
        if b"\r" in raw.removesuffix(b"\n").removesuffix(b"\r"):
            raise UserError(f"{where} has a carriage return in it, which fairseq takes for a line's end: {advice}.")
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{where} is not UTF-8 ({error.reason}): convert the text to UTF-8 first.") from error


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a text with their line endings.

    Raise ``UserError`` if the file cannot be read or is not a text.
    """
    try:
        with open_regular(path) as file:
            check_whole(file, path)
            for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
                if len(line) == _LONGEST_LINE:
                    raise UserError(
                        f"line {number} of {path} has {_LONGEST_LINE:,} bytes or more: give one sentence per line."
                    )
                yield line
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): restore the text.") from error
