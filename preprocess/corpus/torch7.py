"""Read Torch7 files (``.t7``, binary) that contain only tables, strings, numbers and booleans.

Every value is stored as a 32-bit type tag followed by its content, in little endian. A table is stored as a 32-bit
index, the number of its pairs, and the key and the value of each pair. If a table is repeated, only its index is stored
again. Objects and functions are rejected, because Torch would build or run them, and the file is treated as data.
"""

import struct
from pathlib import Path
from typing import Any, BinaryIO

from wean_fairseq.errors import UserError

_NIL, _NUMBER, _STRING, _TABLE, _BOOLEAN = 0, 1, 2, 3, 5
_DEEPEST = 50


def read_torch7(path: Path) -> Any:
    """Return the value in a file, with dictionaries for tables.

    Raises:
        UserError: if the file is not a Torch7 file, or contains objects or functions.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, path.stat().st_size).value()
    except (ValueError, struct.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a Torch7 file of tables and strings: {error}.") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from error


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size
        self.tables: dict[int, dict[Any, Any]] = {}

    def value(self, depth: int = 0) -> Any:
        kind = self.integer()
        if kind == _NIL:
            return None
        if kind == _NUMBER:
            (number,) = struct.unpack("<d", self.bytes(8))
            return int(number) if number.is_integer() else number
        if kind == _STRING:
            return self.bytes(self.integer()).decode("utf-8")
        if kind == _BOOLEAN:
            return bool(self.integer())
        if kind == _TABLE:
            return self.table(depth)
        raise ValueError(f"it holds a value of type {kind} at byte {self.file.tell() - 4}")

    def table(self, depth: int) -> dict[Any, Any]:
        if depth > _DEEPEST:
            raise ValueError("its tables are nested too deeply")
        index = self.integer()
        if index not in self.tables:
            table = self.tables[index] = {}
            for _ in range(self.integer()):
                key = self.value(depth + 1)
                if isinstance(key, dict):
                    raise ValueError("a table is the key of another")
                table[key] = self.value(depth + 1)
        return self.tables[index]

    def integer(self) -> int:
        (number,) = struct.unpack("<i", self.bytes(4))
        return int(number)

    def bytes(self, length: int) -> bytes:
        if not 0 <= length <= self.size - self.file.tell():
            raise ValueError(f"it ends too early, or is damaged at byte {self.file.tell()}")
        return self.file.read(length)
