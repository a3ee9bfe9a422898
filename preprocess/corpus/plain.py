"""Data sets that consist of plain files ``{train,valid,test}.{src,tgt}``, whatever their published format is."""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from corpus.messages import say
from corpus.output import SIDES, SPLITS
from corpus.preparation import Preparation
from wean_fairseq.errors import UserError


def plain_files(folder: Path) -> dict[str, list[Path]]:
    """Return the splits in the folder. Held-out splits come first. See ``complete_splits``."""
    return complete_splits({split: [folder / f"{split}.{side}" for side in SIDES] for split in reversed(SPLITS)})


def required_files(folder: Path, remark: str = "") -> list[Path]:
    """Return the files of all splits in the folder.

    Raises:
        UserError: if there are none. ``remark`` is added to the message.
    """
    files = [path for paths in plain_files(folder).values() for path in paths]
    if not files:
        raise UserError(f"{folder} has no {{train,valid,test}}.{{src,tgt}}{remark}.")
    return files


def complete_splits(files: Mapping[str, list[Path]]) -> dict[str, list[Path]]:
    """Return the splits whose files exist.

    Raises:
        UserError: if a split has only some of its files.
    """
    for paths in files.values():
        missing = [path for path in paths if not path.is_file()]
        if 0 < len(missing) < len(paths):
            present = next(path for path in paths if path not in missing)
            raise UserError(f"{present} has no {missing[0].name} beside it: add it, or move {present.name} elsewhere.")
    return {split: paths for split, paths in files.items() if paths[0].is_file()}


def check_distinct(files: Iterable[tuple[str, Path]]) -> None:
    """Refuse a file that is given for two purposes, such as training and test.

    Args:
        files: pairs of a purpose, for messages, and a file.

    Raises:
        UserError: if a file has two purposes.
    """
    purposes: dict[Path, str] = {}
    for purpose, path in files:
        first = purposes.setdefault(path.resolve(), purpose)
        if first != purpose:
            raise UserError(f"{path} is given as {first} and as {purpose}: give another file for one of them.")


def check_sides(first: Sequence[Path], paths: Sequence[Path]) -> None:
    """Refuse two files whose endings are those of the first two files in the opposite order."""
    endings = [path.suffix for path in first]
    if endings[::-1] == [path.suffix for path in paths] != endings:
        shown = " and ".join(str(path) for path in paths)
        raise UserError(f"{shown} have the endings of {first[1]} and {first[0]}: give the sources first.")


def set_missing(options: Namespace, values: Mapping[str, Any]) -> None:
    """Set options that were not given to these values, so that the manifest contains them."""
    for name, value in values.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def refuse_choices(options: Namespace, *names: str) -> None:
    """Reject options that select published pairs if the data is already split.

    Raises:
        UserError: if such an option is given. The message names it.
    """
    for name in names:
        choice = getattr(options, name)
        if choice is not None and choice is not False:  # the number 0 counts as given
            raise UserError(
                f"{options.data} is split already: --{name.replace('_', '-')} chooses among published pairs; leave it "
                "out, or give --data the published files."
            )


def write_plain(
    preparation: Preparation,
    files: dict[str, list[Path]],
    sizes: Mapping[str, int | None] = MappingProxyType({}),
    seed: int = 1,
) -> None:
    """Write the splits of plain files. Pairs with an empty side are dropped and counted.

    Args:
        preparation: state of this run of the script.
        files: both sides of each split (see ``plain_files``).
        sizes: number of pairs to draw from a split. A split without a size is written completely, in file order.
        seed: seed of the draws (Python's ``Random(seed).shuffle`` of the lines).

    Raises:
        UserError: if a split to draw from does not exist.
    """
    for split in (split for split, size in sizes.items() if size and split not in files):
        raise UserError(f"there is no {split}.src with a {split}.tgt to draw --{split} {sizes[split]} from.")
    for split, paths in files.items():
        pairs: Iterable[list[str]] = (pair for _, pair in preparation.aligned_lines(paths))
        if size := sizes.get(split):
            pairs = list(pairs)
            if len(pairs) < size:
                say(
                    preparation.output.head["script"],
                    f"warning: --{split} asks for {size:,} pairs, but {paths[0]} has {len(pairs):,}",
                )
            Random(seed).shuffle(pairs)
            pairs = pairs[:size]
        with preparation.split(split) as writer:
            writer.add_all(pairs)
