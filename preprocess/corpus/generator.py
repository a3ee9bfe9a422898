"""Draw synthetic pairs without repetition, for scripts that generate data."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

from corpus.errors import InputError
from corpus.output import SPLITS

MAX_MISSES = 5000  # a grammar is considered exhausted after this number of repeated items in succession
Item = TypeVar("Item")


def draw_distinct(
    counts: Mapping[str, int],
    draw: Callable[[str, int], Item],
    keys: Callable[[Item], set[Hashable]],
    *,
    noun: str = "pairs",
    advice: str = "ask for fewer",
) -> Iterator[tuple[str, Item]]:
    """Yield every item with its split, starting with the test split. No key occurs twice, even in different splits.

    If only the number of training items changes, the test and validation items stay the same.

    Args:
        counts: number of items of each split.
        draw: function that draws an item from the name of its split and its number in the split.
        keys: function that returns the parts of an item that must be new.
        noun: name of the items, for the error message.
        advice: end of the error message.

    Raises:
        InputError: if the grammar has too few different items.
    """
    seen: set[Hashable] = set()
    drawn = 0
    for split in reversed(SPLITS):
        for number in range(counts[split]):
            for _ in range(MAX_MISSES + 1):
                item = draw(split, number)
                if seen.isdisjoint(keys(item)):
                    break
            else:
                total = sum(counts.values())
                raise InputError(f"after {drawn:,} of {total:,} {noun} there is no other one for {split}: {advice}.")
            seen |= keys(item)
            drawn += 1
            yield split, item
