"""The grammar of the synthetic dialogues: 173 patterns of one turn and its possible responses, in Chinese.

A line of `TURNS` is `what is said > a response | another one`, a line that starts with `|` adds responses to the line
before. `{person}` is a filler of that type (see dialogue_fillers.py), `{person2}` another one of the same type. A slot
that only a response has is an entity that cannot be copied.
"""

import re
from typing import NamedTuple

from corpus.grammar import read_grammar

GRAMMAR = read_grammar("dialogues")

TURNS = GRAMMAR["turns"]

SLOT = re.compile(r"\{([a-z]+)(\d?)\}")


class Pattern(NamedTuple):
    """An utterance and one or more responses, with slots."""

    said: str
    responses: tuple[str, ...]


def parse_turns(text: str) -> list[Pattern]:
    """Return the patterns that the lines write down."""
    patterns: list[Pattern] = []
    for line in filter(None, text.splitlines()):
        said, _, responses = (part.strip() for part in line.partition(">"))
        found = tuple(response.strip() for response in responses.split("|"))
        patterns.append(Pattern(said, found))
    return patterns


def slots(text: str) -> list[str]:
    """Return the slots of a pattern's side, in their order, each once: "person", "person2"."""
    return list(dict.fromkeys(name + number for name, number in SLOT.findall(text)))


PATTERNS = parse_turns(TURNS)
