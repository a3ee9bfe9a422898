"""Read JSON from files of limited size, with finite numbers and without repeated names."""

import json
import os
import re
from typing import Any

from .files import read_regular

_LARGEST_JSON = 1 << 26  # maximum size of a JSON file in bytes
_MANY = 1 << 20  # larger texts are not checked for repeated names
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LARGEST_NUMBER = 1e30  # numbers in JSON must be smaller in magnitude, as in all tables, figures and models


def read_json(path: str | os.PathLike[str], most: int = _LARGEST_JSON) -> Any:
    """Return the content of a JSON file.

    Args:
        path: path of the file.
        most: maximum size in bytes.

    Raises:
        OSError: if it cannot be read, is not a regular file, or is too large.
        ValueError: see ``parse_json``, or if it contains a surrogate character that is not in a pair, which can be
            neither printed nor written.
    """
    text = read_regular(path, most).decode("utf-8-sig")
    value = parse_json(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text, and return its value.

    Raises:
        ValueError: if it is not JSON, contains NaN or numbers that are too large, or is nested too deeply.
    """
    # checking a large file for repeated keys would double the time
    hook = without_repetition if len(text) < _MANY else None
    try:
        return json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_number, object_pairs_hook=hook)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def without_repetition(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object. Raise ``ValueError`` if a name occurs twice."""
    content: dict[str, Any] = {}
    for name, value in members:
        if name in content:
            raise ValueError(f"it has {name!r:.40} more than once")
        content[name] = value
    return content


def _number(text: str) -> float:
    if not abs(float(text)) < _LARGEST_NUMBER:
        raise ValueError(f"{text:.40} is not a number below {_LARGEST_NUMBER:g}")
    return int(text) if text.lstrip("-").isdecimal() else float(text)
