"""``checksums.sha256``: the SHA-256 of the files in a folder, in the format of ``sha256sum`` and with its escapes.

A name may occur twice. After a line is written and before its file is replaced, both the old and the new content are
valid. Therefore a process can be killed at any moment. Several processes may write into the same folder, for example
trainings that start on the same data, ``wean-average`` during a training, or the processes of a sharded model.
Therefore each change is applied, under a lock, to the current content of the file.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ..errors import UserError
from .files import HashedFile, locked, read_regular, sha256_of, write_whole

NAME = "checksums.sha256"
_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
# Escapes in file names, in the notation of sha256sum. A line with escapes begins with a backslash.
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_SPELT = {escape: character for character, escape in _ESCAPED.items()}
logger = logging.getLogger(__name__)
_checked: dict[Path, tuple[int, int, int]] = {}  # intact files -> values that change whenever the file changes


class Damaged(UserError):
    """Error for a file that has changed since it was written."""


class Manifest:
    """The checksums of the files in a folder. There are none if the folder has no manifest.

    Raise ``UserError`` if the manifest is broken.

    Attributes:
        digests: file name -> checksums of the contents that the file may have.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.digests = self._read()

    def _read(self) -> dict[str, list[str]]:
        digests: dict[str, list[str]] = {}
        try:
            content = read_regular(self.path).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return digests
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be read ({error}): delete it to continue without checksums."
            ) from error
        if not content:
            raise UserError(f"{self.path} is empty: restore it, or delete it to continue without checksums.")
        for number, line in enumerate(content.removesuffix("\n").split("\n"), start=1):
            match = _LINE.fullmatch(line.removesuffix("\r"))
            if match is None:
                raise UserError(
                    f"line {number} of {self.path} is not a checksum and a file name: delete the file to continue "
                    "without checksums."
                )
            name = re.sub(r"\\[\\nr]", lambda escape: _SPELT[escape[0]], match[3]) if match[1] else match[3]
            if name != NAME:  # the manifest itself changes with every new line
                digests.setdefault(name, []).append(match[2].lower())
        return digests

    def expect(self, name: str, digest: str) -> None:
        """Record that the file ``name`` is about to get the content with this hash.

        Until then, the previous content is also valid.
        """
        with self._update():
            self.digests.setdefault(name, []).append(digest)

    def confirm(self, contents: dict[str, str]) -> None:
        """Record the content of files that are in place, by name. Deleted files are removed from the manifest."""
        with self._update():
            for name, digest in contents.items():
                self.digests[name] = [digest]
            self.digests = {name: found for name, found in self.digests.items() if (self.path.parent / name).exists()}

    def forget(self, name: str) -> None:
        """Remove the file ``name`` from the manifest."""
        if name in self.digests:
            with self._update():
                self.digests.pop(name, None)

    @contextlib.contextmanager
    def _update(self) -> Iterator[None]:
        """Before a change, read the changes of other processes. After the change, write the manifest."""
        with locked(self.path.parent):
            self.digests = self._read()
            yield
            text = "".join(_line(digest, name) for name, found in sorted(self.digests.items()) for digest in found)
            if text:
                content = text.encode("utf-8", "surrogateescape")
                write_whole(self.path, lambda file: file.write(content), keep_link=False)
            else:
                self.path.unlink(missing_ok=True)


def write_recorded(path: Path, write: Callable[[HashedFile], object], *, keep_link: bool = False) -> None:
    """Write a file and its checksum. A process can be killed at any moment, see above.

    Args:
        keep_link: write the target of a symbolic link. Otherwise the link is replaced, because it may lead to a file of
            another folder, which has its own checksums.

    Raises:
        OSError: if one of them cannot be written.
    """
    expect = partial(Manifest(path.parent).expect, path.name)
    digest = write_whole(path, write, expect, keep_link=keep_link)
    Manifest(path.parent).confirm({path.name: digest})


def _line(digest: str, name: str) -> str:
    escaped = "".join(_ESCAPED.get(character, character) for character in name)
    return f"{'' if escaped == name else chr(92)}{digest}  {escaped}\n"


def check_file(
    path: Path,
    advice: str,
    copies: bool = False,
    manifest: Manifest | None = None,
    alike: Callable[[str], object] = bool,
) -> bool:
    """Return True if a file matches its checksum in the manifest, and False if the manifest lists no files like it.

    Args:
        advice: what to do if the file has changed, for the message.
        copies: also accept the content of another file in the folder.
        manifest: manifest of the folder, for callers that check many files (default: it is read).
        alike: returns a true value for the names of files of the same kind (default: for all names). A folder may
            contain data and checkpoints, of which only one kind is listed.

    Raises:
        Damaged: if the file has changed, or if the manifest lists files like it, but not this file.
        UserError: if the manifest cannot be read.
        OSError: if the file cannot be read.
    """
    manifest = manifest or Manifest(path.parent)
    is_listed = path.name in manifest.digests
    if not is_listed and not (alike(path.name) and any(map(alike, manifest.digests))):
        return False
    if not (is_listed and seen_intact(path)):
        own, digest = manifest.digests.get(path.name, []), sha256_of(path)
        others = [name for name, digests in manifest.digests.items() if copies and digest in digests]
        if is_listed and others and digest not in own:
            logger.warning(f"{path} has the content of {others[0]}: if that is intended, run wean-checksum on it")
        if digest not in own and not others:
            reason = "has changed since its checksum was written to" if is_listed else "is not in"
            raise Damaged(f"{path} {reason} {manifest.path}: {advice}.")
        remember_intact(path)
    return True


def seen_intact(path: Path) -> bool:
    """Return True if this process has already found the file intact and the file has not changed since then."""
    return _checked.get(path.absolute()) == _state(path)


def remember_intact(path: Path) -> None:
    """Remember that a file is intact, so that this process does not check it again."""
    _checked[path.absolute()] = _state(path)


def _state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns
