"""Errors that users can cause and fix. Each message is one sentence that says what is wrong and what to do."""

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

# Control characters, which end a line, move the cursor, start a terminal command or change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 4000  # longer messages are cut after this number of characters, because they may quote names of any length
_FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)

# Messages about missing memory from Python, torch, the library loader and the operating system.
_NO_MEMORY = re.compile(
    "allocate memory|out of memory|unable to mmap|DefaultCPUAllocator|failed to map segment|start new thread|bad_alloc",
    re.IGNORECASE,
)
#: Functions that explain errors of libraries in one sentence. They return ``None`` for errors that they do not know.
explanations: list[Callable[[BaseException], str | None]] = []


def printable(text: str) -> str:
    """Escape control characters, so that names from files can be shown in a terminal, on one line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, with control characters escaped."""
    return printable(" ".join(str(error).split()))


def shown(value: object) -> str:
    """Return the ``repr`` of a value. If ``repr`` fails, return the name of the value's type instead.

    ``repr`` fails for whole numbers with more than 4,300 digits and for very deeply nested lists.
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"


class UserError(ValueError):
    """An error whose message is shown on one line instead of a traceback."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
        return printable(text)


def name_some(items: Sequence[object], limit: int = 5) -> str:
    """Name the first items and count the others: ``3, 5, 8, 9, 11 and 40 more``."""
    named = ", ".join(map(str, items[:limit]))
    return named + (f" and {len(items) - limit} more" if len(items) > limit else "")


def similar(name: str, known: Sequence[str]) -> str:
    """Return ``" (did you mean beam?)"`` for a wrong name that resembles a known one, otherwise an empty string."""
    found = get_close_matches(name, known, 1, 0.75)
    return f" (did you mean {found[0]}?)" if found else ""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn a ``ValueError`` about a user's option into a ``UserError``."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error


def sentence_of(error: BaseException) -> str | None:
    """Return a sentence that is shown instead of a traceback, or ``None`` for an unknown error."""
    if type(error) is Exception and isinstance(error.__context__, UserError):
        # fairseq's trainer raises another error if an error occurs while it loads a checkpoint
        error = error.__context__
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return (
            f"the file name {printable(str(error.filename))[:60]}... is longer than the file system allows: shorten it."
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        place = printable(str(error.filename))
        return f"{place} cannot be read or written ({error.strerror}): look at its disk, or choose another place."
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"a file cannot be written ({error.strerror}): make room, or raise the limits of ulimit."
    if isinstance(error, ValueError) and str(error).startswith("embedded null "):
        return "a file name has the character NUL, which no file has: give another name."
    # Path.resolve raises this error
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):
        return (
            f"{printable(str(error)[18:])} is a symbolic link that leads to itself: remove it, or name another place."
        )
    may_lack_memory = isinstance(error, RuntimeError | ImportError | OSError | SystemError)
    if isinstance(error, MemoryError) or (may_lack_memory and _NO_MEMORY.search(str(error))):
        reason = one_line(error)[:200] or "none is left"
        return f"there is not enough memory ({reason}): give smaller files, sizes or batches, or allow more memory."
    return next(filter(None, (explain(error) for explain in explanations)), None)
