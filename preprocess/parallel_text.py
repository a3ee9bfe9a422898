"""Check, clean and optionally lower-case or tokenise aligned text files, and write {train,valid,test}.{src,tgt}.

    python preprocess/parallel_text.py --output DIR --train SRC TGT [--train SRC TGT ...] --valid SRC TGT --test SRC TGT

Sides of different length, missing files, and bytes that are not UTF-8 are errors. The message names the file. A pair
with an empty side is also an error. With ``--drop-empty``, such pairs are dropped from the training data and counted.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation
from corpus.messages import say
from corpus.output import SPLITS
from corpus.plain import check_sides
from corpus.preparation import Preparation

from wean_fairseq.errors import UserError


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("parallel_text", __doc__)
    for split in SPLITS:
        options.add_argument(
            f"--{split}",
            nargs=2,
            type=Path,
            action="append",
            default=[],
            metavar=("SRC", "TGT"),
            help=f"{split} files; given several times, they are read one after the other",
        )
    options.add_argument("--drop-empty", action="store_true", help="leave training pairs with an empty side out")
    options.add_argument("--brackets", action="store_true", help="spell brackets and quotes as TurkCorpus does")
    options.add_argument(
        "--held-out",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="test sentences that are only used for the leak check",
    )
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files."""
    pairs = [pair for split in SPLITS for pair in getattr(options, split)]
    for pair in pairs:
        check_sides(pairs[0], pair)
    return [path for split in SPLITS for pair in getattr(options, split) for path in pair] + options.held_out


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the splits that the options name, held-out splits first."""
    if not (options.train or options.valid or options.test):
        raise UserError("no input: give --train, --valid or --test with a source and a target file.")
    for path in options.held_out:
        preparation.hold_out("held out", preparation.lines(path))
    for split in reversed(SPLITS):
        files: list[list[Path]] = getattr(options, split)
        if not files:
            continue
        refuse = split != "train" or not options.drop_empty
        with preparation.split(split) as writer:
            for pair in files:
                if pair[0].resolve() == pair[1].resolve():
                    say(
                        "parallel_text",
                        f"warning: {pair[1]} is both sides of --{split}, so that copying is always right: give two "
                        "files, unless this is intended",
                    )
                for where, (source, target) in writer.until_full(preparation.aligned_lines(pair)):
                    writer.add(source, target, where=where if refuse else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
