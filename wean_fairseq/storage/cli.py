"""``wean-checksum``: record checksums of data folders and checkpoints."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..console import OneLineParser, command, counted
from ..errors import UserError, printable
from .data_files import MANIFEST, check_prepared, has_data, has_data_or_model, record
from .files import is_special, sha256_of
from .manifest import NAME, Manifest


@command("wean-checksum")
def main_checksum(arguments: list[str]) -> str:
    """Run the command ``wean-checksum``."""
    parser = OneLineParser(
        prog="wean-checksum",
        description="Record SHA-256 checksums of data folders or checkpoints. Later commands reject files that no "
        "longer match. The text of a script in preprocess/ is compared with its manifest.json.",
    )
    parser.add_argument("paths", nargs="+", help="folders of data, or checkpoints and their search.txt")
    args = parser.parse_args(arguments)
    # folder -> file name -> checksum. The list of a folder is written only once, even for several files
    contents: dict[Path, dict[str, str]] = {}
    said = ""
    for path in map(Path, args.paths):
        with _readable(path):
            said += f"{printable(_checksum(path, contents))}\n"
    for folder, digests in contents.items():
        with _readable(folder):
            Manifest(folder).confirm(digests)
    return said


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a folder of data or a checkpoint.") from error


def _checksum(path: Path, contents: dict[Path, dict[str, str]]) -> str:
    """Write the checksums of a folder, or add the checksum of a file to ``contents``. Return a message about it."""
    if path.is_dir():
        prepared = len(check_prepared(path))
        said = [f"{counted(prepared, 'file')} as in its {MANIFEST}"] if prepared else []
        if not prepared or has_data(path):
            said.append(f"checksums of {counted(record(path), 'file')}")
        return f"{path}: {', '.join(said)}"
    if is_special(path):
        raise UserError(f"{path} is not a file: name a folder of data or a checkpoint.")
    if path.resolve().name == NAME:
        return f"{path}: skipped, because it is the list of checksums"
    digest = sha256_of(path)
    if not has_data_or_model(path.parent):
        raise UserError(f"{path} is in a folder without data, checkpoints or a model: name one of these.")
    contents.setdefault(path.parent, {})[path.name] = digest
    return f"{path}: checksum written"
