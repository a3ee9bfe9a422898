"""Save tables in memory as JSON lines: data frames of pandas, and data sets of Hugging Face ``datasets``."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import UserError
from ..storage.files import copy_into, sha256_of, write_whole
from ..storage.saved_tables import find_splits

SAVED_TABLES = "tables"  # folder of the saved tables inside the work folder


def is_table(data: object) -> bool:
    """Return True if ``data`` is a DataFrame, a data set, or a dictionary of data sets by split."""
    return isinstance(data, Mapping) or hasattr(data, "to_json")


def save_tables(data: Any, folder: Path, given: Collection[str] = ()) -> dict[str, str]:
    """Save a table, or one table for each split. Return the files by the names of their settings.

    Args:
        data: see ``is_table``.
        folder: folder to create.
        given: names of the settings that the caller has given.

    Raises:
        UserError: if there is no table, a split is unknown or given twice, or another table was saved in the folder
            before.
    """
    tables = {"data": data}
    if isinstance(data, Mapping):
        advice = "give train, validation and test, each a table"
        found = find_splits(data, "the data", advice)
        tables = {"data" if split == "train" else split: data[key] for split, key in found.items()}
        if "data" not in tables or not all(hasattr(table, "to_json") for table in tables.values()):
            raise UserError(f"the data has the keys {', '.join(data)}: {advice}.")
        if twice := [name for name in tables if name in given]:
            raise UserError(f"{twice[0]} is a setting and a key of the data: leave one of them out.")
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _save(table, folder / f"{name}.jsonl") for name, table in tables.items()}


def _save(table: Any, path: Path) -> str:
    with TemporaryDirectory() as folder:
        new = Path(folder, path.name)
        try:
            table.to_json(new, orient="records", lines=True, force_ascii=False)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise UserError(f"the table cannot be saved as JSON ({error}): give columns of text, each once.") from error
        if not path.exists():
            write_whole(path, partial(copy_into, new))
        elif sha256_of(path) != sha256_of(new):
            raise UserError(f"{path} was saved from another table: give another work folder, or delete this one.")
    return str(path)
