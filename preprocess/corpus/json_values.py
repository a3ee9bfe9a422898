"""Read JSON values one by one from a file of any size.

The file contains JSON lines, one array, or objects over several lines.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from corpus.headers import index_of, mostly
from corpus.reading import Row, read_blocks
from wean_fairseq.errors import UserError
from wean_fairseq.storage.json_files import without_repetition

DEEPEST = 20  # maximum number of levels in the path to a column
LONGEST_VALUE = 1 << 26  # maximum length of a value in characters. A value is read into memory as a whole
_SAMPLE, _SAMPLE_BLOCKS = 20, 16  # maximum number of lines, and of 64 KiB blocks, for detecting the layout
_SPACE = re.compile(r"\s*")
_BEGINNING = re.compile(r"""\s*(\{\s*(["'}]|$)|\[\s*([\[{"'\]]|$))""")


def parse_json_line(line: str, number: int) -> Row:
    """Parse a line of JSON. A repeated name in an object is a problem."""
    try:
        return Row(number, json.loads(line, object_pairs_hook=without_repetition))
    except (ValueError, RecursionError) as error:
        return Row(number, None, _reason(error))


def is_json(path: Path, beginning: str) -> bool:
    """Return True if a file is JSON, even if it is damaged: by its name, its first characters, or most of its lines.

    A dictionary or list that Python has printed counts as JSON.
    """
    if path.name.removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")) or _BEGINNING.match(beginning):
        return True
    return mostly((isinstance(parse_json_line(line, 0).value, dict) for line in beginning.split("\n")[1:-1]), 0.5)


class JsonFile:
    """The values of a JSON file.

    Args:
        path: path of the file.
        replace_bad: replace bytes that are not UTF-8 instead of refusing the file.

    Attributes:
        layout: "JSON lines", "a JSON array" or "JSON objects".

    Raises:
        UserError: if the file cannot be read.
    """

    def __init__(self, path: Path, *, replace_bad: bool = False) -> None:
        self.path = path
        self.replace_bad = replace_bad
        text = "".join(islice(read_blocks(path, None, replace_bad), _SAMPLE_BLOCKS))
        sample = [line for line in islice(text.split("\n"), _SAMPLE) if line.strip()]
        parsed = [parse_json_line(line, 1) for line in sample]
        alone = [value.value for value in parsed if not value.problem and isinstance(value.value, (dict, list))]
        self.layout = "JSON lines" if alone else "JSON objects"
        # If the file has only one line with an array of rows, the file is an array. If every line is an array of texts,
        # each line is a row.
        nested = len(sample) == 1 and alone and isinstance(alone[0], list) and not _is_row(alone[0])
        if sample and sample[0].lstrip().startswith("[") and (nested or parsed[0].problem):
            self.layout = "a JSON array"

    def values(self, counts: Counter[str] | None = None) -> Iterator[Row]:
        """Yield the values of the file. In JSON lines, a malformed line yields a value with a problem.

        Raises:
            UserError: if the rest of the file cannot be read. The message names the line.
        """
        if self.layout == "JSON lines":
            for number, line in enumerate(self._lines(counts), start=1):
                if line.strip():
                    yield parse_json_line(line, number)
        else:
            yield from self._stream(read_blocks(self.path, counts, self.replace_bad))

    def _lines(self, counts: Counter[str] | None) -> Iterator[str]:
        parts: list[str] = []
        for block in read_blocks(self.path, counts, self.replace_bad):
            parts.append(block)
            if "\n" in block:
                *lines, rest = "".join(parts).split("\n")
                yield from lines
                parts = [rest]
            elif sum(map(len, parts)) > LONGEST_VALUE:
                raise UserError(
                    f"{self.path} has a line of more than {LONGEST_VALUE >> 20} MiB: write one row per line."
                )
        yield "".join(parts)

    def _stream(self, blocks: Iterable[str]) -> Iterator[Row]:
        """Decode values from the blocks. While a value is incomplete, more blocks are added."""
        decoder = json.JSONDecoder(object_pairs_hook=without_repetition)
        source = iter(blocks)
        buffer, line, between = next(source, ""), 1, "[" if self.layout == "a JSON array" else ""
        place = 0
        while True:
            end = _SPACE.match(buffer, place).end()  # type: ignore[union-attr]  # always matches
            if between and buffer[end : end + 1] == between:
                end = _SPACE.match(buffer, end + 1).end()  # type: ignore[union-attr]
            line += buffer.count("\n", place, end)
            place = end
            closing = bool(between) and buffer[place : place + 1] == "]"
            following: str | None = None
            if not closing and place < len(buffer):
                try:
                    value, end = decoder.raw_decode(buffer, place)
                except (ValueError, RecursionError) as error:
                    following = self._more(source, buffer, place, error, line)
                else:
                    yield Row(line, value)
                    line += buffer.count("\n", place, end)
                    place, between = end, between and ","
                    continue
            elif not closing:
                following = next(source, None)
                if following is None and between:
                    raise UserError(f"{self.path} ends within a JSON array: is the file complete?")
            if following is None:
                self._refuse_rest(chain([buffer[place + closing :]], source), line)
                return
            buffer, place = buffer[place:] + following, 0

    def _more(self, source: Iterator[str], buffer: str, place: int, error: Exception, line: int) -> str:
        """Read more blocks for an incomplete value.

        The length of the text is doubled each time, so the total time is linear.
        """
        cut_off = isinstance(error, json.JSONDecodeError) and (
            error.pos >= len(buffer) - 8 or error.msg.startswith("Unterminated string")
        )
        more = "".join(islice(source, 1 + (len(buffer) - place) // (1 << 16))) if cut_off else ""
        if not more or len(buffer) - place > LONGEST_VALUE:
            if isinstance(error, json.JSONDecodeError):
                line += buffer.count("\n", place, error.pos)
            raise UserError(f"line {line} of {self.path} is not JSON ({_reason(error)}).") from error
        return more

    def _refuse_rest(self, rest: Iterable[str], line: int) -> None:
        if any(block.strip() for block in rest):
            raise UserError(f"{self.path} has text after its JSON array, which ends on line {line}.")


def _is_row(value: list[Any]) -> bool:
    return bool(value) and not any(isinstance(part, (dict, list)) for part in value)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        hint = "; JSON takes double quotation marks" if error.doc[error.pos : error.pos + 1] == "'" else ""
        return f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')} at character {error.pos + 1}{hint}"
    if str(error).startswith("Exceeds the limit"):  # Python's ValueError for a long number
        return f"it has a number of more than {sys.get_int_max_str_digits():,} digits"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def value_at(value: Any, path: str) -> Any:
    """Return the part of an object at a path such as ``translation.en``. Items of lists are numbered from 1.

    Returns:
        The part, or ``None`` if there is none.
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    name, _, rest = path.partition(".")
    if isinstance(value, list) and (index := index_of(name, len(value))) is not None:
        item = value[index]
    elif isinstance(value, dict) and name in value:
        item = value[name]
    else:
        return None
    return value_at(item, rest) if rest else item


def leaves_of(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of the innermost parts of an object.

    Parts at more than ``DEEPEST`` levels are not divided further.
    """
    if isinstance(value, (dict, list)) and depth < DEEPEST:
        items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value, start=1)
        for name, child in items:
            yield from leaves_of(child, f"{prefix}.{name}" if prefix else str(name), depth + 1)
    else:
        yield prefix, value
