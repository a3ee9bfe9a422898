"""Recognise files without one sentence per line: n-best lists, tables, JSON and markup (``formats.toml``).

The scores of such a file would be meaningless. The error message names a command that converts the file to plain text.
Only the JSON lines of ``wean-generate`` are read in spite of their format, because they are unambiguous.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct, ValidationError, convert

from ..errors import UserError
from ..storage.json_files import parse_json
from .text_files import PathLike, read_table

#: A number in the notation of programs that print scores or line numbers next to sentences.
NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)?(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)
#: Possible keys of the output text in JSON. The most specific keys come first.
_TEXT_KEYS = ("text", "hypothesis", "prediction", "output", "generated", "translation", "target")
_WRITE_JSON = "import json, sys; [print(item{path}) for item in {items}]"
_LINES = 20  # number of lines from which the output of wean-generate is recognised
_JSON_ITEMS = ("map(json.loads, sys.stdin)", "json.load(sys.stdin)")


class LineFormat(Struct):
    """A file format that can be recognised by its lines, see ``formats.toml``."""

    name: str
    line: str
    remedy: str
    separator: str = ""

    def advise(self, lines: Sequence[str], file: str) -> str:
        """Return advice on how to convert a file with lines in this format.

        The name of the file is quoted for a shell.
        """
        if not self.separator:
            return self.remedy.format(file=file)
        rows = [re.split(self.separator, line) for line in lines]
        numeric = sum(NUMBER.fullmatch(row[0].strip()) is not None for row in rows)
        column = 2 if 2 * numeric > len(rows) else 1
        reason = "numbers in the first" if column == 2 else "several outputs or references of a sentence?"
        return (
            f"there are up to {max(map(len, rows))} columns ({reason}); write the column to score, or each column of "
            f"references, to a plain file: {self.remedy.format(column=column, file=file)}"
        )


LINE_FORMATS = convert(read_table("formats.toml")["formats"], list[LineFormat])


def check_format(lines: Sequence[str], path: PathLike) -> None:
    """Refuse a file that does not contain one plain sentence per line.

    Raises:
        UserError: if the file has another format. The message names the format and a command that writes a plain file.
    """
    check_no_json(lines, path)
    written = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    file = shlex.quote(str(path))
    for form in LINE_FORMATS:
        matches = re.compile(form.line).match
        fitting = [(number, line) for number, line in written if matches(line)]
        if 2 * len(fitting) > len(written):
            sample = [line for _, line in fitting[:1000]]
            raise UserError(
                f"{path}: {len(fitting)} of {len(lines)} lines, the first being line {fitting[0][0]}, are {form.name}, "
                f"not plain sentences; {form.advise(sample, file)}."
            )


def check_no_json(lines: Sequence[str], path: PathLike) -> None:
    """Raise ``UserError`` for JSON where sentences are expected. The message names a command that writes plain text."""
    written = [line for line in lines if line.strip()]
    content = _json_items(written) if written and written[0].lstrip()[0] in "[{" else None
    if content is not None:
        remedy = _json_remedy(*content, shlex.quote(str(path)))
        raise UserError(f"{path} holds JSON, not one sentence per line; {remedy}.")


def _json_items(written: Sequence[str]) -> tuple[list[Any], str] | None:
    """Return the objects of JSON lines or of a JSON document, and the Python code that reads them, or None."""
    lines = [item for line in written if line.strip()[-1] in "]}" and (item := _parsed(line)) is not None]
    if 2 * len(lines) > len(written) and not (len(written) == 1 and isinstance(lines[0], list)):
        return lines, _JSON_ITEMS[0]
    whole = _parsed("\n".join(written))
    if isinstance(whole, list):
        return whole, _JSON_ITEMS[1]
    return None if whole is None else ([whole], "[json.load(sys.stdin)]")


def _parsed(text: str) -> Any:
    """Parse a JSON text, and return its object or its list of texts or objects. Return None for other text."""
    try:  # Python reads NaN and Infinity although JSON has no such numbers, so such text counts as JSON, too
        item = json.loads(text, parse_int=str)
    except ValueError:
        return None
    except RecursionError:
        return {}
    is_list = isinstance(item, list) and item and all(isinstance(entry, dict | str) for entry in item)
    return item if isinstance(item, dict) or is_list else None


def _json_remedy(items: Sequence[Any], reader: str, file: str) -> str:
    paths = sorted(_text_paths(items[0]), key=lambda place: place[0])
    if not paths:
        return "write the sentences alone to a plain file"
    program = _WRITE_JSON.format(path=paths[0][1], items=reader)
    return f"write the text alone to a plain file, for example: python -c '{program}' <{file}"


def _text_paths(item: Any, path: str = "", rank: int = len(_TEXT_KEYS)) -> Iterator[tuple[int, str]]:
    """Yield the place of every text in a JSON item as Python subscripts, and the rank of its key in `_TEXT_KEYS`."""
    if isinstance(item, str):
        yield rank, path
    elif isinstance(item, dict):
        for key, value in item.items():
            if re.fullmatch(r"\w+", str(key)):
                own = _TEXT_KEYS.index(key) if key in _TEXT_KEYS else rank
                yield from _text_paths(value, f'{path}["{key}"]', min(rank, own))
    elif isinstance(item, list) and item:
        yield from _text_paths(item[0], f"{path}[0]", rank)


class _Text(Struct):
    text: str
    score: float | None = None


class _Line(Struct):
    """A line of ``wean-generate --jsonl``."""

    line: int
    source: list[str]
    outputs: list[_Text]


def read_json_lines(lines: Sequence[str], path: PathLike) -> tuple[list[list[str]], list[str]] | None:
    """Return the n-best lists and the sources of ``wean-generate --jsonl``, or None if the file has another format.

    Raises:
        UserError: if a line is damaged, missing or repeated, or if its outputs are not ordered from best to worst.
            Equal outputs are allowed, because sampling may draw a text twice.
    """
    # Several lines are looked at, because the first one may be damaged.
    beginning = (_parsed(line) for line in lines[:_LINES])
    if not any(isinstance(item, dict) and item.keys() >= {"line", "source", "outputs"} for item in beginning):
        return None
    nbest, sources = [], []
    for number, line in enumerate(lines, start=1):
        try:
            content = convert(parse_json(line), _Line)
        except (ValueError, ValidationError) as error:
            raise UserError(
                f"{path}, line {number}: this is not a line of wean-generate --jsonl, or it is cut off ({error}); "
                "run wean-generate again."
            ) from None
        if content.line != number:
            raise UserError(
                f'{path}, line {number}: its "line" is {content.line}; keep the output of one run, unsorted and '
                "complete."
            )
        for better, worse in pairwise(content.outputs):
            if better.score is not None and worse.score is not None and better.score < worse.score:
                raise UserError(
                    f"{path}, line {number}: its outputs are not best first; keep the output of wean-generate "
                    "unchanged."
                )
        nbest.append([output.text for output in content.outputs] or [""])
        sources.append(" ".join(content.source).removesuffix("</s>"))
    return nbest, sources
