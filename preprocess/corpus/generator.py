"""Common frame of the scripts that generate data: options for the sizes, draws without repetition, and the files."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from tqdm import tqdm

from corpus.command import whole_number
from corpus.output import SPLITS, OutputFolder
from wean_fairseq.errors import UserError

MAX_MISSES = 5000  # a grammar is considered exhausted after this number of repeated items in succession
EXAMPLES = whole_number(1, 10_000_000)  # argparse type for numbers of examples. Larger numbers are typing errors
_ADJECTIVES = {"train": "training", "valid": "validation", "test": "test"}
Item = TypeVar("Item")


def add_sizes(parser: ArgumentParser, sizes: Mapping[str, int], noun: str = "pairs") -> None:
    """Add the options ``--train``, ``--valid`` and ``--test``, whose defaults are ``sizes``."""
    for split, size in sizes.items():
        help_text = f"number of {_ADJECTIVES[split]} {noun}"
        parser.add_argument(f"--{split}", type=EXAMPLES, default=size, metavar="N", help=help_text)


def sizes_of(options: Namespace, ending: str = "") -> dict[str, int]:
    """Return the number of items of each split. ``ending`` is the end of the names of the options."""
    return {split: getattr(options, split + ending) for split in SPLITS}


def draw_distinct(
    counts: Mapping[str, int],
    draw: Callable[[str, int], Item],
    keys: Callable[[Item], set[Hashable]],
    *,
    noun: str = "pairs",
    advice: str = "ask for fewer",
    title: str = "generating",
) -> Iterator[tuple[str, Item]]:
    """Yield every item with its split, starting with the test split. No key occurs twice, even in different splits.

    If only the number of training items changes, the test and validation items stay the same. On a terminal, a progress
    bar is shown.

    Args:
        counts: number of items of each split.
        draw: function that draws an item from the name of its split and its number in the split.
        keys: function that returns the parts of an item that must be new.
        noun: name of the items, for the error message and the progress bar.
        advice: end of the error message.
        title: title of the progress bar.

    Raises:
        UserError: if the grammar has too few different items.
    """
    seen: set[Hashable] = set()
    total = sum(counts.values())
    places = ((split, number) for split in reversed(SPLITS) for number in range(counts[split]))
    for drawn, (split, number) in enumerate(tqdm(places, title, total, unit=f" {noun}", disable=None)):
        for _ in range(MAX_MISSES + 1):
            item = draw(split, number)
            if seen.isdisjoint(keys(item)):
                break
        else:
            raise UserError(f"after {drawn:,} of {total:,} {noun} there is no other one for {split}: {advice}.")
        seen |= keys(item)
        yield split, item


def write_items(
    output: OutputFolder,
    columns: Sequence[str],
    drawn: Iterable[tuple[str, Item]],
    row: Callable[[Item], Iterable[str]],
) -> dict[str, list[Item]]:
    """Write the drawn items to their splits, and return the items of each split.

    Args:
        output: the open output directory.
        columns: suffixes of the files of each split.
        drawn: items with their splits, in any order of the splits.
        row: function that returns one line for each column.
    """
    items: dict[str, list[Item]] = {split: [] for split in SPLITS}
    with ExitStack() as stack:
        files = {split: stack.enter_context(output.split(split, columns)) for split in SPLITS}
        for split, item in drawn:
            files[split].write(*row(item))
            items[split].append(item)
    return items


def json_list(values: Iterable[Any]) -> str:
    """Return a JSON list with one value per line."""
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n]\n"
