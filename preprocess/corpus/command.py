"""The common command line and main functions of the scripts.

A user error prints one sentence and gives exit status 2.
"""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from corpus import leaks
from corpus.binarise import binarise
from corpus.messages import say
from corpus.output import OutputFolder, check_free
from corpus.preparation import Preparation, print_summary
from wean_fairseq.console import OneLineParser, exit_status, positive_number, whole_number  # noqa: F401 - used by the scripts
from wean_fairseq.errors import UserError
from wean_fairseq.optional import versions_of
from wean_fairseq.ranges import MOST_PROCESSES, flag
from wean_fairseq.storage.files import no_file
from wean_fairseq.text import cleaning, steps

Result = TypeVar("Result")
_BINARY = ("words", "threshold", "workers", "separate_dictionaries", "raw_data", "dictionaries")  # of --binarise
# Options that do not change the text, or that name files whose checksums are recorded.
_NOT_CONTENT = ("output", "overwrite", "binarise", *_BINARY)


def any_word(text: str) -> str:
    """Parse a word of the text (an argparse type)."""
    if text.split() != [text]:
        raise argparse.ArgumentTypeError(f"must be one word, without spaces, but is {text!r:.60}")
    return text


def one_word(text: str) -> str:
    """Parse a word that the text steps keep unchanged, such as a separator (an argparse type)."""
    cleaner = cleaning.Cleaner()
    if text.split() != [text] or cleaner.guard(cleaner.clean(text)) != text:
        raise argparse.ArgumentTypeError(f"must be one word, and no special symbol such as <unk>, but is {text!r:.60}")
    return text


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that shows an option's default if it has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = not isinstance(action.default, bool) and action.default not in (None, "", [])
        return super()._get_help_string(action) if shown else action.help


def output_parser(name: str, doc: str | None) -> ArgumentParser:
    """Return a parser with the options of all scripts that write an output directory.

    Args:
        name: name of the script, without its suffix.
        doc: docstring of the module. Its first paragraph is the description.
    """
    parser = OneLineParser(
        prog=f"{name}.py", description=(doc or "").strip().partition("\n\n")[0], formatter_class=HelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier output of this script")
    return parser


def preparation_parser(name: str, doc: str | None) -> ArgumentParser:
    """Return a parser with the options of the scripts that prepare text (see ``output_parser``)."""
    parser = output_parser(name, doc)
    parser.add_argument(
        "--limit", type=whole_number(0), default=0, metavar="N", help="use the first N pairs of each split, 0 = all"
    )
    parser.add_argument(
        "--test-limit", type=whole_number(0), metavar="N", help="limit for the test split, instead of --limit"
    )
    add_text_options(parser)
    group = parser.add_argument_group("binary data")
    group.add_argument("--binarise", type=Path, metavar="DIR", help="also run fairseq-preprocess, into this directory")
    group.add_argument("--words", type=whole_number(0), default=0, metavar="N", help="dictionary size, 0 = no limit")
    group.add_argument("--threshold", type=whole_number(0), default=0, metavar="N", help="rarer words become <unk>")
    group.add_argument("--separate-dictionaries", action="store_true", help="separate source and target dictionaries")
    group.add_argument(
        "--raw-data", action="store_true", help="keep the data as text, from which unknown words can be copied"
    )
    group.add_argument(
        "--dictionaries", type=Path, nargs=2, metavar=("SRC", "TGT"), help="earlier dictionaries to use unchanged"
    )
    group.add_argument("--workers", type=whole_number(1, MOST_PROCESSES), default=1, metavar="N", help="processes")
    return parser


def add_text_options(parser: ArgumentParser) -> None:
    """Add the options about the text itself."""
    group = parser.add_argument_group("text")
    group.add_argument(
        "--unit", choices=steps.UNITS, default="words", help="tokeniser; words = keep the existing tokens"
    )
    group.add_argument("--language", metavar="XX", help="two-letter language code for the Moses rules (default: en)")
    group.add_argument("--wordpiece-vocab", type=Path, metavar="FILE", help="vocab.txt of a BERT model")
    group.add_argument("--lowercase", action="store_true", help="lower-case both sides")
    group.add_argument("--truecase", action="store_true", help="give the first word of a line its usual case in train")
    group.add_argument("--bpe", type=whole_number(0), default=0, metavar="N", help="learn and apply N BPE merges")
    group.add_argument("--unicode", choices=cleaning.FORMS, default="NFC", help="normalisation")
    group.add_argument(
        "--bad-utf8", choices=("refuse", "replace"), default="refuse", help="handling of lines that are not UTF-8"
    )
    group.add_argument(
        "--specials",
        choices=cleaning.SPECIAL_POLICIES,
        default="escape",
        help="handling of literal <unk>, </s>, ... in the text",
    )
    group.add_argument(
        "--unknown",
        type=any_word,
        metavar="WORD",
        help="word that marks unknown words in the corpus (ZhiHu: <UNK>), replaced by <unk>",
    )
    group.add_argument("--leak-key", choices=leaks.KEYS, default="line", help="how the leak check compares lines")
    group.add_argument(
        "--drop-leaks",
        choices=leaks.DROPPABLE,
        nargs="?",
        const="any",
        default="",
        help="leave training pairs out that valid or test has: the pair, its source, or (without a value) any side",
    )


def run_preparation(
    parser: ArgumentParser,
    build: Callable[[Namespace, Preparation], None],
    arguments: Sequence[str] | None = None,
    *,
    inputs: Callable[[Namespace], list[Path]],
    version: str = "1",
) -> int:
    """Parse the options, prepare the text and binarise it. Return the exit status.

    Args:
        parser: parser of the command line, with the options of ``--binarise``.
        build: function that writes the splits.
        arguments: command-line arguments (default: the arguments of the process).
        inputs: function that returns the source files named by the options. These files determine whether the work is
            already done.
        version: version of the script. Every change of the written text must raise it.
    """
    options = parser.parse_args(arguments)
    name = parser.prog.removesuffix(".py")

    def work() -> None:
        _check_binary(options, parser)
        prepare(name, options, build, inputs(options), version)
        if options.binarise is not None:
            sizes = {key: getattr(options, key) for key in ("words", "threshold", "separate_dictionaries")}
            sizes |= {"raw_data": True} if options.raw_data else {}
            given = {"dictionaries": options.dictionaries or (), "workers": options.workers}
            made = binarise(options.output, options.binarise, sizes, overwrite=options.overwrite, **given)
            say(name, f"binary data: {options.binarise}" + ("" if made else " is complete already"))

    return exit_status(name, work)


def run_once(
    parser: ArgumentParser,
    write: Callable[[Namespace, OutputFolder], str],
    arguments: Sequence[str] | None = None,
    *,
    version: str,
    sources: Callable[[Namespace], Sequence[Path]] = lambda _: (),
    libraries: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> int:
    """Parse the options, and build the directories that do not exist yet. Return the exit status.

    Args:
        parser: parser of the command line.
        write: function that fills a directory and returns a description of its content.
        arguments: command-line arguments (default: the arguments of the process).
        version: version of the script. Every change of the written bytes must raise it.
        sources: function that returns the source files named by the options.
        libraries: names of the libraries on which the content depends.
        sets: names of several sets, each with its own directory. ``--set`` names one or all of them.
    """
    options = parser.parse_args(arguments)
    name = parser.prog.removesuffix(".py")

    def work() -> None:
        files = sources(options)
        versions = versions_of(libraries)
        if vars(options).get("unit") == "jieba":
            versions |= steps.library_versions("jieba", truecase=False, bpe=False)
        missing = []
        for set_name in [set_name for set_name in sets if options.set in (set_name, "both")] or [""]:
            chosen = Namespace(**{**vars(options), "set": set_name} if set_name else vars(options))
            output = _open_output(name, version, chosen, options.output / set_name, versions)
            if is_missing(output, files):
                missing.append((chosen, output))
        for chosen, output in missing:
            say(name, fill_directory(output, files, partial(write, chosen, output)))

    return exit_status(name, work)


def _open_output(name: str, version: str, options: Namespace, path: Path, versions: dict[str, str]) -> OutputFolder:
    """Return the output directory. Its content does not depend on ``--overwrite`` or on the names of files."""
    recorded = {
        key: value
        for key, value in vars(options).items()
        if key not in ("overwrite", "text") and value is not None and not isinstance(value, Path)
    }
    return OutputFolder(
        path, script=name, version=version, options=recorded, versions=versions, overwrite=options.overwrite
    )


def _check_binary(options: Namespace, parser: ArgumentParser) -> None:
    """Reject options of the binary data that would have no effect or fail, before the text is written."""
    if options.binarise is None:
        for name in _BINARY:
            if getattr(options, name) != parser.get_default(name):
                raise UserError(f"{flag(name)} is for binary data: add --binarise, or leave it out.")
        return
    text, binary = options.output.resolve(), options.binarise.resolve()
    if text.is_relative_to(binary) or binary.is_relative_to(text):
        raise UserError(
            f"--output {options.output} and --binarise {options.binarise} overlap: give two directories, neither "
            "inside the other."
        )
    if "," in str(options.output):
        raise UserError(
            f"{options.output} has a comma, at which fairseq-preprocess splits it: choose another --output."
        )
    for path in options.dictionaries or ():
        if not path.is_file():
            raise UserError(f"{no_file(path)}: name a dictionary of fairseq-preprocess.")


def prepare(
    name: str,
    options: Namespace,
    build: Callable[[Namespace, Preparation], None],
    sources: list[Path],
    version: str,
) -> None:
    """Write the output directory, unless it already exists with the same options and the same files."""
    if options.lowercase and options.truecase:
        raise UserError("--lowercase and --truecase exclude one another.")
    if options.unknown and (options.unit != "words" or options.bpe or options.truecase):
        raise UserError("--unknown needs unchanged words: leave out --unit, --bpe and --truecase.")
    steps.check_language(options.unit, "en" if options.language is None else options.language)
    if options.bpe and options.unit == "characters":
        raise UserError("--bpe splits words, and the text of --unit characters has no words: leave --bpe out.")
    if options.wordpiece_vocab is not None and options.unit != "wordpiece":
        raise UserError("--wordpiece-vocab is for --unit wordpiece: leave it out, or add that unit.")
    sources = list(dict.fromkeys(sources + [options.wordpiece_vocab] * (options.wordpiece_vocab is not None)))
    output = OutputFolder(
        options.output,
        script=name,
        version=version,
        options=content_options(options, sources),
        versions=steps.library_versions(options.unit, truecase=options.truecase, bpe=bool(options.bpe)),
        overwrite=options.overwrite,
    )

    def write() -> list[str]:
        preparation = Preparation(output, options)
        build(options, preparation)
        preparation.finish()
        return list(preparation.looks.remarks())

    if is_missing(output, sources):
        print_summary(output, name, fill_directory(output, sources, write))


def is_missing(output: OutputFolder, sources: Sequence[Path]) -> bool:
    """Return True if a directory must be written.

    If it exists with the same options and files, print this and return False.

    Raises:
        UserError: if the directory must not be written, or if a source is missing.
    """
    script = output.head["script"]
    if output.finished(sources):
        say(script, f"{output.path} is complete already: nothing to do")
        return False
    check_free(output.path, script, output.overwrite)
    for path in sources:  # check the sources before a folder is created
        if not path.is_file():
            raise UserError(f"{no_file(path)}: name a regular file.")
    return True


def fill_directory(output: OutputFolder, sources: Sequence[Path], write: Callable[[], Result]) -> Result:
    """Call ``write`` to fill a missing directory. Return the result of ``write``."""
    with output:
        for path in sources:
            output.source(path)
        return write()


def content_options(options: Namespace, sources: list[Path]) -> dict[str, Any]:
    """Return the options that determine the content.

    A file is represented by its index among the sources. Directories are omitted.
    """

    def shown(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return [shown(part) for part in value]
        if isinstance(value, Path):
            return sources.index(value) if value in sources else None
        return value

    values = {name: shown(value) for name, value in sorted(vars(options).items()) if name not in _NOT_CONTENT}
    return {name: value for name, value in values.items() if value is not None}
