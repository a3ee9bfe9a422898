"""Look into the pickles of a checkpoint without making their values, before torch's loader makes them.

A few bytes of a pickle can make gigabytes, or values that take hours to hash or copy: calls that copy a large value
again and again, and containers that have one another several times. So the operations are followed as by the loader,
and the values are counted.
"""

import contextlib
import io
import pickletools
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from .files import ARCHIVE

_LONGEST_NAME = 1000  # characters
_MOST_OPERATIONS = 1_000_000  # of a pickle. torch.save writes about 50 per tensor
_MOST_VALUES = 4_000_000  # in one value, and in the arguments of all calls
_LARGE_NUMBER = 400  # values. Numbers of one hash make a dictionary slow
_PICKLES = 5  # in a file of torch < 1.6
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GETS = ("GET", "BINGET", "LONG_BINGET")
_CHANGES = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")
_CALLS = ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST", "BUILD")


class _Unusual(Exception):
    """A pickle that torch.save does not write."""


def look_into(path: Path) -> tuple[list[str], str]:
    """Return the functions and types that the pickles of a file name, and why loading could take hours or all memory.

    The reason is to be put after the name of the file. It is empty if the file can be loaded. torch decides by the
    first bytes whether a file is an archive. The directory of other files is never read.
    """
    found: list[str] = []
    try:
        _look_into(path, found)
    except _Unusual as error:
        return found, str(error)
    # torch searches its report for the name in a time that grows with the square of its length.
    is_long = any(len(name) > _LONGEST_NAME for name in found)
    return found, f"names functions of more than {_LONGEST_NAME:,} characters" if is_long else ""


def _look_into(path: Path, found: list[str]) -> None:
    with contextlib.suppress(OSError, NotImplementedError, RuntimeError, ValueError), path.open("rb") as file:
        is_archive = file.read(len(ARCHIVE)) == ARCHIVE
        file.seek(0)
        for _ in range(0 if is_archive else _PICKLES):
            if not _follow(file, found):
                break  # the bytes after an error are not a pickle
        if is_archive:
            with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(file) as members:
                for name in members.namelist():
                    if name.endswith(".pkl"):
                        _follow(io.BytesIO(members.read(name)), found)


class _Value:
    """A value that a pickle makes.

    Attributes:
        text: its text, or the name of a function or type.
        items: the values that it is made from.
        size: number of all values in it. A value that occurs several times counts each time.
        is_inside: whether another value has it.
    """

    __slots__ = ("is_inside", "items", "size", "text")

    def __init__(self, text: str, items: Sequence["_Value"]) -> None:
        self.text, self.items, self.is_inside = text, items, False
        self.size = 1 + len(text) // 64
        self.add(items)

    def add(self, items: Sequence["_Value"]) -> None:
        """Count values that are put into it."""
        for item in items:
            self.size += item.size
            item.is_inside = True


def _follow(pickled: IO[bytes], found: list[str]) -> bool:
    """Add the names in one pickle up to its first error. Returns True if it has no error. Raises ``_Unusual``."""
    # The stack, marks and memory of a pickle, with sizes in place of the values, of which none is made.
    stack: list[_Value] = []
    marks: list[int] = []
    memory: dict[Any, _Value] = {}
    copied = 0
    with contextlib.suppress(ValueError, LookupError, zlib.error, zipfile.BadZipFile):
        for number, (operation, argument, _) in enumerate(pickletools.genops(pickled)):
            if number == _MOST_OPERATIONS:
                raise _Unusual(f"has a pickle of more than {_MOST_OPERATIONS:,} operations")
            name, needed = operation.name, operation.stack_before
            if name == "MARK":
                marks.append(len(stack))
            elif name in _PUTS:
                memory[len(memory) if argument is None else argument] = stack[-1]
            elif name in _GETS:
                stack.append(memory[argument])
            else:
                # An operation takes its operands, and with a mark all values above the mark, from the stack.
                has_mark = pickletools.markobject in needed
                start = marks.pop() if has_mark else len(stack)
                start = max(0, start - (needed.index(pickletools.markobject) if has_mark else len(needed)))
                items = stack[start:]
                del stack[start:]
                # A call may copy its arguments, and many large numbers of one hash make a dictionary slow.
                copied += sum(item.size for item in items) * (name in _CALLS) + _LARGE_NUMBER * (name == "LONG1")
                if name in ("GLOBAL", "INST", "STACK_GLOBAL"):
                    found.append(str(argument or ".".join(item.text for item in items)).replace(" ", "."))
                if name == "BINPERSID" and not _is_storage(items[0]):
                    raise _Unusual("names storages by other texts than numbers")
                if name in _CHANGES:
                    # These put items into a value that stays on the stack. Inside of itself, its size would be endless.
                    changed, *items = items
                    changed.add(items)
                    if changed.is_inside:
                        raise _Unusual("has a pickle of values that are in themselves")
                    stack.append(changed)
                elif operation.stack_after:
                    stack.append(_Value(argument if isinstance(argument, str) else "", items))
                if copied > _MOST_VALUES or (stack and stack[-1].size > _MOST_VALUES):
                    raise _Unusual(f"has a pickle that makes more than {_MOST_VALUES:,} values")
        return True
    return False


def _is_storage(reference: _Value) -> bool:
    """Return True for the reference to a storage by its number. Torch reads one again for each spelling of its name."""
    name = reference.items[2].text if len(reference.items) > 2 else ""
    return name.isascii() and name.isdecimal()
