"""Fillers of the slots of the synthetic dialogues: names, dishes, titles, numbers, all put together from parts.

A part is a list of words; where it has two halves, `a b / c d`, the sets of DS-II take the words before the slash for
training and those behind it for testing, and the sets of DS-I take both. So no filler is in both halves, and as the
words of the second are rarer, most of its fillers have a character that no filler of the first has.
"""

from collections.abc import Sequence
from random import Random

from corpus.chance import pick
from corpus.grammar import read_grammar

GRAMMAR = read_grammar("dialogues")

PARTS = GRAMMAR["parts"]

# The forms of each type: the parts that are put together; a name that is no part stands for itself.
FORMS = {name: tuple(forms) for name, forms in GRAMMAR["forms"].items()}
MAX_MISSES = 500  # repeated fillers in a row after which a pool holds all there are

HALVES = ("train", "test")


def words_of(part: str, halves: Sequence[str]) -> list[str]:
    """Return the words of a part in these of its halves, a name that is no part as itself."""
    text = PARTS.get(part, part)
    first, _, second = text.partition("/")
    chosen = {"train": first, "test": second or first}
    return list(dict.fromkeys(word for half in halves for word in chosen[half].split()))


def draw_pool(rng: Random, kind: str, halves: Sequence[str], size: int) -> list[str]:
    """Draw so many different fillers of one type, all that there are if they are fewer."""
    forms = [[words_of(part, halves) for part in form.split()] for form in FORMS[kind]]
    pool: dict[str, None] = {}
    misses = 0
    while len(pool) < size and misses < MAX_MISSES:
        filler = "".join(pick(rng, words) for words in pick(rng, forms))
        misses = misses + 1 if filler in pool else 0
        pool[filler] = None
    return list(pool)
