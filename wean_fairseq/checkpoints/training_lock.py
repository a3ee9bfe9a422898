"""Allow only one training per folder.

Two trainings would overwrite each other's checkpoints and exit without an error.
"""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

from ..errors import UserError

LOCK_FILE = ".training.lock"
_WAIT = 5.0  # maximum time in seconds to wait for a killed training to free its memory
# locked folder -> file descriptor in this process Closing the descriptor would release the lock
_held: dict[Path, int] = {}


def acquire(folder: Path) -> None:
    """Lock ``folder`` for this training until its process ends. The folder is created if necessary.

    The lock belongs to the process (``lockf``). A lock of ``flock`` would be inherited by data workers, which may
    survive a killed training and keep the lock. If the file system does not support locks, the folder is not locked.

    Raises:
        OSError: if no file can be written to the folder.
        UserError: if another training has locked the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / LOCK_FILE
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
    # on a full disk, the owner's name cannot be written into the lock file, which is no error
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # the file system has no locks
        return True
    return True
