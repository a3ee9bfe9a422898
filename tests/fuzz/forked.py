"""fairseq's commands in a copy of this process, which has imported everything already: a second instead of ten."""

import contextlib
import importlib
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.commands import USER_DIR, Result

SECONDS = 120  # the machine may be busy


def run(command: str, *arguments: object, prepare: Callable[[], object] | None = None) -> Result:
    """Run a command to its end.

    Args:
        command: ``train``, ``generate``, ``interactive`` or ``validate``.
        arguments: of the command.
        prepare: is called in the copy first, to set limits or watch.

    Returns:
        What it did; the exit status is -9 if it did not end in time.
    """
    line = [f"fairseq-{command}", *map(str, arguments), "--user-dir", USER_DIR]
    main = importlib.import_module(f"fairseq_cli.{command}").cli_main
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        process = os.fork()
        if process == 0:
            _become(main, line, out, err, prepare)
        code = _wait(process)
        return Result(line, code, out.read_text(errors="replace"), err.read_text(errors="replace"))


def _become(
    main: Callable[[], object], line: list[str], out: Path, err: Path, prepare: Callable[[], object] | None
) -> None:
    code = 1
    try:
        for path, stream, number in ((out, sys.__stdout__, 1), (err, sys.__stderr__, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
            stream.reconfigure(line_buffering=True)
        sys.stdout, sys.stderr, sys.argv = open(1, "w", closefd=False), open(2, "w", closefd=False), line  # noqa: SIM115
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True)  # pytest listens as well
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if prepare is not None:
            prepare()
        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does at its end
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(process: int) -> int:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return -signal.SIGKILL
