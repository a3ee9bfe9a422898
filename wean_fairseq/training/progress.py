"""Run a command, write its output to a file, and show its progress as a single bar on the terminal.

    python -m wean_fairseq.training.progress --label TEXT --output FILE --epochs N --processes N -- fairseq-train ...
    python -m wean_fairseq.training.progress --label TEXT --output FILE --count H- --total N -- fairseq-generate ...

The exit status is the exit status of the command. Without a terminal, a line is printed from time to time instead of
the bar.
"""

import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from ..console import OneLineParser, command, end_with_parent, whole_number
from ..evaluation.training_log import parse_line
from ..ranges import MOST_PROCESSES
from ..storage.files import open_growing

_QUIET_SECONDS = 60  # seconds between two lines if there is no terminal


class Progress:
    """The progress of a command, which is parsed from its output. It is shown as a bar or as lines.

    Args:
        label: description of the work.
        total: expected number of lines that match ``count``. 0 for a training, because its lines contain the progress.
        count: start of the lines to count. Empty for a training.
        epochs: epochs of the training.
    """

    def __init__(self, label: str, total: int, count: str, epochs: int) -> None:
        self.label = label
        self.epochs = epochs
        self.count = count
        self.bleu = ""
        self.first: tuple[int, float] | None = None  # the first update of the training in the output, and its time
        self.terminal = sys.stderr.isatty()
        self.last_line = time.monotonic()
        layout = "{desc} {percentage:3.0f}%|{bar:24}| {elapsed}<{remaining}{postfix}"
        self.bar = tqdm(
            total=total or 1,
            desc=label,
            bar_format=layout,
            disable=not self.terminal,
            leave=False,
            dynamic_ncols=True,
            file=sys.stderr,
        )

    def read(self, line: str) -> None:
        """Process one line of the command's output."""
        if self.count:
            self.bar.update(line.startswith(self.count))
            return
        parsed = parse_line(line)
        if parsed is None:
            return
        if parsed.subset not in ("", "train") and "bleu" in parsed.values:
            self.bleu = f", valid BLEU {parsed.values['bleu']:g}"
        if not parsed.steps or "loss" not in parsed.values:
            return
        epoch = math.ceil(parsed.epoch)
        done, total = (epoch - 1) * parsed.steps + parsed.step, parsed.steps * self.epochs
        state = f"epoch {epoch}/{self.epochs}, loss {parsed.values['loss']:g}{self.bleu}"
        now = time.monotonic()
        if self.first is None:  # a resumed training starts in the middle
            self.first = done, now
            self.bar.total, self.bar.initial, self.bar.start_t = total, done, time.time()
        self.bar.n = done
        self.bar.set_postfix_str(state)
        # The speed is unknown at the first line, so the remaining time cannot be estimated before the second line.
        if not self.terminal and now - self.last_line > _QUIET_SECONDS and done > self.first[0]:
            self.last_line = now
            left = (now - self.first[1]) / (done - self.first[0]) * (total - done)
            rest = f"{tqdm.format_interval(left)} left"
            sys.stderr.write(f"{self.label} {100 * done // total:3d}%, {rest}, {state}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the bar."""
        self.bar.close()


def in_processes(command: list[str], number: int) -> list[str]:
    """Return the command that starts ``command`` in a number of processes that train together."""
    launcher = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number)]
    return [*launcher, "--no-python", *command] if number > 1 else command


@contextmanager
def _on_sigterm(action: Callable[[], None]) -> Iterator[None]:
    """Call ``action`` when this process gets SIGTERM. Only the main thread can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, lambda *_: action())
    try:
        yield
    finally:
        # `earlier` is None if the handler was not set by Python
        signal.signal(signal.SIGTERM, earlier or signal.SIG_DFL)


def _open_empty(path: Path) -> BinaryIO:
    file = open_growing(path)
    file.truncate(0)
    return file


def run_with_progress(
    command: list[str], output: Path, errors: Path | None, progress: Progress, env: dict[str, str] | None = None
) -> int:
    """Run ``command``, append its lines to ``output``, and return its exit status."""
    with (
        TextIOWrapper(open_growing(output), encoding="utf-8") as log,
        _open_empty(errors) if errors else log as error_log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=error_log if errors else subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=env,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it takes no lock that another thread may hold
        ) as child,
    ):
        assert child.stdout is not None
        try:
            with _on_sigterm(child.terminate):
                for line in child.stdout:
                    log.write(line)
                    log.flush()
                    progress.read(line)
        except KeyboardInterrupt:  # the terminal sends Ctrl-C to the command as well
            child.wait()
            return 130
        finally:
            progress.close()
    return child.returncode


@command("progress")
def main(arguments: list[str]) -> int:
    """Run the command line. Return the exit status of the command."""
    parser = OneLineParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--label", required=True, help="description of the work")
    parser.add_argument("--output", type=Path, required=True, help="file to append the command's output to")
    parser.add_argument("--errors", type=Path, help="separate file for its standard error")
    parser.add_argument("--epochs", type=whole_number(1), default=1, help="epochs of a training")
    parser.add_argument("--processes", type=whole_number(1, MOST_PROCESSES), default=1, help="processes of a training")
    parser.add_argument("--count", default="", help="beginning of the output lines to count")
    parser.add_argument("--total", type=whole_number(0), default=0, help="expected number of these lines")
    parser.add_argument("command", nargs="+", help="after --: the command")
    args = parser.parse_args(arguments)
    end_with_parent()
    progress = Progress(args.label, args.total, args.count, args.epochs)
    return run_with_progress(in_processes(args.command, args.processes), args.output, args.errors, progress)


if __name__ == "__main__":
    sys.exit(main())
