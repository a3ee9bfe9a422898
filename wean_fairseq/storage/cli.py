"""``wean-checksum``: record checksums of data folders and checkpoints."""

from pathlib import Path

from ..console import OneLineParser, command, counted
from ..errors import UserError, printable
from .data_files import MANIFEST, check_prepared, digests_of, has_data, has_data_or_model
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
        try:
            said += f"{printable(_checksum(path, contents))}\n"
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name a folder of data or a checkpoint.") from error
    for folder, digests in contents.items():
        try:
            Manifest(folder).confirm(digests)
        except OSError as error:
            raise UserError(
                f"cannot write {folder / NAME} ({error.strerror}): make room, or change the permissions of its folder."
            ) from error
    return said


def _checksum(path: Path, contents: dict[Path, dict[str, str]]) -> str:
    """Add the checksums of a folder or of a file to ``contents``, and return a message about them."""
    if path.is_dir():
        prepared = len(check_prepared(path))
        said = [f"{counted(prepared, 'file')} as in its {MANIFEST}"] if prepared else []
        if not prepared or has_data(path):
            digests = digests_of(path)
            contents.setdefault(path, {}).update(digests)
            said.append(f"checksums of {counted(len(digests), 'file')}")
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
