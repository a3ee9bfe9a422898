"""Inspect the pickles of a checkpoint without creating their values, before torch's loader creates them.

A few bytes of a pickle can create gigabytes of values, or values that take hours to hash or copy. Examples are calls
that copy a large value again and again, containers that contain one another several times, and keys with equal hashes.
Python crashes without a message if it hashes or deletes values that are nested too deeply. Therefore this module
follows the operations of a pickle as the loader would, but only counts the values.
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

_LONGEST_NAME = 1000  # maximum length of a name, in characters
_MOST_OPERATIONS = 1_000_000  # maximum number of operations in a pickle. torch.save writes about 50 for each tensor
_MOST_VALUES = 4_000_000  # maximum number of values inside one value, and inside the arguments of all calls
_DEEPEST = 500  # maximum number of nested levels. Checkpoints of fairseq have 11 levels
# a large number counts as this number of values, because large numbers with equal hashes make a dictionary slow
_LARGE_NUMBER = 400
_PICKLES = 5  # number of pickles in a file of torch < 1.6
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GETS = ("GET", "BINGET", "LONG_BINGET")
_CHANGES = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")
_CALLS = ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST", "BUILD")
# types that use the arguments of their calls as keys
_CONTAINERS = ("set", "dict", "OrderedDict", "Counter", "defaultdict")
# operations at the start of NumPy's state, which begins with a version
_FIRST_OF_STATE = ("BININT", "BININT1", "BININT2", "BINPERSID", "NONE")


class _Unusual(Exception):
    """Error for a pickle that torch.save does not write."""


def look_into(path: Path) -> tuple[list[str], str]:
    """Return the functions and types named in a file's pickles, and the reason why it must not be loaded, if any.

    The reason is a text that is printed after the name of the file. It is empty unless loading could take hours or all
    memory. torch looks at the first bytes to decide whether a file is an archive. For other files, it never reads the
    directory of an archive.
    """
    found: list[str] = []
    try:
        _look_into(path, found)
    except _Unusual as error:
        return found, str(error)
    # torch searches its report for the name, which takes time proportional to the square of the name's length.
    is_long = any(len(name) > _LONGEST_NAME for name in found)
    return found, f"names functions of more than {_LONGEST_NAME:,} characters" if is_long else ""


def _look_into(path: Path, found: list[str]) -> None:
    with contextlib.suppress(OSError, NotImplementedError, RuntimeError, ValueError), path.open("rb") as file:
        is_archive = file.read(len(ARCHIVE)) == ARCHIVE
        file.seek(0)
        for _ in range(0 if is_archive else _PICKLES):
            if not _follow(file, found):
                break  # the bytes after an error do not belong to a pickle
        if is_archive:
            with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(file) as members:
                for name in members.namelist():
                    if name.endswith(".pkl"):
                        _follow(io.BytesIO(members.read(name)), found)


class _Value:
    """A value that a pickle would create.

    Attributes:
        text: the text itself, the name of a function or type, or otherwise the operation that creates the value.
        items: the values from which it is created.
        depth: number of nested levels. A value that contains no other values has 1.
        size: number of all values in it. A value that occurs several times counts each time.
        is_inside: whether another value contains it.
    """

    __slots__ = ("depth", "is_inside", "items", "size", "text")

    def __init__(self, text: str, items: Sequence["_Value"]) -> None:
        self.text, self.items, self.is_inside = text, items, False
        self.size, self.depth = 1 + len(text) // 64, 1
        self.add(items)

    def add(self, items: Sequence["_Value"]) -> None:
        """Update the size and depth of this value for the items that are added to it."""
        for item in items:
            self.size += item.size
            self.depth = max(self.depth, item.depth + 1)
            item.is_inside = True


def _follow(pickled: IO[bytes], found: list[str]) -> bool:
    """Append the functions and types that one pickle names to ``found``, up to its first error.

    Return True if there is no error. Raise ``_Unusual`` if torch.save would not write such a pickle.
    """
    # The stack and the memory contain descriptions of values (see ``_Value``), so no value is created.
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
                # An operation takes its operands from the stack. With a mark, it also takes all values above the mark.
                has_mark = pickletools.markobject in needed
                start = marks.pop() if has_mark else len(stack)
                start = max(0, start - (needed.index(pickletools.markobject) if has_mark else len(needed)))
                items = stack[start:]
                del stack[start:]
                # A call may copy its arguments, and many large numbers with equal hashes make a dictionary slow.
                copied += sum(item.size for item in items) * (name in _CALLS) + _LARGE_NUMBER * (name == "LONG1")
                if name in ("GLOBAL", "INST", "STACK_GLOBAL"):
                    found.append(str(argument or ".".join(item.text for item in items)).replace(" ", "."))
                _check_operands(name, items)
                if name in _CHANGES:
                    # These operations add items to a value that stays on the stack. If the value contained itself, its
                    # size would be infinite.
                    changed, *items = items
                    changed.add(items)
                    if changed.is_inside:
                        raise _Unusual("has a pickle of values that are in themselves")
                    stack.append(changed)
                elif operation.stack_after:
                    stack.append(_Value(argument if isinstance(argument, str) else name, items))
                _check_amounts(copied, stack)
        return True
    return False


def _check_amounts(copied: int, stack: Sequence[_Value]) -> None:
    if copied > _MOST_VALUES or (stack and stack[-1].size > _MOST_VALUES):
        raise _Unusual(f"has a pickle that makes more than {_MOST_VALUES:,} values")
    if stack and stack[-1].depth > _DEEPEST:
        raise _Unusual(f"has a pickle of more than {_DEEPEST} levels of values in one another")


def _check_operands(name: str, items: Sequence[_Value]) -> None:
    if name == "BINPERSID" and not _is_storage(items[0]):
        raise _Unusual("names storages by other texts than numbers")
    if _has_made_keys(name, items):
        raise _Unusual("has a pickle with keys that are neither texts nor numbers")


def _has_made_keys(name: str, items: Sequence[_Value]) -> bool:
    """Return True if an operation may hash nested values, many of which can have the same hash.

    Calls of containers and states of objects accept a list of pairs instead of a dictionary.
    """
    if name in ("SETITEM", "SETITEMS", "ADDITEMS"):
        return any(key.depth > 1 for key in (items[1:] if name == "ADDITEMS" else items[1::2]))
    if name == "BUILD":
        state = items[1]
        return state.text != "EMPTY_DICT" and not (state.items and state.items[0].text in _FIRST_OF_STATE)
    is_container = name == "REDUCE" and items[0].text.rpartition(" ")[2] in _CONTAINERS
    # three levels are normal: the arguments, a container, and its items
    return (is_container or name == "BINPERSID") and items[-1].depth > 3


def _is_storage(reference: _Value) -> bool:
    """Return True if a value refers to a storage by its number.

    torch would read a storage again for each spelling of its name.
    """
    name = reference.items[2].text if len(reference.items) > 2 else ""
    return name.isascii() and name.isdecimal()
