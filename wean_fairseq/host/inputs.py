"""Adapt how fairseq reads files and lines."""

import logging
import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

from ..checkpoints.dictionaries import load_dictionary
from ..console import counted, end_with_parent
from ..data.typed_text import read_typed_lines
from ..errors import UserError
from ..ranges import MOST_PROCESSES, check_range
from ..storage.data_files import LOG, check_prepared, check_text
from ..storage.files import (
    LARGEST_TEXT,
    check_size,
    count_lines,
    followed,
    open_growing,
    open_input,
    partial_folder,
    read_regular,
    sha256_of,
)
from .interruption import checked_outputs
from .patches import Original


def alignment_words(original: Original, path: str | None) -> Any:
    """Read the file of ``--replace-unk [FILE]``. fairseq passes "@@ " if no file is given.

    Raises:
        UserError: if the file cannot be read, or a line does not consist of two words.
    """
    if path in (None, "", "@@ "):
        return original("" if path == "@@ " else path)
    try:
        lines = read_regular(path, LARGEST_TEXT).decode("utf-8").removesuffix("\n").split("\n")
        return {line.split()[0]: line.split()[1] for line in lines}
    except IndexError:
        reason = "a line has fewer than two words"
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8: {error.reason}"
    except OSError as error:
        reason = str(error.strerror)
    raise UserError(f"--replace-unk {path} cannot be read ({reason}): give a word and its replacement in each line.")


def open_split(original: Original, path: str, impl: str, *args: Any, **kwargs: Any) -> Any:
    """Open the prepared text of a split. Raise ``UserError`` if it has no sentences, on which fairseq fails."""
    file = Path(path if impl == "raw" else f"{path}.bin")
    if file.is_file() and not file.stat().st_size:
        raise UserError(f"{path} has no sentences: give fairseq-preprocess a text that has some.")
    return original(path, impl, *args, **kwargs)


def refuse_fasta(_original: Original, _dataset: Any, path: str) -> NoReturn:
    """Refuse a FASTA file, because fairseq puts its name into a shell command."""
    raise UserError(f"{path}.fasta cannot be read: fairseq would run its name in a shell; prepare the data as text.")


def read_buffers(_original: Original, file: str, buffer_size: int) -> Iterator[list[str]]:
    """Read the input lines of fairseq-interactive with ``read_typed_lines``."""
    return read_typed_lines(file, buffer_size)


#: Set while fairseq-preprocess runs. Its workers must end with it, but not those that the same process starts later.
_preprocessing = Event()
os.register_at_fork(after_in_child=lambda: end_with_parent() if _preprocessing.is_set() else None)


def _alignments(args: Any) -> dict[str, list[str]]:
    """Return the files with word alignments that fairseq-preprocess reads for each text. ``--dict-only`` reads none.

    Raises:
        UserError: if ``--alignfile`` is given without both sides of the training text.
    """
    if args.dict_only:
        return {}
    if args.alignfile and (args.only_source or not args.trainpref):
        raise UserError(
            "--alignfile aligns the words of both sides of the training text: give it with --trainpref and without "
            "--only-source, or leave it out."
        )
    found: dict[str, list[str]] = {}
    for prefix in filter(None, (args.trainpref, args.validpref, args.testpref)):
        if args.align_suffix and Path(f"{prefix}.{args.align_suffix}").exists():
            found[prefix] = [f"{prefix}.{args.align_suffix}"]
    if args.alignfile:
        found.setdefault(args.trainpref, []).append(args.alignfile)
    return found


def _check_files(args: Any, texts: Sequence[str]) -> None:
    """Refuse inputs that are not files, texts that begin with a byte order mark, and broken dictionaries."""
    dictionaries = {args.tgtdict: "--tgtdict", args.srcdict: "--srcdict"}
    for file in filter(None, [*dictionaries, *texts]):
        try:
            if file in dictionaries:
                check_size(file)
            with open_input(file) as opened:
                if opened.read(len(BOM_UTF8)) == BOM_UTF8:
                    raise UserError(
                        f"{file} begins with a byte order mark, which would belong to its first word: save the "
                        "file without it, as preprocess/parallel_text.py does."
                    )
        except OSError as error:
            raise UserError(
                f"{file} cannot be read ({error.strerror}): give fairseq-preprocess a text file."
            ) from error
        if file in dictionaries:
            load_dictionary(file, f"give {dictionaries[file]} a dictionary of fairseq-preprocess")


def _check_texts(texts: dict[str, list[str]], alignments: dict[str, list[str]]) -> None:
    """Refuse prepared texts that have changed, texts without lines, and files with different numbers of lines.

    Args:
        texts: the sides of the text with each prefix.
        alignments: their word alignments, which have one line for each line of the text.
    """
    for prefix, files in texts.items():
        for text in files:
            check_prepared(Path(text).parent, [Path(text).name])
        numbers = [count_lines(text) for text in files]
        if 0 in numbers:
            raise UserError(f"{files[numbers.index(0)]} has no lines: give texts with at least one line.")
        aligned = alignments.get(prefix, [])
        numbers += map(count_lines, aligned)
        for text, number in zip([*files, *aligned], numbers, strict=True):
            if number == numbers[0]:
                continue
            raise UserError(
                f"{files[0]} has {counted(numbers[0], 'line')} but {text} has {number:,}: give texts in which each "
                "line belongs to the line of the same number."
            )


def _check_new(args: Any, sides: Sequence[str | None]) -> None:
    """Raise ``FileExistsError`` if the output folder has a dictionary or a split that is about to be written.

    fairseq checks only dictionaries, and only after it has written to the log, whose checksum is recorded.
    """
    for side, given in zip(sides, (args.srcdict, args.tgtdict), strict=False):
        dictionary = Path(args.destdir, f"dict.{side}.txt" if side else "dict.txt")
        if not given and dictionary.exists():
            raise FileExistsError(str(dictionary))
    if args.dict_only:
        return
    splits = [("train", args.trainpref), ("valid", args.validpref), ("test", args.testpref)]
    names = [
        f"{split}{number or ''}" for split, prefixes in splits if prefixes for number in range(prefixes.count(",") + 1)
    ]
    # fairseq leaves out the languages of a text that has none
    sides = "" if args.source_lang is None else f".{args.source_lang}-{args.target_lang}"
    for path in sorted(Path(args.destdir).glob("*")):
        for name in names:
            if path.name == name or path.name.startswith((f"{name}{sides}.", f"{name}.align.")):
                raise FileExistsError(str(path))


@contextmanager
def _named(new: Path, folder: Path) -> Iterator[None]:
    """Let the messages of fairseq-preprocess name ``folder`` instead of ``new``."""

    def rename(record: logging.LogRecord) -> bool:
        record.msg = str(record.msg).replace(str(new), str(folder))
        return True

    logger = logging.getLogger("fairseq_cli.preprocess")
    logger.addFilter(rename)
    try:
        yield
    finally:
        logger.removeFilter(rename)


@contextmanager
def _finished_files(args: Any) -> Iterator[None]:
    """Let fairseq-preprocess write into a new folder, and move its files to ``args.destdir`` when all are complete.

    Raises:
        FileExistsError: if a file exists already with another content.
    """
    folder = Path(args.destdir)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with partial_folder(folder) as new:
            args.destdir = str(new)
            with _named(new, folder):
                yield
            written = [(path, folder / path.name) for path in sorted(new.iterdir())]
            for path, place in written:
                if path.name != LOG and place.exists() and sha256_of(place) != sha256_of(path):
                    raise FileExistsError(str(place))
            if (new / LOG).exists():
                with open_growing(followed(folder / LOG)) as log:
                    log.write((new / LOG).read_bytes())
            for path, place in written:
                if path.name != LOG:
                    path.replace(place)
    finally:
        args.destdir = str(folder)
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # which succeeds if nothing was written


def preprocess(original: Original, args: Any) -> Any:
    """Run fairseq-preprocess after checking that inputs are aligned files and the output folder lacks the outputs.

    The outputs get their names when all of them are complete.

    Raises:
        UserError: if a check fails. The message names the file or the option.
    """
    check_range("workers", [args.workers], 1, MOST_PROCESSES)
    prefixes = ",".join(filter(None, (args.trainpref, args.validpref, args.testpref))).split(",")
    sides = [args.source_lang] if args.only_source else [args.source_lang, args.target_lang]
    by_prefix = {prefix: [f"{prefix}.{side}" if side else prefix for side in sides] for prefix in prefixes if prefix}
    texts = [text for files in by_prefix.values() for text in files]
    alignments = _alignments(args)
    _check_files(args, [*texts, *(file for files in alignments.values() for file in files)])
    _check_texts(by_prefix, alignments)
    _preprocessing.set()
    try:
        _check_new(args, sides)
        with checked_outputs(), _finished_files(args):
            return original(args)
    except FileExistsError as error:
        raise UserError(f"{error.filename or error} exists already: choose another --destdir, or delete it.") from error
    except ValueError:  # fairseq's error for a text that is not UTF-8 names neither file nor line
        for text in texts:
            check_text(Path(text))
        raise
    finally:
        _preprocessing.clear()
