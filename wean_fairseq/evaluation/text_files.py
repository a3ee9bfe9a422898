"""Reading and writing text without surprises: bytes in, one line per ``\\n``, atomic replacement out.

``str.splitlines`` is never used: it also cuts at U+2028, form feeds and other characters that occur inside real
sentences, which would shift every following line.
"""

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Union

from wean_fairseq.checkpoints.files import read_regular
from wean_fairseq.evaluation.errors import EvaluationError

PathLike = Union[str, "os.PathLike[str]"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_bytes(path: PathLike) -> bytes:
    """Return the content of ``path`` or raise an `EvaluationError` that names it."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise EvaluationError(f"{path} does not exist; check the file name.") from None
    except IsADirectoryError:
        raise EvaluationError(f"{path} is a directory; give the text file inside it.") from None
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read ({error.strerror}); give a file that can be.") from None


def decode_lines(content: bytes, path: PathLike) -> list[str]:
    """Split ``content`` at line feeds and decode it as UTF-8.

    A byte-order mark and one carriage return before a line feed are dropped; a missing final line feed is accepted.

    Raises:
        EvaluationError: if a line is not UTF-8, with file and line number (counted from 1).
    """
    raw_lines = content.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    if raw_lines[-1] == b"":
        raw_lines.pop()
    lines = []
    for number, raw in enumerate(raw_lines, start=1):
        try:
            lines.append(raw.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise EvaluationError(
                f"{path}, line {number}: byte {error.object[error.start]:#04x} at position {error.start + 1} "
                "is not UTF-8; "
                "convert the file to UTF-8 first."
            ) from None
    return lines


def read_lines(path: PathLike) -> list[str]:
    """Read a plain text file, one sentence a line; an empty file is an error."""
    lines = decode_lines(read_bytes(path), path)
    if not lines:
        raise EvaluationError(f"{path} is empty; a file with one sentence per line was expected.")
    return lines


def read_text(path: PathLike) -> str:
    """Read a whole UTF-8 file as it is, its line ends too."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvaluationError(
            f"{path}: byte {error.object[error.start]:#04x} at position {error.start + 1} is not UTF-8; "
            "convert the file to UTF-8 first."
        ) from None


def parse_json(text: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: if it is none, or nobody can read it: nested too deeply, or with a number of thousands of digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def print_text(text: str) -> None:
    """Print; what the terminal's encoding does not have, and what is no character at all, is shown escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end="")


def sha256_of(path: PathLike) -> str:
    """Return the SHA-256 of a file, so that a score can be traced to the exact text it was computed on."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def write_atomically(path: PathLike, text: str) -> None:
    """Write ``text`` to a temporary neighbour, flush it to disk, then rename it over ``path``.

    An interruption leaves either the old file or the new one, never half of one. Bytes of a file's name that are no
    UTF-8 are escaped, in JSON as JSON wants it.
    """
    target = Path(path)
    if target.is_dir():
        raise EvaluationError(f"{path} is a directory; give the name of the file to write.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise EvaluationError(f"{path} cannot be written ({error.strerror}); choose another place.") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(0o666 & ~_current_umask())
        Path(temporary).replace(target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise EvaluationError(f"{path} cannot be written ({error.strerror}); choose another place.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _current_umask() -> int:
    """Return the process' file mode mask (reading it needs setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
