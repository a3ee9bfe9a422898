"""One training in a folder at a time: two would write over each other's checkpoints, and both would end well."""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

from ..errors import UserError

NAME = ".training.lock"
_WAIT = 5.0  # seconds: a training that was killed may need some to give its memory back
_held: dict[Path, int] = {}  # descriptors of this process; closing one would end its lock


def acquire(folder: Path) -> None:
    """Be the training in ``folder`` until this process ends, however it ends; the folder is made.

    The lock is the process's own (``lockf``): with ``flock`` the data workers of a training that was killed would have
    it still. Where the file system has no locks, nothing is held.

    Raises:
        OSError: if the folder cannot be written.
        UserError: if another training is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / NAME
    if path in _held:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    _held[path] = descriptor
    end = time.monotonic() + _WAIT
    while not _locks(descriptor):
        if time.monotonic() > end:
            other = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "of an unknown number"
            os.close(_held.pop(path))
            raise UserError(
                f"another training (process {other}) is writing into --save-dir {folder}: wait until it has ended, or "
                "stop it, or choose another --save-dir."
            )
        time.sleep(0.1)
    with contextlib.suppress(OSError):  # a full disk: nobody will know who it is
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # no locks here
        return True
    return True
