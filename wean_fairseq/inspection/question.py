"""Validate the page's questions. Every value of a request passes through here before it is used."""

import json
import unicodedata
from collections.abc import Collection
from typing import Any, NamedTuple

from ..errors import UserError


class Limits(NamedTuple):
    """Upper limits of a question."""

    characters: int = 2_000
    beam: int = 20
    outputs: int = 10
    length: int = 500
    systems: int = 2
    body: int = 32_768  # bytes; 2,000 characters of up to 12 bytes each in JSON, and the other fields


LIMITS = Limits()


class Question(NamedTuple):
    """A sentence or topics, and the options for decoding them.

    Attributes:
        text: in one line, without control characters.
        systems: names of one or two checkpoints.
        beam: beam size. ``None`` = each checkpoint's own.
        outputs: number of outputs to show, at most the beam size.
        length: words to plan for, for archs that need it.
    """

    text: str
    systems: tuple[str, ...]
    beam: int | None
    outputs: int
    length: int


def read_question(body: bytes, names: Collection[str]) -> Question:
    """Read the JSON of a request.

    Args:
        body: ``{"text": ..., "systems": [name, ...], "beam": 5, "outputs": 5, "length": 100}``. The last three may be
            missing.
        names: names of the loaded checkpoints.

    Raises:
        UserError: with the first problem.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON; use the page.") from None
    if not isinstance(fields, dict):
        raise UserError("the request must be a JSON object; use the page.")
    beam = _number(fields, "beam", "the beam width", 5, LIMITS.beam) if "beam" in fields else None
    outputs = _number(fields, "outputs", "the number of outputs", 5, LIMITS.outputs)
    length = _number(fields, "length", "the number of words to plan for", 100, LIMITS.length)
    if beam is not None and outputs > beam:
        raise UserError(f"a beam of {beam} has no {outputs} outputs: widen the beam, or ask for fewer outputs.")
    return Question(_text(fields), _systems(fields, names), beam, outputs, length)


def clean(text: str) -> str:
    """The text in one line, with spaces instead of control characters and lone surrogates."""
    return " ".join("".join(" " if unicodedata.category(sign) in ("Cc", "Cs") else sign for sign in text).split())


def _text(fields: dict[str, Any]) -> str:
    text = fields.get("text")
    if not isinstance(text, str):
        raise UserError("the request has no text; use the page.")
    if len(text) > LIMITS.characters:
        raise UserError(
            f"the text has {len(text):,} characters, and at most {LIMITS.characters:,} are read: shorten it."
        )
    line = clean(text)
    if not line:
        raise UserError("there is nothing to decode yet: type a sentence, or topics.")
    return line


def _systems(fields: dict[str, Any], names: Collection[str]) -> tuple[str, ...]:
    requested = fields.get("systems")
    if not isinstance(requested, list) or not requested or not all(isinstance(name, str) for name in requested):
        raise UserError("the request names no checkpoint; choose one.")
    if len(requested) > LIMITS.systems or len(set(requested)) < len(requested):
        raise UserError("choose one checkpoint, or two different ones to compare.")
    if any(name not in names for name in requested):
        raise UserError(f"no such checkpoint is loaded; there is {', '.join(names)}.")
    return tuple(requested)


def _number(fields: dict[str, Any], key: str, what: str, default: int, most: int) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UserError(f"{what} must be a whole number from 1 to {most}.")
    return value
