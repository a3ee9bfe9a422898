"""Validate the page's questions. This module checks every value of a request before it is used."""

import unicodedata
from collections.abc import Collection
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from ..errors import UserError
from ..storage.json_files import parse_json


class Limits(NamedTuple):
    """Upper limits for the values of a question."""

    characters: int = 2_000
    beam: int = 20
    outputs: int = 10
    length: int = 500
    systems: int = 2
    # Maximum of (words to read, to plan for or to write) times beam size. The time of the search grows with this
    # product.
    searched: int = 2_500
    output: int = 200  # maximum number of words in an output, for any beam size, as in fairseq without --max-len-b
    # maximum bytes of a request: 2,000 characters take up to 12 bytes each in JSON, and there are other fields
    body: int = 32_768


LIMITS = Limits()


class Question(Struct, frozen=True):
    """A sentence or topics, and the options for decoding them.

    Attributes:
        text: the text in one line, without control characters.
        systems: names of one or two of the loaded checkpoints.
        beam: beam size. ``None`` = the beam size of each checkpoint.
        outputs: number of outputs to show, at most the beam size.
        length: length in words that the model plans for, if its arch needs it.
    """

    text: str
    systems: Annotated[tuple[str, ...], Meta(min_length=1, max_length=LIMITS.systems)]
    beam: Annotated[int, Meta(ge=1, le=LIMITS.beam)] | None = None
    outputs: Annotated[int, Meta(ge=1, le=LIMITS.outputs)] = 5
    length: Annotated[int, Meta(ge=1, le=LIMITS.length)] = 100


def clean(text: str) -> str:
    """Return the text in one line, with spaces instead of control characters and lone surrogates."""
    return " ".join("".join(" " if unicodedata.category(sign) in ("Cc", "Cs") else sign for sign in text).split())


def read_question(body: bytes, names: Collection[str]) -> Question:
    """Read the JSON of a request.

    Args:
        body: ``{"text": ..., "systems": [name, ...], "beam": 5, "outputs": 5, "length": 100}``. The last three members
            may be missing.
        names: names of the loaded checkpoints.

    Raises:
        UserError: if the request is not valid. The message names the first problem.
    """
    try:
        question = convert(parse_json(body), Question)
    except (ValueError, ValidationError) as error:
        raise UserError(f"the request is not one of this page ({error}): use the page.") from None
    if len(question.text) > LIMITS.characters:
        raise UserError(
            f"the text has {len(question.text):,} characters, and at most {LIMITS.characters:,} are read: shorten it."
        )
    line = clean(question.text)
    if not line:
        raise UserError("there is nothing to decode yet: type a sentence, or topics.")
    if len(set(question.systems)) < len(question.systems):
        raise UserError("choose one checkpoint, or two different ones to compare.")
    if not set(question.systems) <= set(names):
        raise UserError(f"no such checkpoint is loaded; there is {', '.join(names)}.")
    if question.beam is not None and question.outputs > question.beam:
        raise UserError(
            f"a beam of {question.beam} has no {question.outputs} outputs: widen the beam, or ask for fewer outputs."
        )
    return replace(question, text=line)
