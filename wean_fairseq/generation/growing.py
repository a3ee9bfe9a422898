"""An output file that is written line by line and resumed when the command is started again.

The lines are first written to ``FILE.part``. ``FILE.part.json`` records the options, the number of lines, and the size
and SHA-256 of input and output. When the output is complete, ``FILE.part`` is renamed to ``FILE``.
"""

import errno
import fcntl
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Self

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from ..console import counted, printable_cells, standard_output
from ..errors import UserError
from ..storage.files import check_whole, followed, is_special, keep_permissions, open_growing, open_special, write_text
from ..storage.json_files import read_json

_LARGEST_STATE = 1 << 20  # maximum size of the state file in bytes
_PIECE = 1 << 20


class _State(Struct, forbid_unknown_fields=True):
    """Content of the state file: options, number of lines, size of outputs, and SHA-256 of input and outputs.

    ``loaded`` has the values of `GrowingFile.record_loaded`. Files of older versions have ``draws`` instead.
    """

    asked: dict[str, Any]
    lines: Annotated[int, Meta(ge=0)]
    bytes: Annotated[int, Meta(ge=0)]
    input: str
    output: str
    loaded: dict[str, Any] = {}
    draws: dict[str, Any] = {}


class GrowingFile:
    """The output file of a command that reads a file of sentences.

    Args:
        given: name of the file. ``-`` = standard output. If standard output is a pipe or a device, lines are written to
            it directly.
        asked: all options that affect the content, in JSON types.
        overwrite: replace an older file, and do not resume.
        reads: input files, which must not be written.

    Attributes:
        path: path of the file. ``None`` if the output is not a regular file.
        done: number of input lines whose outputs are already in the file.

    Raises:
        UserError: if the file exists, or was started with another input or with other options.
    """

    def __init__(
        self, given: str, asked: dict[str, Any], *, overwrite: bool = False, reads: Sequence[Path] = ()
    ) -> None:
        self.path: Path | None = None
        self._part = self._state_file = Path()  # both files are next to ``path``
        self._new = True  # `self._part` did not exist before
        self._written: list[Path | int] = []  # the files that are written: paths, or the descriptor of an open file
        self._given = given
        self._asked = asked
        self._loaded: dict[str, Any] = {}
        self._overwrite = overwrite
        self._reads = reads
        self._input, self._output = hashlib.sha256(), hashlib.sha256()
        self._expected = ""  # SHA-256 that the state file records for the finished input lines
        self._file: BinaryIO | None = None
        self.done = 0

    def __enter__(self) -> Self:
        try:
            if self._given == "-":
                self._file = standard_output().buffer
                with suppress(io.UnsupportedOperation):  # standard output may be a stream in memory
                    self._written = [self._file.fileno()]
            elif is_special(place := followed(Path(self._given))):
                self._file = open_special(place)
                self._written = [self._file.fileno()]
            else:
                self.path = place.resolve()
                self._part = self.path.with_name(f"{self.path.name}.part")
                self._state_file = self.path.with_name(f"{self.path.name}.part.json")
                self._written = [self.path, self._part, self._state_file]
            self.check_reads(self._reads)
            if self.path is not None:
                self._new = not os.path.lexists(self._part)
                self._resume(self.path)
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def check_reads(self, reads: Iterable[Path]) -> None:
        """Raise ``UserError`` if one of these input files is also written."""
        for read in reads:
            if any(_is_same(written, read) for written in self._written):
                name = "the standard input" if str(read) == "-" else read
                raise UserError(f"{name} is read by this run, which would write it: choose another --output.")

    def _resume(self, path: Path) -> None:
        if path.exists() and not self._overwrite:
            raise UserError(f"{path} exists already: choose another --output, or pass --overwrite to replace it.")
        file = open_growing(self._part)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), self._part.stat()):
                raise BlockingIOError  # another run has just renamed the file to its final name
        except OSError as error:
            file.close()
            raise UserError(f"{path} is being written by another run: wait for it to end.") from error
        self._file = file
        size = os.fstat(file.fileno()).st_size
        try:
            self._adopt(file, size)
        except BaseException:
            if self._new:
                self._part.unlink()
            file.close()
            raise

    def _adopt(self, file: BinaryIO, size: int) -> None:
        """Resume the file from its recorded state, or start again. Raise ``UserError`` if that would lose data."""
        if size == 0 and not os.path.lexists(self._state_file):
            self._write_state(0, 0)
            return
        state = self._read_state()
        # without a file of outputs, the state is a leftover of a run that was killed after it had renamed the file
        if self._overwrite or self._new or state.lines == 0:
            file.truncate(0)
            self._write_state(0, 0)
            return
        if state.asked != self._asked:
            raise self._mismatch("another model or other options")
        self._loaded = state.loaded
        lines = self._hash_outputs(file, state.bytes)
        if size < state.bytes or lines != state.lines or self._output.hexdigest() != state.output:
            raise self._mismatch("other outputs than it has now; it was changed or damaged")
        file.truncate(state.bytes)
        self.done, self._expected = state.lines, state.input

    def record_loaded(self, loaded: dict[str, Any]) -> None:
        """Record values on which the outputs depend, and which the loaded model determines.

        Args:
            loaded: name -> value in JSON types.

        Raises:
            UserError: if the existing outputs were made with other values.
        """
        if self.done and not self._loaded:
            raise self._mismatch("an older version of wean-generate")
        names = [name for name in {**self._loaded, **loaded} if loaded.get(name) != self._loaded.get(name)]
        if self.done and names:
            raise self._mismatch(f"other values of {' and '.join(names)}")
        self._loaded = loaded

    def _read_state(self) -> _State:
        """Read the state file.

        Raise ``UserError`` if the file has other content, because it may belong to the user and must not be
        overwritten.
        """
        try:
            return convert(read_json(self._state_file, _LARGEST_STATE), _State)
        except (OSError, ValueError, ValidationError) as error:
            raise UserError(
                f"{self._part} and {self._state_file.name} are not an unfinished output of wean-generate: move them "
                "away, or choose another --output."
            ) from error

    def _hash_outputs(self, file: BinaryIO, size: int) -> int:
        """Hash the first ``size`` bytes of the outputs, and return their number of lines."""
        lines, left = 0, size
        check_whole(file, self._part)
        while left and (piece := file.read(min(left, _PIECE))):
            self._output.update(piece)
            lines += piece.count(b"\n")
            left -= len(piece)
        return lines

    @property
    def prospect(self) -> str:
        """Last part of the message after an interruption, which says how to resume."""
        if self.path is None or not self.done:
            return ""
        if self._overwrite:
            return "; the same command starts again"
        return f"; the outputs of {counted(self.done, 'line')} are kept, and the same command continues from there"

    def remaining(self, buffers: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the input lines that have no outputs yet, in buffers.

        Raises:
            UserError: if the finished input lines are not the lines for which the existing outputs were written.
        """
        passed, done = 0, self.done
        for lines in buffers:
            done_lines = lines[: done - passed]
            self._hash_lines(done_lines)
            passed += len(done_lines)
            if done_lines and passed == done and self._input.hexdigest() != self._expected:
                raise self._mismatch("another input")
            if len(done_lines) < len(lines):
                yield lines[len(done_lines) :]
        if passed < done:
            raise self._mismatch("another input")

    def write(self, lines: Sequence[str], outputs: Sequence[str]) -> None:
        """Append the outputs of the next input lines, and flush them to the disk.

        Raises:
            UserError: if they cannot be written.
        """
        assert self._file is not None
        self._hash_lines(lines)
        # on a terminal, control characters are escaped, because a word of an untrusted model may contain terminal
        # commands
        if self._file.isatty():
            outputs = [printable_cells(line) for line in outputs]
        try:
            content = "".join(f"{line}\n" for line in outputs).encode("utf-8", "surrogatepass")
            self._file.write(content)
            self._output.update(content)
            self._file.flush()
            if self.path is not None:
                os.fsync(self._file.fileno())
                self._write_state(self.done + len(lines), os.fstat(self._file.fileno()).st_size)
            self.done += len(lines)  # updated last, because only lines that the state file records are kept
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After success, rename the file to its final name."""
        if self._file is None or self._given == "-":
            return
        if error is None and self.path is not None:
            if self.path.exists() and not self._overwrite:
                self._file.close()
                raise UserError(
                    f"{self.path} was made by another program during this run. The outputs are in {self._part}: move "
                    "one of the files away."
                )
            keep_permissions(self.path, self._file.fileno())
            os.replace(self._part, self.path)
            self._state_file.unlink(missing_ok=True)
        elif self.path is not None and not self.done:
            for path in (self._part, self._state_file)[not self._new :]:
                path.unlink(missing_ok=True)
        # Closing the file writes the rest of the buffer again, which may fail again.
        with nullcontext() if error is None else suppress(OSError):
            self._file.close()

    def _write_state(self, lines: int, size: int) -> None:
        state = _State(self._asked, lines, size, self._input.hexdigest(), self._output.hexdigest(), self._loaded)
        write_text(self._state_file, json.dumps(to_builtins(state)))

    def _hash_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._input.update(line.encode("utf-8", "surrogatepass") + b"\n")

    def _mismatch(self, what: str) -> UserError:
        return UserError(
            f"{self._part} was begun with {what}: choose another --output, or pass --overwrite to start again."
        )

    def _unwritable(self, error: OSError) -> UserError:
        name = "standard output" if self._given == "-" else error.filename or self._given
        advice = "choose another --output" if error.errno == errno.ENOENT else "make room, or choose another --output"
        return UserError(f"{name} cannot be written ({error.strerror or error}): {advice}{self.prospect}.")


def _is_same(written: Path | int, read: Path) -> bool:
    """Return True if a path or descriptor refers to the same regular file as ``read``. ``-`` = standard input."""
    with suppress(OSError):
        place = os.fstat(written) if isinstance(written, int) else written.stat()
        return stat.S_ISREG(place.st_mode) and os.path.samestat(place, os.fstat(0) if str(read) == "-" else read.stat())
    return False
