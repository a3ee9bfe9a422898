"""Checks of weight files: checksums, and limits against a small file that would take hours or all memory to read.

torch stores the members of a zip archive one after the other without compression. A safetensors file begins with the
size of its header. The header names the tensors.
"""

import os
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from .files import ARCHIVE, is_hollow, open_regular

# maximum number of members of a zip archive A model has one member per tensor, and its optimiser has two or three
MOST_MEMBERS = 100_000
LARGEST_PICKLE = 1 << 26  # maximum total size in bytes of the .pkl members, which need about 300 bytes per tensor
LARGEST_HEADER = 1 << 22  # maximum size in bytes of the header of safetensors, which needs about 120 bytes per tensor
_HEADER = 30  # number of bytes in a member's header before its name
# sizes and signatures of the records at the end of a zip archive
_END, _LOCATOR, _END64 = (22, b"PK\x05\x06"), (20, b"PK\x06\x07"), (56, b"PK\x06\x06")


def defect(path: Path) -> str | None:
    """Return the defect of a weight file, as text to print after the name of the file, or ``None``. No tensor is read.

    Other kinds of files have no defect.

    Raises:
        OSError: if the file cannot be read.
    """
    with open_regular(path) as file:
        if (start := file.read(8))[: len(ARCHIVE)] != ARCHIVE:
            size = int.from_bytes(start, "little") if path.suffix == ".safetensors" else 0
            # safetensors itself refuses a header that is larger than the file
            is_large = LARGEST_HEADER < size < path.stat().st_size
            return f"has a header of more than {LARGEST_HEADER >> 20} MiB" if is_large else None
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
            has_one_directory = _ends_with_directory(file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError):
            return "is damaged, it is cut off or some of it was changed"
    unusual = None if has_one_directory else "a directory that is not where its end says"
    unusual = unusual or _unusual(members)
    return unusual and f"has {unusual}, which torch.save does not write"


def _ends_with_directory(file: BinaryIO) -> bool:
    """Return True if an archive ends with the directory and its end records, without gaps.

    ``zipfile`` searches for the directory in front of its end record, but torch reads it at the place that the end
    record names. In a file with two directories, members could therefore be hidden from the checks here.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END[0] - _LOCATOR[0] - _END64[0]))
    tail = file.read()
    end = tail[-_END[0] :]
    before, locator = tail[: _END64[0]], tail[_END64[0] : -_END[0]]
    place, length, record = size - _END[0], slice(12, 16), end
    if locator.startswith(_LOCATOR[1]):
        place = size - len(tail)
        if not before.startswith(_END64[1]) or int.from_bytes(locator[8:16], "little") != place:
            return False
        length, record = slice(40, 48), before
    offset = slice(length.stop, length.stop + length.stop - length.start)
    ends = int.from_bytes(record[length], "little") + int.from_bytes(record[offset], "little")
    return end.startswith(_END[1]) and ends == place


def _unusual(members: list[zipfile.ZipInfo]) -> str | None:
    """Return the first property of an archive's directory that no file of ``torch.save`` has."""
    if len(members) > MOST_MEMBERS:
        return f"more than {MOST_MEMBERS:,} members"
    # torch ignores the case of names, and zipfile truncates names at a NUL.
    names = [member.orig_filename for member in members]
    if len({name.lower() for name in names}) < len(names):
        return "two members of one name"
    if any("\0" in name or (inside := name.partition("/")[2]) != inside.lower() for name in names):
        return "members with capital letters or NUL in their names"
    if any(
        member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size for member in members
    ):
        return "compressed members"
    members = sorted(members, key=lambda member: member.header_offset)
    if any(_end(member) > following.header_offset for member, following in pairwise(members)):
        return "members that overlap"
    if sum(member.file_size for member in members if member.filename.endswith(".pkl")) > LARGEST_PICKLE:
        return f"pickles of more than {LARGEST_PICKLE >> 20} MiB"
    return None


def _end(member: zipfile.ZipInfo) -> int:
    """Return the position after a member, assuming that its own header has no extra fields."""
    return member.header_offset + _HEADER + len(member.filename.encode()) + member.compress_size


def is_whole_archive(path: Path) -> bool:
    """Return True if the parts of an archive match its checksums, which torch does not check when it loads an archive.

    Files of torch < 1.6 are not archives and have no checksums. They count as intact.

    Raises:
        OSError: if the file cannot be read.
    """
    with open_regular(path) as file:
        if is_hollow(file):
            return False
        if file.read(len(ARCHIVE)) != ARCHIVE:
            return path.stat().st_size > 0
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False  # zipfile raises these errors for a damaged directory
