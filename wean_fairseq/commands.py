"""The commands ``wean-*``.

Each command imports its function only when it is called. Therefore Ctrl-C during the import also prints only one line.
"""

import signal
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name

from .console import exit_status


def _run(program: str, function: str) -> int:
    """Import the function of a command, call it, and return the exit status.

    The function is decorated with ``console.command``, so it handles all errors that occur after the import.
    """
    main: list[Callable[[], int]] = []
    status = exit_status(program, lambda: main.append(_import(function))) or main[0]()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback while Python exits
    return status


def _import(function: str) -> Callable[[], int]:
    imported: Callable[[], int] = resolve_name(f"{__package__}.{function}")
    return imported


evaluate = partial(_run, "wean-evaluate", "evaluation.cli:main")
average = partial(_run, "wean-average", "checkpoints.cli:main_average")
export = partial(_run, "wean-export", "checkpoints.cli:main_export")
checksum = partial(_run, "wean-checksum", "storage.cli:main_checksum")
report = partial(_run, "wean-report", "reporting.report_cli:main")
plot = partial(_run, "wean-plot", "reporting.plot_cli:main")
inspect = partial(_run, "wean-inspect", "inspection.cli:main")
generate = partial(_run, "wean-generate", "generation.cli:main")
train = partial(_run, "wean-train", "training.cli:main")
