"""Prepare Twitter URL paraphrases as {train,valid,test}.{src,tgt}, with the rated pairs that enough raters accepted.

    python preprocess/twitter_url.py --data DIR --output data/twitter_url --lowercase

DIR contains the published files: Twitter_URL_Corpus_train.txt and Twitter_URL_Corpus_test.txt, rated by six people, and
2016_Oct_10--2017_Jan_08_paraphrase.txt, found automatically. ``--setting c-dnpg`` follows C-DNPG: it trains on the
automatic pairs, validates on the first 1,000 pairs of the rated test file, and tests on 5,000 pairs drawn from the
rated train file. ``--setting human`` uses only the rated pairs: the train file without 1,000 pairs drawn for
validation, and the test file. The published tweets are split into Moses tokens unless ``--unit`` selects another
tokeniser. A directory with {train,valid,test}.{src,tgt} keeps its splits. In that case, ``--train``, ``--valid`` and
``--test`` give the numbers of pairs to draw from its splits.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpus.command import preparation_parser, run_preparation, whole_number
from corpus.dialects import Dialect, read_rows
from corpus.plain import plain_files, refuse_choices, set_missing, write_plain
from corpus.preparation import Preparation
from corpus.sampling import Draw

from wean_fairseq.errors import UserError

SIZES = {"train": 110_000, "valid": 1_000, "test": 5_000}  # number of pairs drawn from the published files
CHOICES = {"setting": "c-dnpg", "votes": 4}  # defaults of the options that select published pairs
RATED_TRAIN, RATED_TEST = "Twitter_URL_Corpus_train.txt", "Twitter_URL_Corpus_test.txt"
AUTOMATIC = "2016_Oct_10--2017_Jan_08_paraphrase.txt"
_VOTES = re.compile(r"\(\s*([0-6])\s*,\s*6\s*\)")
PUBLISHED = Dialect("\t")  # quotation marks in tweets are part of the text
Pair = tuple[str, str]


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("twitter_url", __doc__)
    options.set_defaults(unit=None)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="directory with the published files")
    options.add_argument("--setting", choices=("c-dnpg", "human"), help="training pairs (c-dnpg)")
    options.add_argument(
        "--votes", type=whole_number(1), metavar="N", help="minimum number of the six raters who accepted a pair (4)"
    )
    options.add_argument("--train", type=whole_number(0), metavar="N", help="automatic pairs (110,000), 0 = all")
    options.add_argument("--valid", type=whole_number(1), metavar="N", help="validation pairs (1,000)")
    options.add_argument("--test", type=whole_number(1), metavar="N", help="test pairs (c-dnpg; 5,000)")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the draws")
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files. The published tweets are untokenised.

    The text in a directory of splits is already tokenised.
    """
    plain = [path for paths in plain_files(options.data).values() for path in paths]
    options.unit = options.unit or ("words" if plain else "moses")
    if plain:
        refuse_choices(options, *CHOICES)
    else:
        set_missing(options, SIZES | CHOICES)
    names = [RATED_TRAIN, RATED_TEST] + [AUTOMATIC] * (options.setting == "c-dnpg")
    return plain or [options.data / name for name in names]


def rated(preparation: Preparation, path: Path, votes: int, *, first: bool = False) -> Iterator[Pair]:
    """Yield the pairs that enough raters accepted. A line has two sentences, (votes, 6), and an address."""
    for _, cells, _ in read_rows(preparation.lines(path, count=first), PUBLISHED):
        votes_match = _VOTES.fullmatch(cells[2].strip()) if len(cells) in (3, 4) else None
        if votes_match is None:
            preparation.left_out["malformed_lines"] += first
        elif int(votes_match[1]) < votes:
            preparation.left_out["too_few_votes"] += first
        else:
            yield cells[0], cells[1]


def automatic(preparation: Preparation, path: Path, *, first: bool = False) -> Iterator[Pair]:
    """Yield the automatically found pairs. A line has two sentences."""
    for _, cells, problem in read_rows(preparation.lines(path, count=first), replace(PUBLISHED, width=2)):
        if problem:
            preparation.left_out["malformed_lines"] += first
        else:
            yield cells[0], cells[1]


def drawn(seed: int, pairs: Iterator[Pair], sizes: dict[str, int], path: Path, rest: str = "") -> list[str]:
    """Return the split of every pair.

    Raises:
        UserError: if there are too few pairs.
    """
    draw = Draw(seed)
    for pair in pairs:
        draw.add(*pair)
    if len(draw) < sum(sizes.values()):
        raise too_few(path, len(draw), sizes)
    return draw.assign(sizes, rest)


def too_few(path: Path, number: int, sizes: dict[str, int]) -> UserError:
    """Return the error for a file with fewer accepted pairs than the options ask for."""
    asked = ", ".join(f"--{split} {size}" for split, size in sizes.items())
    return UserError(
        f"{path} has {number:,} accepted pairs, but {asked} asks for more: ask for fewer, or check the file."
    )


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the splits of the setting."""
    sizes = {split: getattr(options, split) for split in SIZES}
    plain = plain_files(options.data)
    if plain:
        write_plain(preparation, plain, sizes, options.seed)
        return
    rated_train, rated_test, pairs = (options.data / name for name in (RATED_TRAIN, RATED_TEST, AUTOMATIC))
    votes, seed = options.votes, options.seed
    once = rated(preparation, rated_train, votes, first=True)
    if options.setting == "human":
        splits = drawn(seed, once, {"valid": sizes["valid"]}, rated_train, rest="train")
        with preparation.split("test") as writer:
            writer.add_all(rated(preparation, rated_test, votes, first=True))
        preparation.write_drawn(("valid", "train"), splits, lambda: rated(preparation, rated_train, votes))
        return
    splits = drawn(seed, once, {"test": sizes["test"]}, rated_train)
    preparation.write_drawn(("test",), splits, lambda: rated(preparation, rated_train, votes))
    with preparation.split("valid") as writer:
        writer.limit = min(writer.limit or sizes["valid"], sizes["valid"])
        writer.add_all(rated(preparation, rated_test, votes, first=True))
        if not writer.full:
            raise too_few(rated_test, writer.split.kept, {"valid": sizes["valid"]})
    if sizes["train"]:
        splits = drawn(seed, automatic(preparation, pairs, first=True), {"train": sizes["train"]}, pairs)
        preparation.write_drawn(("train",), splits, lambda: automatic(preparation, pairs))
        return
    with preparation.split("train") as writer:
        writer.add_all(automatic(preparation, pairs, first=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs, version="2")


if __name__ == "__main__":
    sys.exit(main())
