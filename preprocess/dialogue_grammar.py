"""Grammar of the synthetic dialogues, `grammars/dialogues.toml`.

It contains patterns of dialogue turns, and fillers for their slots.

Each of the 173 patterns in Chinese has an utterance and one or more responses. `{person}` stands for a filler of that
type, and `{person2}` for another filler of the same type. If a slot occurs only in a response, its entity cannot be
copied.

A filler (such as a name, dish, title or number) is composed of parts. A part is a list of words. A list may have two
halves, `a b / c d`. Then DS-II uses the words before the slash for training and the words after it for testing, and
DS-I uses all words. Therefore no filler of DS-II is in both halves. The words of the second half are rarer, so most of
its fillers contain a character that no filler of the first half contains.
"""

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import pick
from corpus.grammar import read_grammar

GRAMMAR = read_grammar("dialogues")
PARTS: dict[str, str] = GRAMMAR["parts"]
# Maps each type to its forms. A form lists the parts that are joined. A name that is not the name of a part is written
# unchanged.
FORMS: dict[str, list[str]] = GRAMMAR["forms"]
MAX_MISSES = 500  # a pool is considered complete after this number of repeated fillers in succession

HALVES = ("train", "test")
SLOT = re.compile(r"\{([a-z]+)(\d?)\}")


class Pattern(NamedTuple):
    """An utterance and its possible responses, with slots."""

    said: str
    responses: list[str]


PATTERNS = [Pattern(said, responses) for said, responses in GRAMMAR["turns"].items()]


def slots(text: str) -> list[str]:
    """Return the distinct slots of one side of a pattern in order, such as "person" and "person2"."""
    return list(dict.fromkeys(name + number for name, number in SLOT.findall(text)))


def words_of(part: str, halves: Sequence[str]) -> list[str]:
    """Return the words of a part in the given halves. A name that is not the name of a part is returned unchanged."""
    text = PARTS.get(part, part)
    first, _, second = text.partition("/")
    chosen = {"train": first, "test": second or first}
    return list(dict.fromkeys(word for half in halves for word in chosen[half].split()))


def draw_pool(rng: Random, kind: str, halves: Sequence[str], size: int) -> list[str]:
    """Draw ``size`` different fillers of one type, or all fillers if there are fewer."""
    forms = [[words_of(part, halves) for part in form.split()] for form in FORMS[kind]]
    pool: dict[str, None] = {}
    misses = 0
    while len(pool) < size and misses < MAX_MISSES:
        filler = "".join(pick(rng, words) for words in pick(rng, forms))
        misses = misses + 1 if filler in pool else 0
        pool[filler] = None
    return list(pool)
