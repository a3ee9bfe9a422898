"""Read lines of typed or piped text, splitting only where this package ends a line, and find unknown words.

fairseq's own reader fails with a traceback if bytes are not UTF-8 or if the file is missing. It decodes a pipe with the
encoding of the locale, and reads a byte order mark as part of the first word. It also treats a lone carriage return as
the end of a line, so all later outputs belong to wrong lines.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from torch import Tensor

from ..console import standard_input
from ..errors import UserError
from ..storage.files import open_input
from .extended_vocabulary import num_base_words

_LONGEST = 1 << 24  # maximum number of bytes in a line
_MANY = 0.2  # a larger share of unknown words causes a warning
_MOST_FORCED = 500  # maximum number of words in the constraints of a line
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LEADING_SPACE = re.compile(r"^[^\S\t]+")


def read_typed_lines(given: str, buffer_size: int) -> Iterator[list[str]]:
    """Yield lists of lines without surrounding white space, like ``fairseq_cli.interactive.buffered_read``.

    Tabs at the start of a line are kept, because constraints follow them. The sentence of such a line is empty.

    Args:
        given: name of the file to read. ``-`` = standard input.

    Raises:
        UserError: if a line is not UTF-8, the file cannot be read, or standard input is closed. The message names the
            first such line.
    """
    lines = _lines(given)
    while buffer := list(islice(lines, buffer_size)):
        yield buffer


def _lines(given: str) -> Iterator[str]:
    if given == "-":
        yield from _decoded(_standard_input(), "the input")
        return
    try:
        with open_input(given) as file:
            yield from _decoded(_lines_of(file), given)
    except OSError as error:
        raise UserError(f"{given} cannot be read ({error.strerror}): give --input a file of text.") from error


def _standard_input() -> Iterable[bytes]:
    """Yield the lines of standard input as bytes.

    In a notebook, standard input may be a text stream. It may also be closed.
    """
    file = standard_input()
    if hasattr(file, "buffer"):
        return _lines_of(file.buffer)
    return (line.encode("utf-8", "surrogatepass") for line in file)


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file.

    Reading stops at a line with more than ``_LONGEST`` bytes, because the line of an endless stream would fill the
    memory.

    Raises:
        UserError: if a line is too long. The message contains the number of the line.
    """
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST + 1), b""), start=1):
        if len(line) > _LONGEST:
            raise UserError(f"line {number} of the input has more than {_LONGEST:,} bytes: give one sentence per line.")
        yield line


def _decoded(raw_lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, raw in enumerate(raw_lines, start=1):
        content = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw
        if not content:  # the file contains nothing but the byte order mark
            continue
        try:
            yield _LEADING_SPACE.sub("", content.decode("utf-8").rstrip())
        except UnicodeDecodeError as error:
            raise UserError(
                f"line {number} of {name} is not UTF-8 ({error.reason}): convert the text to UTF-8 first."
            ) from error


def are_known(tokens: Tensor, dictionary: Any) -> list[bool]:
    """Return True or False for each of the words (T,), depending on whether the dictionary contains the word.

    Slots and spelling ids have higher numbers than the dictionary's own words.
    """
    base = num_base_words(dictionary)
    return [index < base and index != dictionary.unk() for index in tokens.tolist()]


def check_forced(words: int, place: str) -> None:
    """Raise ``UserError`` for a line whose constraints have too many words. fairseq calls itself for each of them."""
    if words > _MOST_FORCED:
        raise UserError(f"{place}the constraints have {words} words: give at most {_MOST_FORCED} for a line.")


def check_constraints(constraints: Tensor, dictionary: Any, first: int) -> None:
    """Reject constraints (B, C), in fairseq's packed form, without words or with words outside the dictionary.

    A row has the number of the constraints of a line, and a 0 after each constraint.

    Args:
        constraints: the rows.
        dictionary: dictionary of the outputs.
        first: number of the first line.
    """
    for line, row in enumerate(constraints, start=first):
        place = f"line {line} of the input"
        ids = row[1:][row[1:] != 0]
        row_known = zip(ids.tolist(), are_known(ids, dictionary), strict=True)
        words = ", ".join(dictionary[index] for index, is_known in row_known if not is_known)
        if words:
            raise UserError(
                f"{place} has constraints that are not in the dictionary: {words}. Use words "
                "(or pieces, if the model was trained on pieces) of the dictionary, or leave them out."
            )
        check_forced(len(ids), f"{place}: ")
        phrases = "".join(f" {index}" for index in row[1:].tolist()).split(" 0")
        if not all(phrases[: int(row[0])]):
            raise UserError(f"{place} has a constraint without a word: give words after each tab.")


def unknown_words_sentence(sentences: Iterable[Tensor], dictionary: Any) -> str:
    """Return a warning if more than a fifth of the words are not in the dictionary, otherwise an empty string."""
    words = 0
    unknown: list[str] = []
    for tokens in sentences:
        content = tokens[(tokens != dictionary.eos()) & (tokens != dictionary.pad())]
        words += len(content)
        are_words_known = are_known(content, dictionary)
        unknown += [
            dictionary[index] for index, is_known in zip(content.tolist(), are_words_known, strict=True) if not is_known
        ]
    if len(unknown) <= _MANY * words:
        return ""
    lowered = sum(word != word.lower() and word.lower() in dictionary.indices for word in unknown)
    kind = "lower-cased" if 2 * lowered >= len(unknown) else "such"
    return f"{len(unknown)} of {words} words are not in the dictionary: was the model trained on {kind} text?"
