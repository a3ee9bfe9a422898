"""Files that are read if they are files, are there whole or not at all, and what tells that one has changed since."""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20
_PARTIAL = ".tmp"  # ends the name of a file that is being written
_TRIES = 10  # some file systems number a file anew whenever it is looked at: nothing may wait for two equal numbers
_LINKS = 40  # as many symbolic links as Linux follows


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading; where a FIFO, a device or a socket has its name, nobody waits.

    Raises:
        OSError: if it cannot be read, or is no regular file.
    """
    return open(path, "rb", opener=_open_if_regular)


def _open_if_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The content of a file, see ``open_regular``."""
    with open_regular(path) as file:
        return file.read()


class HashedFile:
    """A file being written: counts its SHA-256 on the way, and remembers why the disk refused it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, piece: bytes | memoryview) -> int:
        """Append ``piece``."""
        try:
            written = self._file.write(piece)
        except OSError as error:
            self.error = error  # torch.save, which called this, turns it into something that no longer tells
            raise
        self._sha256.update(piece)
        return written

    def flush(self) -> None:
        """Give the operating system what is still here."""
        self._file.flush()

    def finish(self) -> str:
        """Wait until all of it is on the disk, or has gone where it goes; returns its SHA-256."""
        self._file.flush()
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            os.fsync(self._file.fileno())
        return self._sha256.hexdigest()

    def close(self) -> None:
        """Close it; raises ``OSError``, and remembers it, if a full disk refuses what the buffer still holds."""
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or error
            raise


def write_whole(
    path: Path, write: Callable[[HashedFile], object], announce: Callable[[str], None] | None = None
) -> str:
    """Write a file under another name, and give it its own when all of it is on the disk.

    A symbolic link stays, and what it leads to is written. Devices, pipes and what the process has open, such as
    ``/dev/stdout``, are written to as they are.

    Args:
        path: the file; an older one stays as it is until the new one takes its place.
        write: is given the new file.
        announce: is told the SHA-256 before the new file takes its place.

    Returns:
        The SHA-256.

    Raises:
        OSError: if it cannot be written, whatever ``write`` made of that.
    """
    path = followed(path)
    special = is_special(path)
    partial = path.with_name(path.name + _PARTIAL)
    file = HashedFile(open_special(path) if special else _open_for_owner(partial))
    try:
        write(file)
        digest = file.finish()
        if announce is not None:
            announce(digest)
        file.close()
        if not special:
            os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        if not special:
            partial.unlink(missing_ok=True)
        if file.error is not None:
            raise file.error from None
        raise
    if not special:
        # Let the new name survive a power cut, where folders can be synchronised.
        with contextlib.suppress(OSError), _opened(path.parent) as descriptor:
            os.fsync(descriptor)
    return digest


def followed(path: Path) -> Path:
    """The place that symbolic links lead to, or the last one that stands for an open file.

    Raises:
        OSError: if they lead in a circle.
    """
    for _ in range(_LINKS):
        if not path.is_symlink() or _is_open_file(path):
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def is_special(path: Path) -> bool:
    """Whether a path is there and is neither a file nor a link to one; raises ``OSError`` if it cannot be looked at."""
    try:
        return _is_open_file(path) or not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _is_open_file(path: Path) -> bool:
    """Whether a path such as ``/dev/stdout`` stands for a file that this process has open."""
    return path.is_symlink() and os.path.realpath(path.parent) == f"/proc/{os.getpid()}/fd"


def open_special(path: Path) -> BinaryIO:
    """Open for writing what has no content to be replaced: a device, a pipe, an open file; nobody is waited for.

    Raises:
        OSError: if it cannot be written, as a pipe that nobody reads.
    """
    if _is_open_file(path):
        sys.stdout.flush()  # what was printed before comes before
        descriptor = os.dup(int(path.name))
    else:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


def remove_partial(folder: Path, is_own: Callable[[str], bool]) -> list[str]:
    """Remove what processes that were killed in ``write_whole`` have left; what a living one is writing stays.

    All stays where the file system has no locks. Where another computer's are not seen, what it is writing is removed:
    it then cannot give the file its name, and says so.

    Args:
        folder: where to look; it need not be there.
        is_own: whether a file of this name, such as "checkpoint_last.pt", is the caller's.

    Returns:
        The names of what was removed.
    """
    removed = []
    for path in sorted(path for path in folder.glob(f"*{_PARTIAL}") if is_own(path.name.removesuffix(_PARTIAL))):
        with contextlib.suppress(OSError), path.open("r+b") as file:  # NFS locks no file that is only read
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_path(file, path):
                path.unlink()
                removed.append(path.name)
    return removed


def _open_for_owner(path: Path) -> BinaryIO:
    """Open a file to write it anew, as soon as no other process has it locked; see ``remove_partial``."""
    for attempt in range(1, _TRIES + 1):
        file = open(path, "wb", opener=_open_without_truncating)  # noqa: SIM115 - the caller closes it
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        if _has_path(file, path) or attempt == _TRIES:
            break
        file.close()  # the other process has given it its final name, or has removed it
    file.truncate()
    return file


def _open_without_truncating(path: str, flags: int) -> int:
    """An ``opener`` that leaves the content there, which may be another process's, and takes files only."""
    return os.open(path, (flags & ~os.O_TRUNC) | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _has_path(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all; bytes of a file's name that are no UTF-8 are escaped."""
    write_whole(path, lambda file: file.write(text.encode(errors="backslashreplace")))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process is in here with ``folder``; where the file system has no locks, go on without."""
    with _opened(folder) as descriptor:  # closing it ends the lock
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def copy_into(source: Path, file: HashedFile) -> None:
    """Append all of ``source`` to ``file``."""
    with open_regular(source) as pieces:
        while piece := pieces.read(_PIECE):
            file.write(piece)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; raises ``OSError`` if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_whole_archive(path: Path) -> bool:
    """Whether the parts of an archive are what its own checksums say; torch looks at none of them when it loads.

    True as well for the files of torch < 1.6, which are no archives and have no checksums.

    Raises:
        OSError: if it cannot be read.
    """
    with open_regular(path) as file:
        if file.read(2) != b"PK":
            return path.stat().st_size > 0
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False  # what the directory of a damaged archive makes zipfile say
