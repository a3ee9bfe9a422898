"""The arguments that name systems, shared by all commands."""

import argparse
from pathlib import Path
from typing import Any

from ..console import split_name
from .output_reader import PIECES, SystemOutput, read_generated, read_plain
from .text_files import read_lines


def add_system_arguments(parser: argparse._ActionsContainer) -> None:
    """Add ``--hyp``, ``--generated`` and what says how to read them."""
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    again = "a name again = another run of that system"
    parser.add_argument("--hyp", metavar="NAME=FILE", help=f"plain hypotheses, one a line; {again}", **several)
    parser.add_argument("--generated", metavar="[NAME=]LOG", help=f"output of fairseq-generate; {again}", **several)
    parser.add_argument(
        "--oov-source",
        metavar="FILE",
        help="tokenised source given to fairseq, to put <oov-k> words back (default: --src)",
    )
    add_pieces_argument(parser)
    parser.add_argument("--tokens", action="store_true", help="take the H- lines of a log although it has D- lines")


def add_pieces_argument(parser: argparse._ActionsContainer) -> None:
    """Add ``--remove-bpe``, as fairseq's commands have it."""
    parser.add_argument(
        "--remove-bpe",
        nargs="?",
        const=PIECES[0],
        choices=PIECES,
        help="join pieces of words in hypotheses: %(const)s ('@@ ', the default) or sentencepiece ('\u2581')",
    )


def paths_of(args: argparse.Namespace) -> list[str]:
    """The files that `read_systems` reads."""
    named = [argument.partition("=")[2] or argument for argument in [*args.hyp, *args.generated]]
    return named + ([args.oov_source] if args.oov_source else [])


def read_systems(args: argparse.Namespace, sources: list[str] | None) -> list[SystemOutput]:
    """Read all outputs, plain files first."""
    systems = []
    for argument in args.hyp:
        name, path = split_name(argument, "--hyp")
        systems.append(read_plain(name, path, remove_bpe=args.remove_bpe))
    oov_source = read_lines(args.oov_source) if args.oov_source else sources
    for argument in args.generated:
        named = "=" in argument
        name, path = split_name(argument, "--generated") if named else (Path(argument).stem, argument)
        output = read_generated(
            name, path, remove_bpe=args.remove_bpe, detokenised=not args.tokens, oov_source=oov_source
        )
        systems.append(output)
    return systems
