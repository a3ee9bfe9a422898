"""Errors that a user can cause and mend: one sentence saying what is wrong, what was expected and what to do."""

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from types import TracebackType

# Words of PyTorch where the process at the other end of a connection is gone, or silent for too long.
_LOST = ("closed by peer", "reset by peer", "Broken pipe", "imed out", "Connection refused")
# Words of an error that memory is at its end.
_NO_MEMORY = re.compile(r"allocate memory|out of memory|unable to mmap|DefaultCPUAllocator", re.IGNORECASE)
# Words of fairseq for options that it does not take. NumPy has the words for the seed that fairseq gives it.
_REFUSING = {"fairseq", "fairseq_cli", "numpy"}
_OF_OPTIONS = re.compile(
    r"(?:^|[\s(])--[a-z]|Seed must be|min_len cannot|post_process option|Model file not found|Pass-through|phase_ratio"
)


# Characters that end a line, move the cursor, start a terminal's commands or change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_LONGEST = 4000  # characters of a message, which may quote names of any length


def printable(text: str) -> str:
    """Escape control characters, so that names from files can be shown in a terminal, on one line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class UserError(ValueError):
    """Shown without a traceback on the command line (see ``install_error_reports``), on one line whatever it quotes."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
        return printable(text)


def name_some(items: Sequence[object], limit: int = 5) -> str:
    """Name the first few of many, so that nobody's terminal is flooded: ``3, 5, 8, 9, 11 and 40 more``."""
    named = ", ".join(map(str, items[:limit]))
    return named + (f" and {len(items) - limit} more" if len(items) > limit else "")


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn the ``ValueError`` of a building block that was given a user's option into a ``UserError``."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error


def install_error_reports() -> None:
    """Show a ``UserError`` and a lost process as one sentence; WEAN_TRACEBACK=1 shows where it came from as well."""
    previous = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        sentence = None if os.environ.get("WEAN_TRACEBACK") else sentence_of(error)
        if sentence is None:
            previous(kind, error, traceback)
        else:
            sys.stderr.write(f"wean_fairseq: error: {sentence}\n")

    sys.excepthook = report


def sentence_of(error: BaseException) -> str | None:
    """The sentence to show instead of a traceback; ``None`` for an error that is not a user's, nor the network's."""
    if type(error) is Exception and isinstance(error.__context__, UserError):
        error = error.__context__  # the trainer wraps what goes wrong while it loads a checkpoint
    if isinstance(error, UserError):
        return str(error)
    said = printable(" ".join(str(error).split()))
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return (
            f"the file name {printable(str(error.filename))[:60]}... is longer than the file system allows: shorten it."
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        place = printable(str(error.filename))
        return f"{place} cannot be read or written ({error.strerror}): look at its disk, or choose another place."
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(said)):
        return (
            f"there is not enough memory ({said[:200] or 'none is left'}): give smaller files, sizes or batches, or "
            "allow more memory."
        )
    of_options = _of_options(error, said)
    if of_options is not None:
        return of_options
    torch = sys.modules.get("torch")  # a process that has not imported it is alone
    among_others = torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
    if among_others and isinstance(error, RuntimeError) and any(words in str(error) for words in _LOST):
        reason = str(error).splitlines()[0].split(". ")[0]
        return (
            f"another process of this training has ended or cannot be reached ({reason}): its own output tells why; "
            "start all of them again; training resumes from its last checkpoint."
        )
    return None


def _of_options(error: BaseException, said: str) -> str | None:
    """The sentence about an option that fairseq or its libraries refuse; ``None`` for other errors."""
    module, function = _raised_by(error)
    if module == "ast" and isinstance(error, ValueError | SyntaxError):
        return f"--model-overrides must be a dictionary, such as {{'beam': 4}} ({said[:200]})."
    if module == "fairseq_cli" and isinstance(error, ZeroDivisionError):
        return "no sentence was decoded: all of them are longer than the model or the options allow."
    if _refuses_options(error) and module in _REFUSING and _OF_OPTIONS.search(said):
        return f"{said.rstrip('.!')}."
    if isinstance(error, KeyError) and function in ("validate", "get_valid_stats"):
        return f"--best-checkpoint-metric {error.args[0]} is not a value of the validation: see its line in the log."
    return None


def _refuses_options(error: BaseException) -> bool:
    """Whether an error is of a kind that fairseq raises for options; those of the operating system have numbers."""
    if isinstance(error, OSError):
        return error.errno is None
    return isinstance(error, AssertionError | ValueError | NotImplementedError)


def _raised_by(error: BaseException) -> tuple[str, str]:
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return "", ""
    return frames[-1].f_globals.get("__name__", "").partition(".")[0], frames[-1].f_code.co_name
