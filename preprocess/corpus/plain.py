"""Data sets that are at hand as plain ``{train,valid,test}.{src,tgt}``, whatever their published format is."""

from pathlib import Path

from corpus.output import SIDES, SPLITS
from corpus.preparation import Preparation


def plain_files(folder: Path) -> dict[str, list[Path]]:
    """The splits of which both sides are in the folder, the held-out ones first."""
    found = {split: [folder / f"{split}.{side}" for side in SIDES] for split in reversed(SPLITS)}
    return {split: paths for split, paths in found.items() if all(path.is_file() for path in paths)}


def write_plain(preparation: Preparation, files: dict[str, list[Path]]) -> None:
    """Write those splits; pairs with an empty side are left out and counted."""
    for split, paths in files.items():
        with preparation.split(split) as writer:
            for _, (source, target) in preparation.aligned_lines(paths):
                if writer.full:
                    break
                writer.add(source, target)
