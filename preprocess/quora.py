"""Draw three splits from the duplicates among the Quora question pairs (quora_duplicate_questions.tsv or train.csv).

    python preprocess/quora.py --data quora_duplicate_questions.tsv --output data/quora --lowercase

Only pairs marked as duplicates are used, in Moses tokens unless ``--unit`` selects another tokeniser. The random split
depends only on the seed and the pairs. Many individual questions of the test set are also in the training set. With
``--question-disjoint``, no question occurs in two splits. Pairs that share questions stay together, so valid and test
may have one or two pairs fewer. A directory with {train,valid,test}.{src,tgt} keeps its splits. In that case,
``--train``, ``--valid`` and ``--test`` give the numbers of pairs to draw from its splits, by line number.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation, whole_number
from corpus.plain import plain_files, refuse_choices, required_files, set_missing, write_plain
from corpus.preparation import Preparation
from corpus.sampling import Draw
from corpus.tables import PairTable

from wean_fairseq.errors import UserError
from wean_fairseq.text import Cleaner

SIZES = {"test": 20_000, "valid": 4_000, "train": 100_000}  # number of pairs drawn from the published file
COLUMNS = ("question1", "question2", "is_duplicate")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("quora", __doc__)
    options.set_defaults(unit=None)
    options.add_argument("--data", type=Path, required=True, metavar="FILE", help="the published file, or a directory")
    options.add_argument("--train", type=whole_number(1), metavar="N", help="training pairs, at most (100,000)")
    options.add_argument("--valid", type=whole_number(1), metavar="N", help="validation pairs (4,000)")
    options.add_argument("--test", type=whole_number(1), metavar="N", help="test pairs (20,000)")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the draw")
    options.add_argument("--question-disjoint", action="store_true", help="no question is in two splits")
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files. The published questions are untokenised.

    The text in a directory of splits is already tokenised.
    """
    options.unit = options.unit or ("words" if options.data.is_dir() else "moses")
    if options.data.is_dir():
        files = required_files(options.data, "; or give the .tsv or .csv file")
        refuse_choices(options, "question_disjoint")
        return files
    set_missing(options, SIZES)
    return [options.data]


def read_duplicates(table: PairTable, *, first: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the pairs that are marked as duplicates.

    Args:
        table: the published file.
        first: True in the first pass over the file. Only this pass counts the rows that are not used.
    """
    left_out = table.preparation.left_out
    for _, texts, _ in table.items(count=first):
        if texts is None or texts[2] not in ("0", "1"):
            left_out["malformed_rows"] += first
        elif texts[2] == "0":
            left_out["not_duplicates"] += first
        else:
            yield texts[0], texts[1]


def build(options: Namespace, preparation: Preparation) -> None:
    """Draw the splits in a first pass over the file, and write each split in another pass.

    The training split is last.
    """
    sizes = {split: getattr(options, split) for split in SIZES}
    if options.data.is_dir():
        write_plain(preparation, plain_files(options.data), sizes, options.seed)
        return
    draw = Draw(options.seed, disjoint=options.question_disjoint, key=options.leak_key)
    uncounted = Cleaner(options.unicode)
    table = PairTable(preparation, options.data, columns=COLUMNS, header="yes", advice="Is it the published file?")
    for source, target in read_duplicates(table, first=True):
        draw.add(uncounted.clean(source), uncounted.clean(target))
    if len(draw) <= sizes["valid"] + sizes["test"]:
        raise UserError(
            f"{options.data} has {len(draw):,} duplicate pairs ({preparation.left_out['not_duplicates']:,} rows are "
            f"not duplicates, {preparation.left_out['malformed_rows']:,} are malformed), but --valid and --test alone "
            f"ask for {sizes['valid'] + sizes['test']:,}: ask for fewer, or check the file."
        )
    splits = draw.assign(sizes)
    if options.question_disjoint and (empty := [split for split in sizes if split not in splits]):
        raise UserError(
            f"no group of connected pairs of {options.data} fits into {', '.join(empty)}: ask for larger splits, or "
            "leave out --question-disjoint."
        )
    preparation.left_out["not_drawn"] = splits.count("")
    preparation.write_drawn(sizes, splits, lambda: read_duplicates(table))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs, version="3")


if __name__ == "__main__":
    sys.exit(main())
