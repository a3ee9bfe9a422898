"""Argument types, messages and errors of all command lines.

An error is printed as one sentence, and the exit status is 2.
"""

import argparse
import ctypes
import logging
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TextIO

from .errors import UserError, printable, sentence_of, similar
from .ranges import LARGEST

_FOLDERS = re.compile(r"(?<![^\s='\"])/(?:[^\s/]+/)+")  # the folders of an absolute path, without the file name

#: Exit status if the program that reads the output has closed it. It is 128 + 13, the status that a shell reports for
#: SIGPIPE.
BROKEN_PIPE = 141
#: Exit status after Ctrl-C: 128 + 2.
INTERRUPTED = 130
LARGEST_SEED = 2**63 - 1
_PR_SET_PDEATHSIG = 1  # constant of Linux's prctl
_prctl = getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)  # only Linux has it
# Placeholders and names of arguments that are paths. Those of the form NAME=FILE have their own check.
_PLACE = re.compile(r"^(?!\w+=).*(FILE|DIR|FOLDER|OUT|LOG|JSON|CSV|TSV|TOML|RUN|MODEL|SRC|STEM|PATH|checkpoint|path)")
# stricter than int(), which also accepts digits of other scripts, underscores and spaces
_WHOLE = re.compile("-?[0-9]{1,19}")


def end_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends, even if SIGKILL ends the parent.

    Otherwise, a training would continue without its parent, and the repeated command would find the folder locked.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class OneLineParser(argparse.ArgumentParser):
    """A parser that prints an error as one line without control characters. argparse would print the usage first."""

    def error(self, message: str) -> NoReturn:
        """Print the error message and exit with status 2. Suggest a similar option for an unknown one."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message and unknown.startswith("-"):
            shown = [action for action in self._actions if action.dest != "help" and action.help != argparse.SUPPRESS]
            known = [name for action in shown for name in action.option_strings]
            hint = similar(unknown.partition(" ")[0].partition("=")[0], known)
            message += hint or f": choose from {', '.join(known)}" * bool(known)
        self.exit(2, f"{self.prog}: {UserError(message)}; see --help.\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments. Refuse an option with a path or a list that is given twice with different values."""
        self._values: dict[str, list[str]] = {}
        return super().parse_known_args(args, namespace)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        values = super()._get_values(action, arg_strings)
        # An option with one value is replaced by a later one, as in other programs, but a list or a path is not
        # expected to be.
        is_kept = action.nargs == "+" or _is_place(action)
        if action.option_strings and is_kept and type(action) is argparse._StoreAction:
            first = self._values.setdefault(action.dest, arg_strings)
            if first != arg_strings:
                option = "/".join(action.option_strings)
                self.error(f"{option} is given twice, as {' '.join(first)} and {' '.join(arg_strings)}: give it once")
        return values

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Parse an argument. Refuse an empty path, which would be the current folder, or would be taken for none."""
        if not arg_string and _is_place(action):
            option = "/".join(action.option_strings) or str(action.metavar or action.dest)
            otherwise = "" if action.required else ", or leave it out"
            self.exit(2, f"{self.prog}: error: {option} is empty: give a path{otherwise}.\n")
        return super()._get_value(action, arg_string)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a help text, the version or an error. Exit with a message if standard output cannot be written."""
        if file is sys.stderr:  # argparse prints all errors there
            super()._print_message(message, file)
        elif status := exit_status(self.prog, lambda: message):
            sys.exit(status)


def _is_place(action: argparse.Action) -> bool:
    """Return True if the value of an option or argument is a path."""
    return action.type is Path or bool(_PLACE.search(str(action.metavar or action.dest)))


def command_parser(program: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Return the parser of a command. Its help ends with ``examples``, whose line breaks are kept."""
    shape = argparse.RawDescriptionHelpFormatter
    return OneLineParser(prog=program, description=description, epilog=examples, formatter_class=shape)


def whole_number(minimum: int, most: int = LARGEST) -> Callable[[str], int]:
    """Return an argparse type for a whole number from ``minimum`` to ``most``."""

    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not minimum <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number of {minimum} to {most}")
        return int(text)

    return parse


def number_or_file(text: str) -> int | str:
    """Parse a number from 1, or the name of a file (an argparse type). Refuse a number that is also a file."""
    if not text.isdecimal():
        return text
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text} is a number and a file here: write ./{text} for the file, or move it")
    return whole_number(1)(text)


SEED = whole_number(-LARGEST_SEED, LARGEST_SEED)


def number(text: str) -> float:
    """Parse a number (an argparse type). The result may be infinite or NaN.

    The later checks of ranges report such values.
    """
    with suppress(ValueError):
        if text.isascii() and "_" not in text:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number")


def positive_number(text: str) -> float:
    """Parse a finite number above 0 (an argparse type)."""
    with suppress(argparse.ArgumentTypeError):
        if 0 < (value := number(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r:.40} is not a finite number above 0")


def split_name(argument: str, option: str, value: str = "FILE") -> tuple[str, str]:
    """Split ``NAME=FILE``.

    Args:
        option: option whose argument is split, for messages. It may be empty.
        value: placeholder for the second part in messages.

    Raises:
        UserError: if the argument does not have this form.
    """
    name, sign, found = argument.partition("=")
    said = f"{option} {argument!r}".strip()
    if not name or not found:
        example = f"{name or 'WEAN'}={found or value}" if sign else f"WEAN={argument or value}"
        raise UserError(f"{said} is not of the form NAME={value}; write for example {f'{option} {example}'.strip()}.")
    return name, found


def split_names(arguments: Sequence[str], option: str, value: str = "FILE") -> list[tuple[str, str]]:
    """Split arguments of the form ``NAME=FILE`` with `split_name`, and refuse a repeated name."""
    named = [split_name(argument, option, value) for argument in arguments]
    names = [name for name, _ in named]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"{option or value}: the name {name!r} is given twice; give each {value} its own name.")
    return named


def check_name(name: str, said: str) -> None:
    """Raise ``UserError`` if tables and pages cannot show a name. The message starts with ``said``, its option."""
    if not name.isprintable() or not name.strip():
        raise UserError(f"{said}: {name!r} is not a name that tables can show; choose another name.")


def counted(number: int, noun: str) -> str:
    """Return a number with thousands separators and its noun, e.g. ``1 reference`` or ``4,000 sentences``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class _PrintableFormatter(logging.Formatter):
    """Formatter that escapes the control characters of messages, which may quote file names."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return printable(super().formatMessage(record))


def configure_logging(program: str) -> None:
    """Show the program's own messages and all warnings on the terminal, but no other log messages."""
    logging.basicConfig(level=logging.WARNING, force=True)
    logging.getLogger().handlers[0].setFormatter(_PrintableFormatter(f"{program}: %(message)s"))
    logging.getLogger("wean_fairseq.reporting").setLevel(logging.INFO)


def without_folders(text: str) -> str:
    """Shorten absolute paths in a text to "…/NAME", because other people will read the text."""
    return _FOLDERS.sub("…/", text)


def print_message(program: str, text: str) -> None:
    """Write one line about the progress to standard error.

    Nothing is written if standard error is closed.
    """
    if sys.stderr is None:
        return
    with suppress(OSError):
        sys.stderr.write(f"{program}: {printable(text)}\n")
        sys.stderr.flush()


def open_standard_error() -> None:
    """Open the null device as standard error if it is closed. Otherwise progress bars and warnings would fail."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open


def standard_output() -> TextIO:
    """Return ``sys.stdout``. Raise ``UserError`` if standard output is closed."""
    if sys.stdout is None:
        raise UserError("standard output is closed, so the results cannot be printed; send it to a file or terminal.")
    return sys.stdout


def print_text(text: str) -> None:
    """Write a text to standard output.

    Control characters are escaped, and so are characters that the terminal's encoding lacks.

    Raises:
        UserError: if standard output is closed, or cannot be written.
        BrokenPipeError: if the program that reads the output has ended.
    """
    encoding = standard_output().encoding or "utf-8"
    text = printable_lines(text)
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_unwritable_output()
        raise unwritable("standard output", error) from None


def unwritable(name: str, error: OSError, rest: str = "") -> UserError:
    """Return the error of an output that cannot be written. ``rest`` is the end of its message."""
    return UserError(f"cannot write to {name}: {error.strerror}; make room, or send it elsewhere{rest}.")


def discard_unwritable_output() -> None:
    """Redirect standard output to the null device if it cannot be written.

    Python writes the rest of its buffer when it exits, and this write would fail with a traceback.
    """
    with suppress(OSError, ValueError):  # it may be closed, or an object without a file descriptor
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable_cells(line: str) -> str:
    """Escape the control characters of a line except tabs."""
    return "\t".join(map(printable, line.split("\t")))


def printable_lines(text: str) -> str:
    """Escape the control characters of a text except tabs and ends of lines."""
    return "\n".join(map(printable_cells, text.split("\n")))


def markdown(text: str) -> str:
    """Escape a text for a table cell or a line of a Markdown page: control characters, tags of HTML and bars."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def markdown_note(text: str) -> str:
    """Escape a sentence of a Markdown page, except for the code between its backticks."""
    pieces = re.findall("`[^`]+`|[^`]+|`", text)
    return "".join(printable(piece) if piece.startswith("`") else markdown(piece) for piece in pieces)


def markdown_code(text: str) -> str:
    """Return a text as code for a Markdown page. Control characters are escaped."""
    marks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " * text.startswith("`") or " " * text.endswith("`")
    return f"{marks}{space}{printable(text)}{space}{marks}"


def standard_input() -> TextIO:
    """Return standard input, or raise ``UserError`` if it is closed."""
    if sys.stdin is None:
        raise UserError("the input is closed: type or pipe text in, or give a file of text.")
    return sys.stdin


def is_interrupt(error: BaseException | None) -> bool:
    """Return True if an error is KeyboardInterrupt or was caused by it, for example during the import of a library."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def command(program: str) -> Callable[[Callable[[list[str]], str | int | None]], Callable[..., int]]:
    """Return a decorator for the main function of a program. The function gets the arguments as a list.

    The decorated function accepts the arguments (default: the arguments of the process), and returns the result of
    ``exit_status``.
    """

    def decorate(work: Callable[[list[str]], str | int | None]) -> Callable[..., int]:
        @wraps(work)
        def main(arguments: Sequence[str] | None = None) -> int:
            return exit_status(program, lambda: work(list(sys.argv[1:] if arguments is None else arguments)))

        return main

    return decorate


def _check_current_folder() -> None:
    """Raise ``UserError`` if the current directory was deleted. Libraries such as torch would end the process."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UserError("the current directory was deleted: change to another directory.") from error


def exit_status(program: str, work: Callable[[], str | int | None]) -> int:
    """Run ``work``, print the text that it returns (if any), and handle its errors.

    Returns:
        The number that ``work`` returned, or 0. The status is 2 after an error that the user caused. The error is
        printed in one sentence. It is `BROKEN_PIPE` if the reader of the output has closed the pipe. It is
        `INTERRUPTED` after Ctrl-C.
    """
    open_standard_error()
    try:
        _check_current_folder()
        result = work()
        if isinstance(result, int):
            return result
        if result:
            print_text(result)
    except BrokenPipeError:  # the program that reads the output has closed the pipe
        discard_unwritable_output()
        return BROKEN_PIPE
    except (KeyboardInterrupt, Exception) as error:
        if is_interrupt(error):
            print_message(program, str(error) if isinstance(error, KeyboardInterrupt) and str(error) else "interrupted")
            return INTERRUPTED
        sentence = sentence_of(error)
        if sentence is None and isinstance(error, OSError):
            # matplotlib raises an OSError without strerror if it finds no folder for its cache.
            reason = printable(error.strerror or str(error))
            sentence = f"a file cannot be read or written ({reason}): look at its disk."
        if sentence is None:
            raise
        print_message(program, f"error: {sentence}")
        return 2
    return 0
