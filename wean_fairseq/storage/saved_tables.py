"""Folders that the library ``datasets`` of Hugging Face writes with ``save_to_disk``."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, ValidationError, convert, field

from ..errors import UserError
from .json_files import read_json

Content = TypeVar("Content")
_STATE, _SPLITS = "state.json", "dataset_dict.json"
_NAMES = {"train": ("train",), "valid": ("validation", "valid", "dev", "val"), "test": ("test",)}


class _File(Struct):
    filename: str


class _State(Struct):
    files: list[_File] = field(name="_data_files")


class _Splits(Struct):
    splits: list[str]


def is_saved_table(path: Path) -> bool:
    """Return True if a folder is a saved table, or contains one saved table per split."""
    return (path / _STATE).is_file() or (path / _SPLITS).is_file()


def arrow_files(path: Path) -> list[Path]:
    """Return the Arrow files of a saved table, or of all splits of a saved table, in order.

    Raise ``UserError`` if a file is missing.
    """
    files = []
    for folder in split_folders(path).values() or [path]:
        names = [file.filename for file in _read(folder / _STATE, _State).files]
        files += [folder / _plain(name, folder) for name in names]
    missing = [file for file in files if not file.is_file()]
    if missing or len({*files}) != len(files) or not files:
        raise UserError(f"{path} has no {missing[0].name if missing else 'rows'}: save the table again.")
    return files


def table_files(path: Path) -> list[Path]:
    """Return the files of a table: the table itself, or the Arrow files of a saved table."""
    return arrow_files(path) if is_saved_table(path) else [path]


def split_folders(path: Path) -> dict[str, Path]:
    """Return the folders of the splits by name. The result is empty if the table has no splits."""
    if not (path / _SPLITS).is_file():
        return {}
    return {name: path / _plain(name, path) for name in _read(path / _SPLITS, _Splits).splits}


def find_splits(names: Iterable[str], where: str, advice: str) -> dict[str, str]:
    """Return the names in a table by the splits that they mean: ``train``, ``valid`` and ``test``.

    Args:
        names: names in a table.
        where: the table, for messages.
        advice: last part of messages, which says how to correct a name.

    Raises:
        UserError: if a name is unknown, or two names mean the same split.
    """
    found: dict[str, str] = {}
    for name in names:
        split = next((split for split, accepted in _NAMES.items() if name in accepted), None)
        if split is None:
            accepted = ", ".join(name for names in _NAMES.values() for name in names)
            raise UserError(f"{where} has the split {name!r:.40}, but the names of splits are {accepted}: {advice}.")
        if split in found:
            raise UserError(f"{where} has {found[split]} and {name}, which both mean the split {split}: {advice}.")
        found[split] = name
    return found


def _plain(name: str, folder: Path) -> str:
    """Return the last component of a path name. Refuse a name that does not denote something inside the folder."""
    plain = Path(name).name
    if plain in ("", ".."):
        raise UserError(f"{folder} names {name!r:.40} as a part: save the table again.")
    return plain


def _read(path: Path, kind: type[Content]) -> Content:
    try:
        return convert(read_json(path), kind)
    except (OSError, ValueError, ValidationError) as error:
        raise UserError(f"{path} cannot be read ({error}): save the table again.") from error
