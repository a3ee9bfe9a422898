"""Read text that is split into lines only at ``\\n``, read typed JSON, and write files atomically.

``str.splitlines`` is never used, because it also splits at U+2028, form feeds and other characters that occur inside
real sentences. Such a split would shift every following line.
"""

import errno
import hashlib
import os
import tomllib
from collections.abc import Iterable, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar, Union

from msgspec import Struct, ValidationError, convert

from ..errors import UserError
from ..ranges import Count
from ..storage.files import check_size, open_input, replaces_file, write_text, write_whole
from ..storage.json_files import parse_json

PathLike = Union[str, "os.PathLike[str]"]
ItemT = TypeVar("ItemT")

_LARGEST = 1 << 30  # maximum size of a file in bytes
_PIECE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: SHA-256 of each path's content when it was last read. The digest is stored, because a pipe cannot be read again.
_DIGESTS: dict[str, str] = {}


def read_bytes(path: PathLike) -> bytes:
    """Return the content of ``path``, or raise a `UserError` that names the file."""
    pieces: list[bytes] = []
    try:
        check_size(path, _LARGEST)
        with open_input(path) as file:
            while piece := file.read(_PIECE):
                pieces.append(piece)
                if len(pieces) * _PIECE > _LARGEST:  # the size of a pipe is unknown until it has been read
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the file name.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a directory; give the text file inside it.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give a file that can be.") from None
    content = b"".join(pieces)
    _DIGESTS[os.fspath(path)] = hashlib.sha256(content).hexdigest()
    return content


def decode_lines(content: bytes, path: PathLike) -> list[str]:
    """Split ``content`` at line feeds and decode it as UTF-8.

    A byte-order mark at the start is dropped, and so is a carriage return before a line feed. A missing final line feed
    is accepted.

    Raises:
        UserError: if a line is not UTF-8. The message contains the file and the line number (from 1).
    """
    raw_lines = content.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    if raw_lines[-1] == b"":
        raw_lines.pop()
    lines = []
    for number, raw in enumerate(raw_lines, start=1):
        try:
            lines.append(raw.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _not_utf8(f"{path}, line {number}", error) from None
    return lines


def read_lines(path: PathLike) -> list[str]:
    """Read a plain text file with one sentence per line. An empty file is an error."""
    lines = decode_lines(read_bytes(path), path)
    if not lines:
        raise UserError(f"{path} is empty; a file with one sentence per line was expected.")
    return lines


def read_text(path: PathLike) -> str:
    """Read a whole UTF-8 file and keep its line ends."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(str(path), error) from None


def _not_utf8(where: str, error: UnicodeDecodeError) -> UserError:
    byte = f"byte {error.object[error.start]:#04x} at position {error.start + 1}"
    return UserError(f"{where}: {byte} is not UTF-8; convert the file to UTF-8 first.")


def read_typed_json(path: PathLike, kind: type[ItemT], remedy: str = "give a file written by wean-evaluate") -> ItemT:
    """Read a JSON file whose content must have the type ``kind``.

    Raises:
        UserError: if the content is not JSON or has another type. The message contains the place of the wrong value and
            the expected type.
    """
    text = read_text(path)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); {remedy}.") from None
    return convert_content(content, kind, path, remedy)


def convert_content(content: object, kind: type[ItemT], path: PathLike, remedy: str) -> ItemT:
    """Convert content to the type ``kind``, or raise `UserError` with the place and the expected type."""
    try:
        return convert(content, kind)
    except (ValidationError, UnicodeEncodeError) as error:
        raise UserError(f"{path}: {error}; {remedy}.") from None


def read_described(path: PathLike, kind: type[ItemT], fault: str) -> dict[int, ItemT]:
    """Read a JSON Lines file with fairseq-generate's descriptions of sentences.

    Returns:
        The content of each line, by the number of its sentence (from 0). Numbers may be missing, because one of several
        --num-shards decodes only some of the sentences.

    Raises:
        UserError: if the content of a line does not match ``kind``, or its number is that of an earlier line. The
            message names the first such line and describes it with ``fault``.
    """
    described: dict[int, ItemT] = {}
    for number, line in enumerate(read_lines(path), start=1):
        try:
            content = parse_json(line)
            sentence, description = convert(content, _Numbered).id, convert(content, kind, str_keys=True)
        except (ValueError, ValidationError) as error:
            raise UserError(f"line {number} of {path} {fault} ({error}).") from None
        if sentence in described:
            raise UserError(f"line {number} of {path} repeats the id {sentence}: give the dump of a single command.")
        described[sentence] = description
    return dict(sorted(described.items()))


class _Numbered(Struct):
    """A JSON object with the number of the sentence that it describes."""

    id: Count


def read_table(name: str, folder: Path = Path(__file__).parent) -> dict[str, Any]:
    """Read a TOML file of the package."""
    return tomllib.loads((folder / name).read_text(encoding="utf-8"))


def sha256_as_read(path: PathLike) -> str:
    """Return the SHA-256 of a file's content when it was last read. The digest identifies the scored text."""
    if os.fspath(path) not in _DIGESTS:
        read_bytes(path)
    return _DIGESTS[os.fspath(path)]


def check_outputs(
    outputs: Mapping[str, PathLike | None], inputs: Iterable[PathLike | None], *, overwrite: bool
) -> None:
    """Refuse output files that exist, cannot be written, are also inputs, or are given twice.

    Args:
        outputs: file to write for each option, or None.
        inputs: files that are read.
        overwrite: replace existing files, but never inputs.
    """
    used = {_identity(path): str(path) for path in inputs if path}
    for option, path in outputs.items():
        if path is None:
            continue
        file = Path(path)
        _check_place(file)
        if file.exists() and not file.is_file():
            continue  # terminals and pipes cannot be overwritten
        identity = _identity(path)
        if identity in used:
            raise UserError(f"{option} {path} would overwrite {used[identity]}; choose another name.")
        if replaces_file(file) and not overwrite:
            raise UserError(f"{option} {path} exists already: choose another name, or pass --overwrite to replace it.")
        used[identity] = f"the output of {option}"


def _identity(path: PathLike) -> tuple[int, int] | Path:
    """Return a value that identifies a file. It is equal for all paths of the same file."""
    try:
        status = Path(path).stat()
    except OSError:
        return Path(os.path.realpath(path))
    return status.st_dev, status.st_ino


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a directory; give the name of the file to write.")
    if path.exists():
        writable, reason = os.access(path, os.W_OK), "it is write-protected"
    else:
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
        reason = f"{folder.name or folder} is {'write-protected' if folder.is_dir() else 'not a folder'}"
    if not writable:
        raise UserError(f"{path} cannot be written ({reason}); choose another place.")


def write_atomically(path: PathLike, content: str | bytes) -> None:
    """Write a file atomically. Missing folders are created.

    Bytes of file names that are not valid UTF-8 are written as escapes, which JSON can read.

    Raises:
        UserError: if the file cannot be written.
    """
    target = Path(path)
    _check_place(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            write_text(target, content)
        else:
            write_whole(target, methodcaller("write", content))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another place.") from None
