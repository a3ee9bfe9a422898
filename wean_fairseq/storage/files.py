"""Read regular files only, write files atomically, and detect changed files."""

import contextlib
import errno
import fcntl
import gzip
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20
_PARTIAL = ".wean-{}.partial"  # name of a file or folder that is being written
_IS_PARTIAL = re.compile(r"\.wean-[0-9a-f]{16}\.partial")
_LARGE = 1 << 30  # files with more bytes are checked for holes
# minimum limit in bytes for unpacked content, and maximum ratio of unpacked to packed size, which is 3 for most text
_UNPACKED, _LARGEST_RATIO = 1 << 22, 50
LARGEST_TEXT = 1 << 28  # maximum size in bytes of a dictionary, or of a file with learnt text steps
ARCHIVE = b"PK\x03\x04"  # first bytes of a file that torch.load reads as an archive
_OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # prefixes of the paths of a shell's pipes <(...)
_CURRENT = "/proc/self/cwd"  # unlike Path.cwd(), this works in a directory that was removed
_LINKS = 40  # maximum number of symbolic links that are followed. Linux allows 40


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading. FIFOs, devices and sockets are refused without waiting.

    Raises:
        OSError: if the file cannot be read, or is not a regular file.
    """
    return open(path, "rb", opener=_open_if_regular)


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a text for reading like ``open_regular``.

    The text may also be a pipe that a shell has opened, as in ``<(...)``.

    Raises:
        OSError: if it cannot be read, or is neither a regular file nor such a pipe.
    """
    name = os.fspath(path)
    is_opened = name.startswith(_OPENED) and ".." not in name
    return open(path, "rb", opener=_open_if_readable if is_opened else _open_if_regular)


def open_growing(path: Path) -> BinaryIO:
    """Open a file for reading and appending, or create it. Symbolic links are not followed.

    Raises:
        OSError: if it cannot be opened, or is not a regular file.
    """
    return open(path, "a+b", opener=lambda name, flags: _open_if_regular(name, flags | os.O_NOFOLLOW))


def _open_if_readable(path: str, flags: int) -> int:
    """Open a regular file or a pipe for reading. A read from the pipe waits for its writer."""
    descriptor = _open_if_regular(path, flags, or_pipe=True)
    os.set_blocking(descriptor, True)
    return descriptor


def _open_if_regular(path: str, flags: int, or_pipe: bool = False) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (or_pipe and stat.S_ISFIFO(mode)):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is not a regular file", path)


class Unpacked(gzip.GzipFile):
    """Content of a gzipped file, with a limit for its size.

    Reading raises ``OSError`` if there is more content than a packed text of this size can have.
    """

    def __init__(self, file: BinaryIO) -> None:
        check_whole(file, Path(file.name))
        super().__init__(fileobj=file)
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        """See ``GzipFile.read``."""
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """See ``GzipFile.read1``."""
        return self._checked(super().read1(size))

    def readline(self, size: int | None = -1) -> bytes:
        """See ``GzipFile.readline``."""
        return self._checked(super().readline(size))

    def _checked(self, piece: bytes) -> bytes:
        if self.tell() > most_unpacked(self._file.tell()):  # limit for the part read so far
            raise OSError(errno.EFBIG, f"it is {_LARGEST_RATIO} times larger when it is unpacked: unpack it first")
        return piece


def most_unpacked(size: int, ratio: int = _LARGEST_RATIO) -> int:
    """Return the maximum size of the content of a packed text with ``size`` bytes."""
    return max(_UNPACKED, ratio * size)


def check_size(path: str | os.PathLike[str], most: int = LARGEST_TEXT) -> None:
    """Raise ``OSError`` if a file has more than ``most`` bytes.

    This matters because a sparse file of any size may occupy no space on the disk.
    """
    if Path(path).stat().st_size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))


def no_file(path: str | os.PathLike[str]) -> str:
    """Return the beginning of a message: the path is missing, or is something else than a regular file."""
    if Path(path).is_dir():
        return f"{path} is a folder"
    return f"{path} is a pipe or a device" if Path(path).exists() else f"there is no file {path}"


def read_regular(path: str | os.PathLike[str], most: int = LARGEST_TEXT) -> bytes:
    """Read a file that is opened with ``open_regular``.

    Args:
        path: path of the file.
        most: maximum size in bytes. -1 = any size.

    Raises:
        OSError: if it cannot be read, is not a regular file, or is too large.
    """
    with open_regular(path) as file:
        if most >= 0:
            check_size(path, most)
        check_whole(file, Path(path))
        return file.read(most)


def count_lines(path: str | os.PathLike[str]) -> int:
    """Return the number of lines in a file. The last one may lack its line ending.

    Raises:
        OSError: if the file cannot be read, is not a regular file, or is sparse and far larger than its content.
    """
    lines, last = 0, b""
    with open_regular(path) as file:
        check_whole(file, Path(path))
        while piece := file.read(_PIECE):
            lines += piece.count(b"\n")
            last = piece[-1:]
    return lines + (last not in (b"", b"\n"))


class HashedFile:
    """A file that computes its SHA-256 while it is written, and stores the error if the disk rejects a write."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, piece: bytes | memoryview) -> int:
        """Append ``piece``."""
        try:
            written = self._file.write(piece)
        except OSError as error:
            self.error = error  # stored because torch.save, which calls this, raises another error without the reason
            raise
        self._sha256.update(piece)
        return written

    def flush(self) -> None:
        """Pass the buffer to the operating system."""
        self._file.flush()

    def finish(self) -> str:
        """Wait until the whole file is on the disk (or in the pipe or device), and return its SHA-256."""
        self._file.flush()
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            os.fsync(self._file.fileno())
        return self._sha256.hexdigest()

    def close(self) -> None:
        """Close the file. If its buffer cannot be written, store the ``OSError`` and raise it."""
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or error
            raise


def write_whole(
    path: Path,
    write: Callable[[HashedFile], object],
    announce: Callable[[str], None] | None = None,
    *,
    keep_link: bool = True,
) -> str:
    """Write a file under a temporary name, and rename it when all of it is on the disk.

    If the path is a symbolic link, its target is written, unless ``keep_link`` is false. Other hard links of an older
    file keep its content, so that a copy of a run made with ``cp -l`` never changes. The permissions of an older file
    are kept. Devices, pipes and open files of the process, such as ``/dev/stdout``, are written directly.

    Args:
        path: path of the file. An older file stays unchanged until the new file replaces it.
        write: function that writes the content to the new file. It is called with the new file as argument.
        announce: function that is called with the SHA-256 before the new file replaces an older one.
        keep_link: write the target of a symbolic link. Otherwise the new file replaces the link.

    Returns:
        The SHA-256.

    Raises:
        OSError: if the file cannot be written, even if ``write`` raised another error for this reason.
    """
    path = followed(path) if keep_link else path
    special = is_special(path)
    if special:
        partial, file = path, HashedFile(open_special(path))
    else:
        remove_partial(path.parent)
        partial, descriptor = _create_locked(path.parent)
        file = HashedFile(os.fdopen(descriptor, "wb"))
        # remove_partial must be able to open the file if this process is killed
        keep_permissions(path, descriptor, stat.S_IWUSR)
    try:
        write(file)
        digest = file.finish()
        if announce is not None:
            announce(digest)
        if not special:
            keep_permissions(path, descriptor)
            # renamed while it is locked, because another process may remove a partial file that is not locked
            os.replace(partial, path)
        file.close()
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        if not special:
            partial.unlink(missing_ok=True)
        if file.error is not None:
            raise file.error from None
        raise
    if not special:
        # Synchronise the folder, if the file system can do this, so that the new name survives a power cut.
        with contextlib.suppress(OSError), _opened(path.parent) as descriptor:
            os.fsync(descriptor)
    return digest


def keep_permissions(old: Path, new: int | Path, more: int = 0) -> None:
    """Give a new file or folder the owner and the permissions of the older one that it is about to replace, if any.

    Args:
        new: the descriptor or the path of the new file or folder.
        more: further permissions.
    """
    with contextlib.suppress(OSError):
        status = old.stat()
        with contextlib.suppress(OSError):  # only root may give a file to another user
            os.chown(new, -1 if os.geteuid() else status.st_uid, status.st_gid)
        os.chmod(new, status.st_mode & 0o777 | more)  # noqa: PTH101 - new may be a descriptor


def followed(path: Path) -> Path:
    """Return the target of symbolic links, or the last link if it denotes an open file.

    Raises:
        OSError: if the links form a circle.
    """
    for _ in range(_LINKS):
        if not path.is_symlink() or _is_open_file(path):
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def is_special(path: Path) -> bool:
    """Return True if a path exists and is neither a regular file nor a link to one.

    Raise ``OSError`` if the path is not accessible.
    """
    try:
        return _is_open_file(path) or not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def replaces_file(path: Path) -> bool:
    """Return True if writing to a path would replace a file. Raise ``OSError`` if its links form a circle."""
    return path.exists() and not is_special(followed(path))


def _is_open_file(path: Path) -> bool:
    """Return True if a path such as ``/dev/stdout`` denotes an open file of this process."""
    return path.is_symlink() and os.path.realpath(path.parent) == f"/proc/{os.getpid()}/fd"


def open_special(path: Path) -> BinaryIO:
    """Open a device, a pipe or an open file for writing, without waiting for a reader.

    Raises:
        OSError: if it cannot be written, for example if it is a pipe without a reader.
    """
    if _is_open_file(path):
        if sys.stdout is not None:
            sys.stdout.flush()  # write earlier output first
        descriptor = os.dup(int(path.name))
    else:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False, exclusive: bool = False) -> Iterator[Path]:
    """Yield a new folder to fill. If the block ends without an error, the folder is renamed to ``folder``.

    Args:
        folder: path of the folder. It must not exist, or be an empty folder.
        replace: allow an older folder with files, which is removed when the new folder is complete.
        exclusive: refuse to start while another process writes the same folder with this argument. Otherwise, both
            processes write, and the slower one may fail at the end.

    Raises:
        BlockingIOError: if the folder is ``exclusive``, and another process writes it.
        OSError: if the folder cannot be written, or contains the current directory.
    """
    _check_not_current(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_partial(folder.parent, folder.name)
    partial, descriptor = _lock_exclusively(folder) if exclusive else _create_locked(folder.parent, is_folder=True)
    try:
        new = partial / "new" / folder.name
        new.mkdir(parents=True)
        keep_permissions(folder, new, stat.S_IRWXU)
        yield new
        _put_in_place(new, partial / "old" / folder.name, folder, replace=replace)
    finally:
        # the partial folder is kept if it has the only copy of an older folder that could not get its name back
        if folder.exists() or not (partial / "old" / folder.name).exists():
            shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)


@contextlib.contextmanager
def partial_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in ``parent``, which is removed at the end, or by a later process if this one is killed."""
    remove_partial(parent)
    partial, descriptor = _create_locked(parent, is_folder=True)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)


def _check_not_current(folder: Path) -> None:
    """Raise ``OSError`` if the current directory is ``folder`` or in it, because a shell there would lose its files."""
    if Path(os.path.realpath(_CURRENT)).is_relative_to(os.path.realpath(folder)):
        raise OSError(errno.EBUSY, "it would replace the current directory", str(folder))


def _put_in_place(new: Path, old: Path, folder: Path, *, replace: bool) -> None:
    """Rename ``new`` to ``folder``.

    With ``replace``, an older folder is renamed to ``old`` first, where ``remove_partial`` finds it after a kill.
    """
    try:
        if replace and folder.exists():
            old.parent.mkdir()
            folder.replace(old)
        new.replace(folder)
    finally:
        if old.exists() and not folder.exists():
            old.replace(folder)


def remove_partial(folder: Path, target: str = "") -> int:
    """Remove partial files and folders that killed processes have left, and return their number.

    A process locks the files that it is writing, so the partial files of running processes are kept. Nothing is removed
    if the file system has no locks. If the file system hides the locks of another computer, the partial file of that
    computer is removed, and its process reports that it cannot write the file. Symbolic links are not followed, and
    files of other users are kept.

    A process that is killed while it replaces a folder may leave the only copy of the older folder in its partial
    folder. This copy is kept. The next process that writes the same folder restores its name.

    Args:
        folder: folder to search. It may be missing.
        target: name of the folder that the caller is about to write.
    """
    removed = 0
    for path in folder.glob(_PARTIAL.format("*")):
        if not _IS_PARTIAL.fullmatch(path.name) or path.is_symlink():
            continue
        # NFS can only lock files that are open for writing. Folders cannot be opened for writing.
        flags = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_NONBLOCK
        with contextlib.suppress(OSError), _opened(path, flags | os.O_NOFOLLOW) as descriptor:
            if os.fstat(descriptor).st_uid != os.geteuid():
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.is_dir():
                path.unlink()
            elif _put_back(path, target):
                shutil.rmtree(path)
            else:
                continue
            removed += 1
    return removed


def _put_back(partial: Path, target: str) -> bool:
    """Restore the folder ``target`` from ``partial``.

    Return False if ``partial`` still contains the only copy of another folder.
    """
    old = partial / "old"
    lost = [] if old.is_symlink() else [path for path in old.glob("*") if not (partial.parent / path.name).exists()]
    if lost == [old / target] and lost[0].is_dir() and not lost[0].is_symlink():
        lost.pop().replace(partial.parent / target)
    return not lost


def _create_locked(folder: Path, is_folder: bool = False) -> tuple[Path, int]:
    """Create a partial file or folder, and lock it if the file system supports locks.

    The caller must close the descriptor.
    """
    while True:
        path = folder / _PARTIAL.format(secrets.token_hex(8))
        if is_folder:
            path.mkdir()
        flags = os.O_RDONLY if is_folder else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(path, flags, 0o666)
        except FileNotFoundError:
            if is_folder:  # another process assumed that the folder was abandoned and removed it
                continue
            raise
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return path, descriptor
        # another process assumed that the folder was abandoned and removed it before it was locked
        os.close(descriptor)


def _lock_exclusively(folder: Path) -> tuple[Path, int]:
    """Create and lock the partial folder of an exclusive folder. Its name depends only on the name of the folder.

    The caller must close the descriptor. Raise ``BlockingIOError`` if another process has locked the partial folder.
    """
    path = folder.parent / _PARTIAL.format(hashlib.sha256(os.fsencode(folder.name)).hexdigest()[:16])
    path.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino != path.stat().st_ino:
            raise BlockingIOError  # another process has completed the folder in the meantime
    except OSError:
        os.close(descriptor)
        raise
    return path, descriptor


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, completely or not at all. Bytes of file names that are not valid UTF-8 are escaped."""
    write_whole(path, lambda file: file.write(text.encode(errors="backslashreplace")))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. Wait until they have released it.

    On a file system without locks, there is no protection.
    """
    with _opened(folder) as descriptor:  # closing the descriptor ends the lock
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_utf8(name: str | Path) -> bool:
    """Return True if a name or path is valid UTF-8. safetensors and torch's memory maps accept no others."""
    return not any("\ud800" <= sign <= "\udfff" for sign in str(name))


def is_beside(path: Path, data: Path) -> bool:
    """Return True if a path is in the parent folder of ``data``, after links are resolved."""
    return Path(os.path.realpath(path)).is_relative_to(Path(os.path.realpath(data)).parent)


def copy_into(source: Path, file: HashedFile) -> None:
    """Append all of ``source`` to ``file``."""
    with open_regular(source) as pieces:
        while piece := pieces.read(_PIECE):
            file.write(piece)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raise ``OSError`` if it cannot be read, or is sparse and far larger than its content on the disk.
    """
    with open_regular(path) as file:
        check_whole(file, path)
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_whole(file: BinaryIO, path: Path) -> None:
    """Raise ``OSError`` if a file is much larger than its content on the disk. Such a file would take hours to read."""
    if is_hollow(file):
        raise OSError(errno.EFBIG, "it is a sparse file, of which less than a tenth is on the disk", str(path))


def is_hollow(file: BinaryIO) -> bool:
    """Return True if a file is larger than 1 GiB and nine tenths of it are holes, which would take hours to read."""
    size, place, data = file.seek(0, os.SEEK_END), 0, 0
    with contextlib.suppress(OSError):  # the search for more data fails at the end
        while size > _LARGE and data <= size // 10:
            start = file.seek(place, os.SEEK_DATA)
            place = file.seek(start, os.SEEK_HOLE)
            data += place - start
    file.seek(0)
    return size > _LARGE and data <= size // 10
