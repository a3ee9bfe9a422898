"""Grammar of the synthetic dialogues, `grammars/dialogues.toml`. It has patterns of turns, and fillers of their slots.

There are 173 patterns in Chinese, each with an utterance and one or more responses. `{person}` is a filler of that
type, and `{person2}` is another filler of the same type. A slot that occurs only in a response is an entity that cannot
be copied.

A filler (a name, dish, title, number) is composed of parts. A part is a list of words. If it has two halves, `a b / c
d`, DS-II uses the words before the slash for training and the words after it for testing, and DS-I uses both. So no
filler is in both halves. As the words of the second half are rarer, most of its fillers have a character that no filler
of the first half has.
"""

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from corpus.chance import pick
from corpus.grammar import read_grammar

GRAMMAR = read_grammar("dialogues")
PARTS: dict[str, str] = GRAMMAR["parts"]
# Maps each type to its forms. A form lists the parts that are joined. A name that is not a part is written unchanged.
FORMS: dict[str, list[str]] = GRAMMAR["forms"]
MAX_MISSES = 500  # a pool is considered complete after this number of repeated fillers in a row

HALVES = ("train", "test")
SLOT = re.compile(r"\{([a-z]+)(\d?)\}")


class Pattern(NamedTuple):
    """An utterance and one or more responses, with slots."""

    said: str
    responses: list[str]


PATTERNS = [Pattern(said, responses) for said, responses in GRAMMAR["turns"].items()]


def slots(text: str) -> list[str]:
    """Return the distinct slots of one side of a pattern in order, such as "person" and "person2"."""
    return list(dict.fromkeys(name + number for name, number in SLOT.findall(text)))


def words_of(part: str, halves: Sequence[str]) -> list[str]:
    """Return the words of a part in the given halves. A name that is not a part is returned unchanged."""
    text = PARTS.get(part, part)
    first, _, second = text.partition("/")
    chosen = {"train": first, "test": second or first}
    return list(dict.fromkeys(word for half in halves for word in chosen[half].split()))


def draw_pool(rng: Random, kind: str, halves: Sequence[str], size: int) -> list[str]:
    """Draw this number of different fillers of one type, or all fillers if there are fewer."""
    forms = [[words_of(part, halves) for part in form.split()] for form in FORMS[kind]]
    pool: dict[str, None] = {}
    misses = 0
    while len(pool) < size and misses < MAX_MISSES:
        filler = "".join(pick(rng, words) for words in pick(rng, forms))
        misses = misses + 1 if filler in pool else 0
        pool[filler] = None
    return list(pool)
