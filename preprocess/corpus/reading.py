"""Read text files line by line, with constant memory. Errors name the line."""

import codecs
import gzip
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from tqdm import tqdm

from wean_fairseq.console import counted
from wean_fairseq.errors import UserError
from wean_fairseq.storage.files import Unpacked, open_input

LONGEST_LINE = 1 << 26  # a longer line shows that the file does not have one sentence per line
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVERY = 2000  # number of lines between two updates of the progress bar
_BLOCK = 1 << 16  # number of bytes per read
# Maps the first bytes of files that are not text to the advice in the error message.
_NO_TEXT = {
    b"\xff\xfe": "is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8, or save it as UTF-8)",
    b"\xfe\xff": "is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8, or save it as UTF-8)",
    b"PK\x03\x04": "is an archive: unpack it, and name a file that was in it",
    b"\xd0\xcf\x11\xe0": "is an Office file: save its sheet as CSV UTF-8",
    b"BZh": "is packed with bzip2: unpack it",
    b"\xfd7zXZ": "is packed with xz: unpack it",
    b"\x28\xb5\x2f\xfd": "is packed with zstd: unpack it",
    b"7z\xbc\xaf": "is an archive: unpack it, and name a file that was in it",
    b"Rar!": "is an archive: unpack it, and name a file that was in it",
    b"PAR1": "is Parquet: only own_pairs.py and quora.py read that",
    b"ARROW1": "is an Arrow file: save the table as CSV, JSON lines or Parquet",
    b"\xff\xff\xff\xff": "is an Arrow file: save the table as CSV, JSON lines or Parquet",
    b"SQLite format 3": "is an SQLite database: export the table as CSV",
    b"%PDF": "is a PDF: copy its text into a text file",
}


class Row(NamedTuple):
    """A row of a table, with the number of its first line and its problem, if any.

    Its value is a list of cells, or a JSON value.
    """

    line: int
    value: Any
    problem: str = ""


def read_lines(path: Path, counts: Counter[str] | None = None, replace_bad: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, which may be gzipped. Lines end with \\n or \\r\\n.

    A byte order mark is removed.

    Args:
        path: path of the file.
        counts: receives the number of byte order marks, of \\r\\n and of lines with replaced bytes.
        replace_bad: replace bytes that are not UTF-8 by U+FFFD, instead of rejecting the file.

    Raises:
        UserError: if the file is missing, or if one of its lines cannot be used.
    """
    counts = Counter() if counts is None else counts
    with opened(path) as (file, lines), _bar(path) as bar:
        for number, raw in enumerate(iter(partial(lines.readline, LONGEST_LINE), b""), start=1):
            if number == 1:
                _refuse_other_formats(raw, path)
            if number % _EVERY == 0:
                bar.update(file.tell() - bar.n)
            if number > 1 or raw != _BYTE_ORDER_MARK:  # a file that contains only a byte order mark has no line
                yield _decode(raw, number, path, counts, replace_bad)


def read_blocks(path: Path, counts: Counter[str] | None = None, replace_bad: bool = False) -> Iterator[str]:
    """Yield a UTF-8 file in blocks, with the checks of ``read_lines``, because the file may be one long line.

    Raises:
        UserError: if the file is missing, or if some of its bytes cannot be used.
    """
    counts = Counter() if counts is None else counts
    decoder = codecs.getincrementaldecoder("utf-8")("replace" if replace_bad else "strict")
    line = 1
    with opened(path) as (file, blocks), _bar(path) as bar:
        for number, raw in enumerate(iter(partial(blocks.read, _BLOCK), b""), start=1):
            start = 0
            if number == 1:
                _refuse_other_formats(raw, path)
                if raw.startswith(_BYTE_ORDER_MARK):
                    counts["byte_order_marks"] += 1
                    start = len(_BYTE_ORDER_MARK)
            try:
                yield decoder.decode(raw[start:])
            except UnicodeDecodeError as error:
                line += raw.count(b"\n", 0, start + error.start)
                raise _bad_utf8(line, path, error) from error
            line += raw.count(b"\n")
            bar.update(file.tell() - bar.n)
        try:
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise _bad_utf8(line, path, error) from error


def read_beginning(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file. A gzipped file is unpacked.

    Raises:
        UserError: if the file cannot be read.
    """
    with opened(path) as (_, unpacked):
        return unpacked.read(size)


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file. Yield the file itself, which shows the position, and its unpacked content.

    Problems raise ``UserError``.
    """
    try:
        with open_input(path) as file, closing(_unpacked(file)) as content:
            yield file, content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"cannot unpack {path}: {error}.") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from error


def _unpacked(file: BinaryIO) -> BinaryIO:
    """Return the file, or its unpacked content if it is gzipped."""
    magic = file.read(2)
    file.seek(0)
    return cast(BinaryIO, Unpacked(file)) if magic == b"\x1f\x8b" else file


def _refuse_other_formats(beginning: bytes, path: Path) -> None:
    """Raise ``UserError`` if a file is not text but, for example, an Excel workbook or a tar archive."""
    if beginning[257:262] == b"ustar":  # this comes first, because an archive may begin with text
        raise UserError(f"{path} is an archive: unpack it, and name a file that was in it.")
    if beginning.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in read_beginning(path):
        raise UserError(f"{path} is a workbook of Excel: save its sheet as CSV UTF-8, and name that file.")
    for magic, remark in _NO_TEXT.items():
        if beginning.startswith(magic):
            raise UserError(f"{path} {remark}.")
    if 3 * beginning[:64].count(0) > len(beginning[:64]) > 12:
        raise UserError(f"{path} has zero bytes, as UTF-16 without a byte order mark has: convert it to UTF-8.")


def _bar(path: Path) -> "tqdm[NoReturn]":
    """Return a progress bar over the bytes of a file, shown only on a terminal."""
    size = path.stat().st_size
    return tqdm(total=size, desc=path.name, unit="B", unit_scale=True, leave=False, file=sys.stderr, disable=None)


def _decode(raw: bytes, number: int, path: Path, counts: Counter[str], replace_bad: bool) -> str:
    """Decode one line of the file, without its line ending."""
    if raw[-1:] == b"\n":
        raw = raw[:-1]
        if raw[-1:] == b"\r":
            raw = raw[:-1]
            counts["crlf_line_ends"] += 1
    elif len(raw) >= LONGEST_LINE:
        raise UserError(f"line {number} of {path} is longer than {LONGEST_LINE >> 20} MiB: this is not a text file.")
    if number == 1 and raw[:3] == _BYTE_ORDER_MARK:
        raw = raw[3:]
        counts["byte_order_marks"] += 1
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if not replace_bad:
            raise _bad_utf8(number, path, error) from error
        counts["lines_of_bad_utf8"] += 1
        return raw.decode("utf-8", errors="replace")


def _bad_utf8(line: int, path: Path, error: UnicodeDecodeError) -> UserError:
    return UserError(f"line {line} of {path} is not UTF-8 ({error.reason}): convert it, or pass --bad-utf8 replace.")


def read_aligned(
    paths: list[Path], counts: Counter[str] | None = None, replace_bad: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each line and the lines of all files, for files that must be aligned line by line.

    Raises:
        UserError: if a file is missing, cannot be read, or ends before another.
    """
    streams = [read_lines(path, counts, replace_bad) for path in paths]
    for number, lines in enumerate(zip_longest(*streams), start=1):
        if None in lines:
            short = paths[lines.index(None)]
            long = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
            raise UserError(
                f"{short} has {counted(number - 1, 'line')} but {long} has more: the sides must be aligned."
            )
        yield f"line {number} of {' / '.join(map(str, paths))}", list(lines)


def read_words(paths: list[Path]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the same values as ``read_aligned``, with each line split into words.

    Raises:
        UserError: for the same reasons as in ``read_aligned``, or if a line is empty.
    """
    for where, lines in read_aligned(paths):
        sides = [line.split() for line in lines]
        if not all(sides):
            raise UserError(f"{where} has an empty side: leave such pairs out.")
        yield where, sides
