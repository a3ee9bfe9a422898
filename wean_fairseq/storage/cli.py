"""``wean-checksum``: record checksums of data folders and checkpoints."""

from pathlib import Path

from ..console import OneLineParser, command, counted
from ..errors import UserError, printable
from .data_files import record
from .files import is_special, sha256_of
from .manifest import Manifest


@command("wean-checksum")
def main_checksum(arguments: list[str]) -> str:
    """Run ``wean-checksum``."""
    parser = OneLineParser(
        prog="wean-checksum",
        description="Record SHA-256 checksums of data folders or checkpoints. Later commands reject files that no "
        "longer match.",
    )
    parser.add_argument("paths", nargs="+", help="folders of data, or checkpoints")
    args = parser.parse_args(arguments)
    return "".join(f"{printable(_checksum(Path(path)))}\n" for path in args.paths)


def _checksum(path: Path) -> str:
    try:
        if path.is_dir():
            return f"{path}: checksums of {counted(record(path), 'file')}"
        if is_special(path):
            raise UserError(f"{path} is not a file: name a folder of data or a checkpoint.")
        Manifest(path.parent).confirm({path.name: sha256_of(path)})
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a folder of data or a checkpoint.") from error
    return f"{path}: checksum written"
