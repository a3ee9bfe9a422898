"""Reading text files line by line: memory does not grow with the file, and what is wrong is named with its line."""

import gzip
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from tqdm import tqdm

from corpus.errors import InputError

LONGEST_LINE = 1 << 26  # bytes: 64 MiB without a line end is no text file with a sentence a line
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVERY = 2000  # lines between two updates of the progress bar


def read_lines(path: Path, counts: Counter[str] | None = None, replace_bad: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, gzipped or not; only \\n and \\r\\n end one; a byte order mark is left out.

    Args:
        path: of the file.
        counts: gets the number of byte order marks, \\r\\n and (replaced) undecodable lines.
        replace_bad: put U+FFFD where bytes are no UTF-8, instead of refusing the file.

    Raises:
        InputError: if the file is missing or a line of it cannot be used.
    """
    counts = Counter() if counts is None else counts
    try:
        with path.open("rb") as file, closing(_unpacked(file)) as lines, _bar(path) as bar:
            for number, raw in enumerate(iter(partial(lines.readline, LONGEST_LINE), b""), start=1):
                if number == 1 and _begins_archive(raw):
                    raise InputError(f"{path} is an archive: unpack it, and name a file that was in it.")
                if number % _EVERY == 0:
                    bar.update(file.tell() - bar.n)
                if number > 1 or raw != _BYTE_ORDER_MARK:  # which alone is no line
                    yield _decode(raw, number, path, counts, replace_bad)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"cannot unpack {path}: {error}.") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error


def _unpacked(file: BinaryIO) -> BinaryIO:
    """The file, or what is in it if it is gzipped."""
    magic = file.read(2)
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if magic == b"\x1f\x8b" else file


def _begins_archive(raw: bytes) -> bool:
    """Whether a file's first line is that of a tar, whose first entry may be a text, or of a zip file."""
    return raw[257:262] == b"ustar" or raw.startswith(b"PK\x03\x04")


def _bar(path: Path) -> "tqdm[NoReturn]":
    """A progress bar over the bytes of a file; none where nobody sees it."""
    size = path.stat().st_size
    return tqdm(total=size, desc=path.name, unit="B", unit_scale=True, leave=False, file=sys.stderr, disable=None)


def _decode(raw: bytes, number: int, path: Path, counts: Counter[str], replace_bad: bool) -> str:
    """One line of the file as text, without its end."""
    if raw[-1:] == b"\n":
        raw = raw[:-1]
        if raw[-1:] == b"\r":
            raw = raw[:-1]
            counts["crlf_line_ends"] += 1
    elif len(raw) >= LONGEST_LINE:
        raise InputError(f"line {number} of {path} is longer than {LONGEST_LINE >> 20} MiB: this is not a text file.")
    if number == 1 and raw[:3] == _BYTE_ORDER_MARK:
        raw = raw[3:]
        counts["byte_order_marks"] += 1
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if not replace_bad:
            raise InputError(
                f"line {number} of {path} is not UTF-8 ({error.reason}): convert it, or pass --bad-utf8 replace."
            ) from error
        counts["lines_of_bad_utf8"] += 1
        return raw.decode("utf-8", errors="replace")


def read_aligned(
    paths: list[Path], counts: Counter[str] | None = None, replace_bad: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield (where, the line of each file): the files must be aligned line by line.

    Raises:
        InputError: if a file is missing, cannot be read, or ends before another.
    """
    streams = [read_lines(path, counts, replace_bad) for path in paths]
    for number, lines in enumerate(zip_longest(*streams), start=1):
        if None in lines:
            short = paths[lines.index(None)]
            long = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
            raise InputError(
                f"{short} has {number - 1} lines but {long} has more: the sides must be aligned line by line."
            )
        yield f"line {number} of {' / '.join(map(str, paths))}", list(lines)


def read_words(paths: list[Path]) -> Iterator[tuple[str, list[list[str]]]]:
    """As ``read_aligned``, each line as its words.

    Raises:
        InputError: if a line is empty, too.
    """
    for where, lines in read_aligned(paths):
        sides = [line.split() for line in lines]
        if not all(sides):
            raise InputError(f"{where} has an empty side: leave such pairs out.")
        yield where, sides
