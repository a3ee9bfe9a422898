"""Prepare ESSAY and ZhiHu (topic words -> an essay), as released with MTA-LSTM, as {train,valid,test}.{src,tgt}.

    python preprocess/essay.py --train TrainingData.txt --test TestData.txt --output data/zhihu --max-topics 5

Each line of a released file is a tokenised essay, then ``</d>``, then its topic words. There is no validation set.
Therefore 1% of the training essays are drawn for validation, depending on the seed. ``--data`` takes a directory that
is already split into {train,valid,test}.{src,tgt}.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation, whole_number
from corpus.plain import check_distinct, plain_files, required_files
from corpus.preparation import PairWriter, Preparation
from corpus.sampling import Draw

from wean_fairseq.errors import UserError

SEPARATOR = "</d>"


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("essay", __doc__)
    options.add_argument("--train", type=Path, metavar="FILE", help="released training file")
    options.add_argument("--test", type=Path, metavar="FILE", help="released test file")
    options.add_argument("--data", type=Path, metavar="DIR", help="plain files instead")
    options.add_argument("--valid", type=whole_number(0), default=0, metavar="N", help="validation essays, 0 = 1%%")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of their choice")
    options.add_argument("--min-topics", type=whole_number(1), default=1, metavar="N", help="fewest topics of an essay")
    options.add_argument("--max-topics", type=whole_number(0), default=0, metavar="N", help="most topics, 0 = any")
    options.add_argument("--min-length", type=whole_number(0), default=0, metavar="N", help="fewest words of an essay")
    options.add_argument("--max-length", type=whole_number(0), default=0, metavar="N", help="most words, 0 = any")
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files."""
    if options.data is not None and options.train is None and options.test is None:
        return required_files(options.data)
    if options.data is not None or options.train is None:
        raise UserError("give either --train (and --test) with released files, or --data with a directory.")
    files = {"--test": options.test, "--train": options.train}
    check_distinct((name, path) for name, path in files.items() if path is not None)
    return [path for path in files.values() if path is not None]


def read_essays(preparation: Preparation, path: Path, *, first: bool = False) -> Iterator[tuple[str, str] | None]:
    """Yield the topics and the essay of each line, or None for a line without exactly one separator and both parts.

    Raises:
        UserError: if all lines are invalid.
    """
    has_essays = False
    for line in preparation.lines(path, count=first):
        words = line.split()
        if words.count(SEPARATOR) != 1:
            yield None
            continue
        has_essays = True
        end = words.index(SEPARATOR)
        yield " ".join(words[end + 1 :]), " ".join(words[:end])
    if not has_essays:
        raise UserError(
            f"no line of {path} is an essay, {SEPARATOR} and its topics, as the corpora are released: "
            "give --data a directory with {train,valid,test}.{src,tgt} if topics and essays are in separate files."
        )


def objection(options: Namespace, essay: tuple[str, str] | None) -> str:
    """Return the reason for dropping an essay, or an empty text if it is kept."""
    if essay is None:
        return f"essays_without_one_{SEPARATOR}"
    topics, words = (part.count(" ") + 1 if part else 0 for part in essay)
    if topics < options.min_topics or 0 < options.max_topics < topics:
        return "number_of_topics"
    return "length" if words < options.min_length or 0 < options.max_length < words else ""


def add(writer: PairWriter, options: Namespace, essay: tuple[str, str] | None) -> None:
    """Write an essay, or count the reason for dropping it."""
    reason = objection(options, essay)
    if reason or essay is None:
        writer.split.drop(reason)
    else:
        writer.add(*essay)


def write_plain_essays(options: Namespace, preparation: Preparation) -> None:
    """Write the splits of a directory that is already split."""
    for split, paths in plain_files(options.data).items():
        with preparation.split(split) as writer:
            for _, (topics, essay) in writer.until_full(preparation.aligned_lines(paths)):
                add(writer, options, (" ".join(topics.split()), " ".join(essay.split())))


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the test essays, then the essays drawn for validation, then the other training essays."""
    if options.data is not None:
        write_plain_essays(options, preparation)
        return
    if options.test is not None:
        with preparation.split("test") as writer:
            for essay in writer.until_full(read_essays(preparation, options.test, first=True)):
                add(writer, options, essay)
    draw = Draw(options.seed)
    for essay in read_essays(preparation, options.train, first=True):
        if essay is not None and not objection(options, essay):
            draw.add(*essay)
    if options.valid and len(draw) <= options.valid:
        raise UserError(
            f"{options.train} has {len(draw):,} accepted essays, and --valid {options.valid} leaves none to train: ask "
            "for fewer."
        )
    splits = draw.assign({"valid": options.valid or max(1, round(len(draw) / 100))}, rest="train")
    for split in ("valid", "train"):
        chosen = iter(splits)
        with preparation.split(split) as writer:
            for essay in writer.until_full(read_essays(preparation, options.train)):
                # a dropped essay must be counted only once
                drawn = "train" if objection(options, essay) else next(chosen)
                if drawn == split:
                    add(writer, options, essay)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
