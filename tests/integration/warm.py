"""fairseq's commands in processes that are forked off one which has imported PyTorch and fairseq, but not the plugin.

Most of the time of a small command goes into these imports. Each still has a process, a folder, an environment and
streams of its own, and imports the plugin itself.
"""

import importlib
import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

# Command -> module of its ``cli_main``.
COMMANDS = {
    f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("train", "generate", "preprocess", "interactive", "validate")
}
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["fairseq.criterions", "fairseq.models", "fairseq.optim", "fairseq.tasks", "fairseq.trainer", "sacrebleu"]
)


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
        process = _FORKS.Process(
            target=_execute, args=(list(line), folder, cwd or Path.cwd(), dict(environment), prepare)
        )
        with mock.patch.dict(os.environ, environment, clear=True):  # what the imports read
            process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{' '.join(line)} took longer than {timeout} seconds")
        said = [(folder / stream).read_text(encoding="utf-8", errors="replace") for stream in ("stdout", "stderr")]
        return int(process.exitcode or 0), *said


def _execute(
    line: list[str], folder: Path, cwd: Path, environment: dict[str, str], prepare: Callable[[], object]
) -> None:
    """In the new process: be the command."""
    for number, stream, flags in (
        (0, "stdin", os.O_RDONLY),
        (1, "stdout", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        os.dup2(os.open(folder / stream, flags), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process lives
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
        sys.exit(command.cli_main())
    except Exception:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
