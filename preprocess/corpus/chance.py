"""Random choices for the generators, by ``random()`` alone: its numbers are the ones that Python keeps for ever."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """One item, each as likely as any other."""
    return items[int(rng.random() * len(items))]


def between(rng: Random, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both included."""
    return low + int(rng.random() * (high - low + 1))


def shuffle(rng: Random, items: Iterable[Item]) -> list[Item]:
    """The items in random order."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in range(len(left))]
