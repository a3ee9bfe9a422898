"""Random choices for the scripts that generate data.

They use only ``random()``, which returns the same numbers for a seed in all Python versions.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """Return one item. All items are equally likely."""
    return items[int(rng.random() * len(items))]


def between(rng: Random, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``, both included."""
    return low + int(rng.random() * (high - low + 1))


def shuffle(rng: Random, items: Iterable[Item]) -> list[Item]:
    """Return the items in random order."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in range(len(left))]
