"""Limits for the zip archives of ``torch.save``, so that no small file takes hours or all memory to read.

torch stores the members of an archive one after the other, uncompressed.
"""

import zipfile
from itertools import pairwise
from pathlib import Path

from .files import open_regular

MOST_MEMBERS = 100_000  # a model has one for each tensor, and its optimiser two or three
LARGEST_PICKLE = 1 << 26  # bytes of all .pkl members; without the tensors they have about 300 bytes per tensor
_HEADER = 30  # bytes before a member's name


def defect(path: Path) -> str | None:
    """Return what ``torch.save`` does not write in the directory of an archive, or ``None``.

    No member is read. A file that is not an archive, or whose directory cannot be read, has no such defect.

    Raises:
        OSError: if the file cannot be read.
    """
    with open_regular(path) as file:
        if file.read(2) != b"PK":
            return None
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError):
            return None
    if len(members) > MOST_MEMBERS:
        return f"more than {MOST_MEMBERS:,} members"
    if len({member.filename for member in members}) < len(members):
        return "two members of one name"
    if any(
        member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size for member in members
    ):
        return "compressed members"
    members.sort(key=lambda member: member.header_offset)
    if any(_end(member) > following.header_offset for member, following in pairwise(members)):
        return "members that overlap"
    if sum(member.file_size for member in members if member.filename.endswith(".pkl")) > LARGEST_PICKLE:
        return f"pickles of more than {LARGEST_PICKLE >> 20} MiB"
    return None


def _end(member: zipfile.ZipInfo) -> int:
    """The first byte after a member, if its own header has no extra fields."""
    return member.header_offset + _HEADER + len(member.filename.encode()) + member.compress_size
