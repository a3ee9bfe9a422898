"""Command line of scripts that change a model's outputs: the log of fairseq-generate, or plain text."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path

from corpus.command import exit_status
from corpus.errors import InputError
from corpus.output import write_atomically
from corpus.reading import read_lines
from wean_fairseq.console import OneLineParser
from wean_fairseq.storage.files import replaces_file


def outputs_parser(name: str, doc: str | None) -> ArgumentParser:
    """Return the options that name the outputs and the file to write.

    Args:
        name: name of the script, without its suffix.
        doc: the module's docstring. Its first line is the description.
    """
    parser = OneLineParser(prog=f"{name}.py", description=(doc or "").splitlines()[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--generated", type=Path, metavar="LOG", help="output of fairseq-generate")
    group.add_argument("--input", type=Path, metavar="FILE", help="plain text, one output per line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    return parser


def rewrite_outputs(name: str, options: Namespace, change: Callable[[list[str]], Iterable[str]]) -> int:
    """Write the changed outputs in the order of the test set. Return the exit status.

    Args:
        name: name of the script.
        options: options of ``outputs_parser``.
        change: returns one line for each output.
    """

    def work() -> None:
        source = options.generated or options.input
        if options.output.exists() and options.output.samefile(source):
            raise InputError(f"{options.output} is the input, which would be overwritten: choose another --output.")
        if replaces_file(options.output) and not options.overwrite:
            raise InputError(f"{options.output} exists already: choose another, or pass --overwrite to replace it.")
        outputs = _read_outputs(options.generated, options.input)
        write_atomically(options.output, (f"{line}\n" for line in change(outputs)))

    return exit_status(name, options.output, work)


def _read_outputs(generated: Path | None, text: Path | None) -> list[str]:
    if generated is None:
        return list(read_lines(text or Path()))
    from wean_fairseq.evaluation.output_reader import read_generated  # plain text does not need this import

    return list(read_generated("", generated).hypotheses)
