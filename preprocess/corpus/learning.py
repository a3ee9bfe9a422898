"""The command line of scripts that learn something from text (word vectors, a small BERT) into a directory."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from corpus.command import HelpFormatter, exit_status, whole_number, write_once
from corpus.errors import InputError
from corpus.output import Output
from corpus.reading import read_lines


def learner_parser(name: str, doc: str | None) -> ArgumentParser:
    """The options that all of them take.

    Args:
        name: of the script, without its ending.
        doc: the module's docstring; its first paragraph is the description.
    """
    parser = ArgumentParser(
        prog=f"{name}.py", description=(doc or "").strip().partition("\n\n")[0], formatter_class=HelpFormatter
    )
    parser.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help="text, in words")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier output of this script")
    parser.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of their choice")
    return parser


def learn(
    parser: ArgumentParser,
    write: Callable[[Namespace, Output], None],
    arguments: Sequence[str] | None = None,
    *,
    version: str,
    libraries: dict[str, str],
) -> int:
    """Parse, learn what is not there yet; return the exit status.

    Args:
        parser: of the command line.
        write: fills the directory.
        arguments: instead of those of the process.
        version: of the script: raise it with every change that changes the bytes.
        libraries: that the content depends on, each with the extra that has it (empty: the package itself).
    """
    options = parser.parse_args(arguments)
    name = parser.prog.removesuffix(".py")

    def work() -> None:
        recorded = {key: value for key, value in vars(options).items() if key not in ("text", "output", "overwrite")}
        output = Output(
            options.output,
            script=name,
            version=version,
            options=recorded,
            versions=_versions(name, libraries),
            overwrite=options.overwrite,
        )
        if write_once(output, options.text, lambda: write(options, output)):
            print(f"{name}: wrote {options.output}")

    return exit_status(name, options.output, work)


def text_lines(paths: Sequence[Path]) -> Iterator[str]:
    """The lines of all files that hold something, white space as single spaces."""
    for path in paths:
        for line in read_lines(path):
            words = " ".join(line.split())
            if words:
                yield words


def _versions(name: str, libraries: dict[str, str]) -> dict[str, str]:
    versions = {}
    for library, extra in libraries.items():
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError as error:
            package = f"wean_fairseq[{extra}]" if extra else "wean_fairseq"
            raise InputError(f"{name} needs {library}: install it with `pip install {package}`.") from error
    return versions
