"""Write sets with several references per sentence: files of TurkCorpus and ASSET, and pairs that share a source."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from corpus.output import SIDES
from corpus.preparation import Preparation

# The release has these source and reference files for each split.
TURK = {
    split: (f"{name}.8turkers.tok.norm", *(f"{name}.8turkers.tok.turk.{number}" for number in range(8)))
    for split, name in (("test", "test"), ("valid", "tune"))
}
ASSET = {
    split: (f"asset.{split}.orig", *(f"asset.{split}.simp.{number}" for number in range(10)))
    for split in ("test", "valid")
}


def write_references(preparation: Preparation, split: str, paths: Sequence[Path]) -> None:
    """Write a set from aligned files. The first reference is also the target."""
    with preparation.split(split, sides(len(paths) - 1)) as writer:
        for where, (source, *references) in writer.until_full(preparation.aligned_lines(paths)):
            writer.add(source, references[0], *references, where=where)


def write_grouped(
    preparation: Preparation, split: str, pairs: Iterable[tuple[str, str]], *, required: bool = True
) -> None:
    """Write pairs that share a source as one line, with all their targets as references. All pairs are kept in memory.

    The reference files need one line for every source. If a source has fewer targets, its first target is repeated.
    This changes neither BLEU nor metrics that use the best of several references.
    """
    groups: dict[str, list[str]] = {}
    for source, target in pairs:
        if source.strip() and target.strip():
            groups.setdefault(source, []).append(target)
        else:
            preparation.left_out[f"{split}_empty_side"] += 1
    most = max(map(len, groups.values()), default=0)
    with preparation.split(split, sides(most), required=required) as writer:
        for source, targets in writer.until_full(groups.items()):
            writer.add(source, targets[0], *targets, *[targets[0]] * (most - len(targets)))


def sides(references: int) -> list[str]:
    """Return the suffixes of the files of a split with this number of references."""
    return [*SIDES, *(f"ref{number}" for number in range(references))]
