"""An output file that grows while it is made, and goes on where it was when it is begun again.

The lines go to ``FILE.part``; beside it ``FILE.part.json`` says how many lines of the input they are for, how long the
file was then, and what was asked for. The file has its name when it is complete.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from ..errors import UserError
from ..storage.files import followed, is_special, open_special, write_text


class GrowingFile:
    """The outputs of a file of sentences.

    Args:
        given: name of the file; ``-`` = standard output. A pipe or a device is written as it is.
        asked: what decides about the content but for the input, as JSON.
        overwrite: replace an older file, and begin anew.

    Attributes:
        path: of the file; ``None`` = it is none.
        done: lines of the input whose outputs are there already.

    Raises:
        UserError: if the file exists, or was begun with something else.
    """

    def __init__(self, given: str, asked: dict[str, Any], *, overwrite: bool = False) -> None:
        self.path: Path | None = None
        self._part = self._state_file = Path()  # beside ``path``
        self._given = given
        self._asked = asked
        self._overwrite = overwrite
        self._input = hashlib.sha256()
        self._expected = ""  # of the lines that are done
        self._file: BinaryIO | None = None
        self.done = 0

    def __enter__(self) -> Self:
        try:
            if self._given == "-":
                self._file = sys.stdout.buffer
            elif is_special(place := followed(Path(self._given))):
                self._file = open_special(place)
            else:
                self.path = place.resolve()
                self._resume(self.path)
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def _resume(self, path: Path) -> None:
        if path.exists() and not self._overwrite:
            raise UserError(f"{path} exists already: choose another --output, or pass --overwrite to replace it.")
        self._part = path.with_name(f"{path.name}.part")
        self._state_file = path.with_name(f"{path.name}.part.json")
        file = self._part.open("ab")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise UserError(f"{path} is being written by another run: wait for it to end.") from error
        self._file = file
        if self._overwrite or (not self._state_file.exists() and not os.fstat(file.fileno()).st_size):
            file.truncate(0)
            self._write_state(0)
        try:
            state = json.loads(self._state_file.read_text(encoding="utf-8"))
            asked, size = state["asked"], int(state["bytes"])
            self.done, self._expected = int(state["lines"]), str(state["input"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise self._mismatch("something else") from error
        if asked != self._asked or size > os.fstat(file.fileno()).st_size:
            raise self._mismatch("another model or other options")
        file.truncate(size)

    @property
    def prospect(self) -> str:
        """The use of what is done if the work stops now, to be added to a sentence."""
        if self.path is None or not self.done:
            return ""
        if self._overwrite:
            return "; the same command begins anew"
        return f"; the outputs of {self.done:,} lines are kept, and the same command goes on from there"

    def remaining(self, buffers: Iterable[list[str]]) -> Iterator[list[str]]:
        """The lines of the input, in buffers, whose outputs are not there yet.

        Raises:
            UserError: if the others are not those that the outputs are of.
        """
        passed, done = 0, self.done
        for lines in buffers:
            known = lines[: done - passed]
            self._hash_lines(known)
            passed += len(known)
            if known and passed == done and self._input.hexdigest() != self._expected:
                raise self._mismatch("another input")
            if len(known) < len(lines):
                yield lines[len(known) :]
        if passed < done:
            raise self._mismatch("another input")

    def write(self, lines: Sequence[str], outputs: Sequence[str]) -> None:
        """Add the outputs of the next lines of the input, and let them be on the disk.

        Raises:
            UserError: if they cannot be written.
        """
        assert self._file is not None
        self._hash_lines(lines)
        try:
            self._file.write("".join(f"{line}\n" for line in outputs).encode("utf-8", "surrogatepass"))
            self._file.flush()
            self.done += len(lines)
            if self.path is not None:
                os.fsync(self._file.fileno())
                self._write_state(os.fstat(self._file.fileno()).st_size)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the file its name, if all went well."""
        if self._file is None or self._given == "-":
            return
        if error is None and self.path is not None:
            os.replace(self._part, self.path)
            self._state_file.unlink(missing_ok=True)
        elif self.path is not None and not self.done:
            for path in (self._part, self._state_file):
                path.unlink(missing_ok=True)
        with nullcontext() if error is None else suppress(OSError):  # what could not be written is tried once more
            self._file.close()

    def _write_state(self, size: int) -> None:
        state = {"asked": self._asked, "lines": self.done, "bytes": size, "input": self._input.hexdigest()}
        write_text(self._state_file, json.dumps(state))

    def _hash_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._input.update(line.encode("utf-8", "surrogatepass") + b"\n")

    def _mismatch(self, what: str) -> UserError:
        return UserError(
            f"{self._part} was begun with {what}: choose another --output, or pass --overwrite to begin anew."
        )

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(f"{self._given} cannot be written ({error.strerror or error}){self.prospect}.")
