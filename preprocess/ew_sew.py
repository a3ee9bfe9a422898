"""Prepare EW-SEW (English -> Simple English Wikipedia), with the 8-reference dev and test sets of TurkCorpus.

    python preprocess/ew_sew.py --match aligned-good-0.67 0.67 --match aligned-good_partial-0.53 0.45 \\
      --turk path/to/turkcorpus --output data/ew_sew --lowercase

The training pairs come from the match files of Hwang et al. Pairs are used if their similarity reaches the threshold.
Each line of these files has a sentence, a simpler sentence and their similarity, separated by tabs. With ``--train``,
the pairs come from two aligned files instead, such as train.en and train.sen of NTS. Brackets are spelt -lrb- and
-rrb-, as in the references.
"""

import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation
from corpus.dialects import Dialect, read_rows
from corpus.preparation import Preparation
from corpus.references import TURK, sides, write_references

from wean_fairseq.console import number
from wean_fairseq.errors import UserError


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("ew_sew", __doc__)
    options.set_defaults(brackets=True)  # spell brackets as TurkCorpus does
    options.add_argument(
        "--match",
        nargs=2,
        action="append",
        default=[],
        metavar=("FILE", "THRESHOLD"),
        help="match file and its minimum similarity; may be given several times",
    )
    options.add_argument(
        "--train", nargs=2, type=Path, action="append", default=[], metavar=("EN", "SEN"), help="aligned files"
    )
    options.add_argument(
        "--dev", nargs=2, type=Path, metavar=("EN", "SEN"), help="NTS's dev files, instead of TurkCorpus's tuning set"
    )
    options.add_argument(
        "--turk",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory with {tune,test}.8turkers.tok.{norm,turk.0 ... turk.7}",
    )
    return options


def turk_files(options: Namespace, split: str) -> list[Path]:
    """Return the source file and the reference files of a TurkCorpus set."""
    return [options.turk / name for name in TURK[split]]


def inputs(options: Namespace) -> list[Path]:
    """Return the source files.

    ``--match`` is split into paths and ``similarity`` thresholds, which the manifest records.

    Raises:
        UserError: if there are no files, or a threshold is not a number.
    """
    try:
        options.similarity = [parse_similarity(threshold) for _, threshold in options.match]
    except ArgumentTypeError as error:
        raise UserError(f"the threshold of a --match must be a finite number: {error}.") from error
    options.match = [Path(path) for path, _ in options.match]
    if not options.match and not options.train:
        raise UserError("no training pairs: give --match or --train.")
    files = turk_files(options, "test") + (options.dev or turk_files(options, "valid"))
    return files + options.match + [path for pair in options.train for path in pair]


def parse_similarity(text: str) -> float:
    """Parse a finite number. Raise ``ArgumentTypeError`` if the text is something else."""
    similarity = number(text)
    if not math.isfinite(similarity):
        raise ArgumentTypeError(f"{text!r:.40} is not a finite number")
    return similarity


def read_matches(preparation: Preparation, path: Path, lowest: float) -> Iterator[tuple[str, str]]:
    """Yield those pairs of a match file whose similarity is at least ``lowest``."""
    for _, cells, _ in read_rows(preparation.lines(path), Dialect("\t")):
        try:
            similarity = parse_similarity(cells[2])
        except (IndexError, ArgumentTypeError):
            preparation.left_out["malformed_lines"] += 1
            continue
        if similarity >= lowest:
            yield cells[0], cells[1]
        else:
            preparation.left_out["below_threshold"] += 1


def write_dev(preparation: Preparation, paths: list[Path]) -> None:
    """Write NTS's development files, which repeat each sentence once per reference.

    The first reference is the target.
    """
    groups: dict[str, list[str]] = {}
    for _, (source, target) in preparation.aligned_lines(paths):
        groups.setdefault(source, []).append(target)
    number = min(map(len, groups.values()), default=0)
    preparation.left_out["dev_references_beyond_the_fewest"] = sum(
        len(references) - number for references in groups.values()
    )
    with preparation.split("valid", sides(number)) as writer:
        writer.add_all((source, targets[0], *targets[:number]) for source, targets in groups.items())


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the two sets with references, then the training pairs."""
    write_references(preparation, "test", turk_files(options, "test"))
    if options.dev:
        write_dev(preparation, options.dev)
    else:
        write_references(preparation, "valid", turk_files(options, "valid"))
    with preparation.split("train") as writer:
        for path, lowest in zip(options.match, options.similarity, strict=True):
            writer.add_all(read_matches(preparation, path, lowest))
        for paths in options.train:
            writer.add_all(lines for _, lines in preparation.aligned_lines(paths))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
