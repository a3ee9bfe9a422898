"""fairseq's commands in processes that are forked off one which has imported PyTorch and fairseq, but not the plugin.

Most of the time of a small command goes into these imports. Each still has a process, a folder, an environment and
streams of its own, and imports the plugin itself. Scripts find them too: ``programs`` is a folder for PATH.
"""

import atexit
import functools
import importlib
import json
import logging
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing import reduction
from pathlib import Path
from typing import Any
from unittest import mock

# Command -> module of its ``cli_main``.
COMMANDS = {
    f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("train", "generate", "preprocess", "interactive", "validate")
}
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["fairseq.criterions", "fairseq.models", "fairseq.optim", "fairseq.tasks", "fairseq.trainer", "sacrebleu"]
)
_STREAMS = ("stdin", "stdout", "stderr")
_STARTING = threading.Lock()  # the environment is patched meanwhile
# A program of ``programs``: it hands its streams, words, folder and environment on, and ends as the command does.
_PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"f"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(server.recv(1)[0])
"""


class _Inherited:
    """A descriptor that a new process gets."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _detach, (reduction.DupFd(self._descriptor),)


def _detach(duplicate: Any) -> int:
    return duplicate.detach()


def _start(
    line: Sequence[str],
    streams: Sequence[int],
    cwd: str | Path,
    environment: Mapping[str, str],
    prepare: Callable[[], object] = dict,
) -> Any:
    """Start a command of ``COMMANDS``; returns its process."""
    inherited = [_Inherited(stream) for stream in streams]
    process = _FORKS.Process(target=_execute, args=(list(line), inherited, cwd, dict(environment), prepare))
    with _STARTING, mock.patch.dict(os.environ, environment, clear=True):  # what the imports read
        process.start()
    return process


def run(
    line: Sequence[str],
    stdin: str,
    cwd: Path | None,
    environment: Mapping[str, str],
    timeout: float,
    prepare: Callable[[], object] = dict,
) -> tuple[int, str, str]:
    """Run a command of ``COMMANDS`` to its end: its exit status, and what it said on its two streams.

    Args:
        line: the command and its arguments.
        stdin: what is piped in.
        cwd: where it runs.
        environment: of the process.
        timeout: in seconds.
        prepare: is called in the process first, to set limits or watch; it can be pickled.

    Raises:
        TimeoutError: if it takes longer than ``timeout`` seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stdin").write_text(stdin, encoding="utf-8")
        with ExitStack() as stack:
            files = [stack.enter_context((folder / s).open("rb" if s == "stdin" else "ab")) for s in _STREAMS]
            process = _start(line, [file.fileno() for file in files], cwd or Path.cwd(), environment, prepare)
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{' '.join(line)} took longer than {timeout} seconds")
        said = [(folder / stream).read_text(encoding="utf-8", errors="replace") for stream in ("stdout", "stderr")]
        return int(process.exitcode or 0), *said


@functools.cache
def programs() -> Path:
    """A folder of programs with the names of ``COMMANDS``, for scripts; it is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder)
    address = str(folder / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    threading.Thread(target=_answer_all, args=(listener,), daemon=True).start()
    for name in COMMANDS:
        (folder / name).write_text(_PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def _answer_all(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """Run the command of a program, and tell it the exit status, as a shell numbers it."""
    with connection:
        _, streams, *_ = socket.recv_fds(connection, 1, len(_STREAMS))
        with connection.makefile("rb") as file:
            line, cwd, environment = json.load(file)
        process = _start(line, streams, cwd, environment)
        for stream in streams:
            os.close(stream)
        process.join()
        code = int(process.exitcode or 0)
        connection.sendall(bytes([code if code >= 0 else 128 - code]))


def _execute(
    line: list[str], streams: list[int], cwd: str | Path, environment: dict[str, str], prepare: Callable[[], object]
) -> None:
    """In the new process: be the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Those before remember whether they could be sought in. They stay open as long as the process lives.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = line
    multiprocessing.set_start_method("fork", force=True)  # of workers that load data, as in a process of its own
    # Some commands set their log up before they import fairseq, others leave it as that does.
    root = logging.getLogger()
    of_fairseq = root.handlers[:]
    root.handlers.clear()
    try:
        prepare()
        command = importlib.import_module(COMMANDS[Path(line[0]).name])
        if not root.handlers:
            root.handlers[:] = of_fairseq
            for handler in of_fairseq:
                handler.setStream(sys.stderr)
        sys.exit(command.cli_main())
    except Exception:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
