"""Run commands of fairseq, the plugin and the tests in forks.

The forked process has already imported PyTorch and fairseq.

These imports take most of the time of a small command. Each command still has its own process, folder, environment,
module path and streams. Commands that use the plugin of this checkout are forked from a process that has already
registered it. A command that uses another ``--user-dir`` or ``prepare``, or that belongs to tests, imports the plugin
itself. Scripts can also use the commands, because ``programs`` is a folder for PATH. If SIGTERM, SIGINT or SIGKILL ends
one of its programs, the command of the program is also ended.

The umask, limits, process group, ignored signals and descriptors above 2 of the caller are not passed on. The same is
true of variables that the imported modules read once, such as OMP_NUM_THREADS. Therefore tests of other signals,
process groups, locks and locales use the programs in ``commands.BIN``, and ``prepare`` sets limits. Functions that are
registered with ``atexit`` are not called, Hydra has the shortcuts of ``preload/quick_hydra.py``, and the plugin is
registered immediately because fairseq is already imported.
"""

import atexit
import functools
import gc
import json
import logging
import multiprocessing
import os
import pkgutil
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from multiprocessing import forkserver, reduction
from multiprocessing.connection import arbitrary_address, wait
from pathlib import Path
from typing import Any
from unittest import mock

# Variables that a launcher or the user's shell may have set, and that would affect the tests.
_FOREIGN = ("WEAN_TRACEBACK", "WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_NODELIST")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in _FOREIGN} | {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",  # hide GPUs, so that the tests behave the same on every machine
    "PYTHONIOENCODING": "utf-8",
}
# Command -> its function, in the notation of entry points. The last commands belong to tests.
COMMANDS = {
    f"fairseq-{name}": f"fairseq_cli.{name}:cli_main"
    for name in ("train", "generate", "preprocess", "interactive", "validate")
}
COMMANDS |= {f"wean-{name}": f"wean_fairseq.reporting.{name}_cli:main" for name in ("plot", "report")}
COMMANDS |= {f"wean-{name}": f"wean_fairseq.checkpoints.cli:main_{name}" for name in ("average", "export")}
COMMANDS |= {
    "fairseq-hydra-train": "fairseq_cli.hydra_train:cli_main",
    "wean-generate": "wean_fairseq.generation.cli:main",
    "wean-evaluate": "wean_fairseq.evaluation.cli:main",
    "audited": "tests.fuzz.audited:cli_main",
    "observed-train": "tests.integration.observed_train:cli_main",
    "train-in-turn": "tests.integration.train_in_turn:cli_main",
}
_ROOT = Path(__file__).resolve().parents[2]
_PLUGIN = str(_ROOT / "wean_fairseq")
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["preloaded"])
_STREAMS = ("stdin", "stdout", "stderr")
_STARTING = threading.Lock()  # one process at a time, because a start changes the table of all children
_SHORT = "/tmp"  # folder for sockets. An address has at most about 100 characters, and TMPDIR may be longer
# Text of a program in the folder ``programs``. The path of the program may contain any characters.
_PROGRAM = """#!/bin/sh
exec {python} -IS {client} "$0" "$@"
"""
# The client passes its streams, arguments, folder and environment to the server. Then it forwards signals, and exits
# like the command.
_CLIENT = """import json, os, signal, socket, struct, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    sent = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [struct.pack("q", len(sent))], [0, 1, 2])
    server.sendall(sent)
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: server.send(bytes([number])))
    (code,) = struct.unpack("q", server.recv(8))
if code < 0:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class _Inherited:
    """A descriptor that is passed to a new process."""

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
    """Start a command of ``COMMANDS``. Return its process."""
    function = COMMANDS[Path(line[0]).name]
    inherited = [_Inherited(stream) for stream in streams]
    arguments = (function, list(line), inherited, cwd, dict(environment), _module_path(), prepare)
    has_plugin = prepare is dict and (_PLUGIN in line or function.startswith("wean_fairseq."))
    with _STARTING:
        _serve()
        with mock.patch.object(forkserver, "connect_to_new_process", _serve_plugin()) if has_plugin else nullcontext():
            return _fork(_execute, *arguments)


def _fork(function: Callable[..., None], *arguments: object) -> Any:
    process = _FORKS.Process(target=function, args=arguments)
    process.start()
    # Every start polls all children in the table. A status can be read only once, and the waiting thread needs it.
    multiprocessing.process._children.discard(process)
    return process


@functools.cache
def _serve_plugin() -> Callable[..., Any]:
    """Start a server in a fork of the first server. It ends together with this process.

    Return the function that calls the server.
    """
    server: Any = forkserver.ForkServer()
    server._forkserver_address = arbitrary_address("AF_UNIX")
    alive, server._forkserver_alive_fd = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(server._forkserver_address)
        listener.listen()
        _fork(_register_and_serve, _Inherited(listener.fileno()), _Inherited(alive))
    os.close(alive)
    server.ensure_running = lambda: None  # only the first server is a child of this process
    return server.connect_to_new_process


def _register_and_serve(listener: int, alive: int) -> None:
    sys.modules["preloaded"].register(_PLUGIN)
    forkserver.main(listener, alive, [])


@functools.cache
def _serve() -> None:
    """Start the process from which commands are forked. Its environment must not depend on the first command."""
    folder = str(Path(__file__).parents[1] / "preload")
    before = [ENVIRONMENT["PYTHONPATH"]] if "PYTHONPATH" in ENVIRONMENT else []
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([folder, *before])}
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "path", [folder, *sys.path]),  # Python passes sys.path to the server since 3.12.8
        mock.patch.object(tempfile, "tempdir", _SHORT),
    ):
        forkserver.ensure_running()


@functools.cache
def _module_path() -> list[str]:
    """Return the module path of a new interpreter, without the folders that pytest added."""
    plain = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    script = "import json, sys; print(json.dumps([folder for folder in sys.path if folder]))"
    return json.loads(
        subprocess.run([sys.executable, "-c", script], env=plain, stdout=subprocess.PIPE, check=True).stdout
    )


def run(
    line: Sequence[str],
    stdin: str,
    cwd: Path | None,
    environment: Mapping[str, str],
    timeout: float,
    prepare: Callable[[], object] = dict,
) -> tuple[int, str, str]:
    """Run a command of ``COMMANDS`` to its end. Return its exit status, its standard output and its standard error.

    Args:
        line: the command and its arguments.
        stdin: text for standard input.
        cwd: working directory.
        environment: environment of the process.
        timeout: time limit in seconds.
        prepare: function that the process calls first, to set limits or to observe. It must be picklable.

    Raises:
        TimeoutError: if the command takes longer than ``timeout`` seconds.
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
    """Return a folder of programs with the names of ``COMMANDS``, for scripts.

    The folder exists until this process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="warm-", dir=_SHORT))
    atexit.register(shutil.rmtree, folder)
    address = str(folder / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    threading.Thread(target=_answer_all, args=(listener,), daemon=True).start()
    client = folder / "client.py"
    client.write_text(_CLIENT.format(address=address), encoding="utf-8")
    program = _PROGRAM.format(python=shlex.quote(sys.executable), client=shlex.quote(str(client)))
    for name in COMMANDS:
        (folder / name).write_text(program, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def _answer_all(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """Run the command for a program while the program lives, and send the exit status to the program."""
    with connection, suppress(ConnectionError):  # the program has ended
        size, streams, *_ = socket.recv_fds(connection, 8, len(_STREAMS))
        try:
            sent = connection.recv(int.from_bytes(size, sys.byteorder), socket.MSG_WAITALL)
            line, cwd, environment = json.loads(sent)
            process = _start(line, streams, cwd, environment)
        except json.JSONDecodeError:  # the program was ended in the meantime
            return
        finally:
            for stream in streams:
                os.close(stream)
        while process.sentinel not in wait([process.sentinel, connection]):
            number = connection.recv(1)
            if not number:
                process.kill()
                break
            os.kill(process.pid, number[0])
        process.join()
        connection.sendall(struct.pack("q", process.exitcode))


def _execute(
    function: str,
    line: list[str],
    streams: list[int],
    cwd: str | Path,
    environment: dict[str, str],
    module_path: list[str],
    prepare: Callable[[], object],
) -> None:
    """Run the command in the new process."""
    gc.freeze()  # modules stay in memory, and collecting them would take 0.2 s each time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore SIGINT
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The old stream objects remember whether their streams were seekable. The new stream objects stay open until the
    # process ends.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = line
    given = environment.get("PYTHONPATH")
    folders = [*map(os.path.abspath, given.split(os.pathsep))] if given else []
    sys.path[:] = [str(Path(sys.executable).parent), *folders, *module_path]
    is_registered = "wean_fairseq" in sys.modules
    # the plugin comes from --user-dir and not from the installed package
    if is_registered or function.startswith("tests."):
        sys.path.insert(0, str(_ROOT))
    multiprocessing.set_start_method(None, force=True)  # None selects the default of the platform, as in a new process
    # Some commands set up logging before they import fairseq. Others keep the logging that fairseq has set up.
    root = logging.getLogger()
    of_fairseq = root.handlers[:]
    root.handlers.clear()
    try:
        if is_registered:
            sys.modules["preloaded"].make_settings()
        prepare()
        command = pkgutil.resolve_name(function)
        if not root.handlers:
            root.handlers[:] = of_fairseq
            for handler in of_fairseq:
                handler.setStream(sys.stderr)
        sys.exit(command())
    except KeyboardInterrupt:  # handled as in the interpreter, here and in the next clause
        sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
