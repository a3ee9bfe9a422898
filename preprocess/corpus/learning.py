"""Common command line of scripts that learn from text (word vectors, a small BERT) and write a directory."""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.command import output_parser, whole_number
from corpus.reading import read_lines


def learner_parser(name: str, doc: str | None) -> ArgumentParser:
    """Return a parser with the options of all these scripts (see ``output_parser``)."""
    parser = output_parser(name, doc)
    parser.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help="text, in words")
    parser.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of their choice")
    return parser


def text_lines(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the non-empty lines of all files, with single spaces."""
    for path in paths:
        for line in read_lines(path):
            words = " ".join(line.split())
            if words:
                yield words
