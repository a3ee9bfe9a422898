"""Command-line arguments that name the output files of systems. All commands of wean-evaluate share them."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..console import split_name
from ..errors import UserError
from ..ranges import flag
from .output_reader import PIECES, SystemOutput, read_generated, read_plain
from .text_files import read_lines

#: Settings of an argparse option that takes several values and may be repeated.
SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}


def add_system_arguments(parser: argparse._ActionsContainer) -> None:
    """Add ``--hyp``, ``--generated``, and the options that say how to read these files."""
    add, again = parser.add_argument, "a repeated name = another run of that system"
    add("--hyp", metavar="NAME=FILE", help=f"plain hypotheses, one per line; {again}", **SEVERAL)
    add("--generated", metavar="[NAME=]LOG", help=f"output of fairseq-generate; {again}", **SEVERAL)
    source = "tokenised source given to fairseq, to put <oov-k> words back (default: --src)"
    add("--oov-source", metavar="FILE", help=source)
    add_reading_arguments(parser)


def add_reading_arguments(parser: argparse._ActionsContainer) -> None:
    """Add ``--remove-bpe``, as in fairseq's commands, and ``--tokens``."""
    pieces = "join pieces of words in hypotheses: %(const)s ('@@ ', the default) or sentencepiece ('\u2581')"
    parser.add_argument("--remove-bpe", nargs="?", const=PIECES[0], choices=PIECES, help=pieces)
    parser.add_argument("--tokens", action="store_true", help="take the H- lines of a log although it has D- lines")


def paths_of(named: Sequence[str]) -> list[str]:
    """Return the files in arguments of the form ``NAME=FILE`` or ``FILE``."""
    return [argument.partition("=")[2] or argument for argument in named]


def read_output_log(
    args: argparse.Namespace, name: str, path: str, oov_source: list[str] | None, oov_option: str = "--oov-source"
) -> SystemOutput:
    """Read a log of fairseq-generate with the options of ``add_reading_arguments``."""
    return read_generated(
        name,
        path,
        remove_bpe=args.remove_bpe,
        detokenised=not args.tokens,
        oov_source=oov_source,
        oov_option=oov_option,
    )


def read_systems(args: argparse.Namespace, sources: list[str] | None) -> list[SystemOutput]:
    """Read the outputs of all systems. The outputs in plain files come first.

    Raises:
        UserError: if a file cannot be read, or if an option for logs is given without a log.
    """
    for name in ("tokens", "oov_source"):
        given = getattr(args, name)
        if given and not args.generated and given != vars(args).get("common", {}).get(name):
            raise UserError(f"{flag(name)} is for --generated, a log of fairseq-generate: leave it out.")
    systems = []
    for argument in args.hyp:
        name, path = split_name(argument, "--hyp")
        systems.append(read_plain(name, path, remove_bpe=args.remove_bpe))
    oov_source = read_lines(args.oov_source) if args.oov_source else sources
    for argument in args.generated:
        named = "=" in argument
        name, path = split_name(argument, "--generated") if named else (Path(argument).stem, argument)
        systems.append(read_output_log(args, name, path, oov_source))
    return systems
