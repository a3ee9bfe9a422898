"""Data sets that are at hand as plain ``{train,valid,test}.{src,tgt}``, whatever their published format is."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from corpus.errors import InputError
from corpus.output import SIDES, SPLITS
from corpus.preparation import Preparation


def plain_files(folder: Path) -> dict[str, list[Path]]:
    """The splits of which both sides are in the folder, the held-out ones first."""
    found = {split: [folder / f"{split}.{side}" for side in SIDES] for split in reversed(SPLITS)}
    return {split: paths for split, paths in found.items() if all(path.is_file() for path in paths)}


def set_missing(options: Namespace, values: Mapping[str, Any]) -> None:
    """Put values that were not given into the options, and so into the manifest."""
    for name, value in values.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def refuse_choices(options: Namespace, *names: str) -> None:
    """Refuse options that choose among published pairs, where the splits are at hand.

    Raises:
        InputError: naming the option.
    """
    for name in names:
        given = getattr(options, name)
        if given is not None and given is not False:  # 0 was given
            raise InputError(
                f"{options.data} is split already: --{name.replace('_', '-')} chooses among published pairs; leave it "
                "out, or give --data the published files."
            )


def write_plain(
    preparation: Preparation,
    files: dict[str, list[Path]],
    sizes: Mapping[str, int | None] = MappingProxyType({}),
    seed: int = 1,
) -> None:
    """Write those splits; pairs with an empty side are left out and counted.

    Args:
        preparation: the run of the script.
        files: both sides of each split (``plain_files``).
        sizes: pairs to draw from a split, at most; one without a size is written whole, in its own order.
        seed: of the draws (Python's ``Random(seed).shuffle`` of the lines).

    Raises:
        InputError: if there is no such split to draw from.
    """
    for split in (split for split, size in sizes.items() if size and split not in files):
        raise InputError(f"there is no {split}.src with a {split}.tgt to draw --{split} {sizes[split]} from.")
    for split, paths in files.items():
        pairs: Iterable[list[str]] = (pair for _, pair in preparation.aligned_lines(paths))
        if size := sizes.get(split):
            pairs = list(pairs)
            Random(seed).shuffle(pairs)
            pairs = pairs[:size]
        with preparation.split(split) as writer:
            writer.add_all(pairs)
