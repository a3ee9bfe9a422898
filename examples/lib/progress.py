"""Run a command with its output in a file and its progress as one bar on the terminal.

    python examples/lib/progress.py --label TEXT --output FILE --epochs N -- fairseq-train ... --log-format simple
    python examples/lib/progress.py --label TEXT --output FILE --count '^H-' --total N -- fairseq-generate ...

The exit status is the command's. Where no terminal is there to see a bar, a line now and then takes its place.
"""

import argparse
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

from wean_fairseq.evaluation.training_log import parse_line

_QUIET_SECONDS = 60  # between two lines where there is no terminal


class Progress:
    """The progress of a command, read off its lines; shown as a bar or as lines.

    Args:
        label: what is being done.
        total: how often ``count`` will match; 0 where the lines of a training say how far it is.
        count: pattern of the lines to count; empty for a training.
        epochs: epochs of the training.
    """

    def __init__(self, label: str, total: int, count: str, epochs: int) -> None:
        self.label = label
        self.epochs = epochs
        self.count = re.compile(count) if count else None
        self.bleu = ""
        self.first: tuple[int, float] | None = None  # update of a training that was seen first, and when
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
        """Take one line of the command's output in."""
        if self.count is not None:
            self.bar.update(1 if self.count.match(line) else 0)
            return
        found = parse_line(line)
        if found is None:
            return
        if found.subset not in ("", "train") and "bleu" in found.values:
            self.bleu = f", valid BLEU {found.values['bleu']:g}"
        if not found.steps or "loss" not in found.values:
            return
        epoch = math.ceil(found.epoch)
        done, total = (epoch - 1) * found.steps + found.step, found.steps * self.epochs
        state = f"epoch {epoch}/{self.epochs}, loss {found.values['loss']:g}{self.bleu}"
        now = time.monotonic()
        if self.first is None:  # a training that goes on starts in the middle
            self.first = done, now
            self.bar.total, self.bar.initial, self.bar.start_t = total, done, time.time()
        self.bar.n = done
        self.bar.set_postfix_str(state)
        # The first line gives no speed, so no time left can be estimated before the second.
        if not self.terminal and now - self.last_line > _QUIET_SECONDS and done > self.first[0]:
            self.last_line = now
            left = (now - self.first[1]) / (done - self.first[0]) * (total - done)
            rest = f"{tqdm.format_interval(left)} left"
            print(f"{self.label} {100 * done // total:3d}%, {rest}, {state}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar away."""
        self.bar.close()


def run(command: list[str], output: Path, errors: Path | None, progress: Progress) -> int:
    """Run ``command``; its lines are appended to ``output``; return its exit status."""
    with (
        output.open("a", encoding="utf-8") as log,
        errors.open("w", encoding="utf-8") if errors else log as error_log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=error_log if errors else subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as child,
    ):
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        assert child.stdout is not None
        try:
            for line in child.stdout:
                log.write(line)
                log.flush()
                progress.read(line)
        except KeyboardInterrupt:  # the terminal sends it to the command as well
            child.wait()
            return 130
        finally:
            progress.close()
    return child.returncode


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the command's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--label", required=True, help="what is being done")
    parser.add_argument("--output", type=Path, required=True, help="file to append the command's output to")
    parser.add_argument("--errors", type=Path, help="file for its standard error, if that is to be apart")
    parser.add_argument("--epochs", type=int, default=1, help="epochs of a training")
    parser.add_argument("--count", default="", help="regular expression of the output lines to count")
    parser.add_argument("--total", type=int, default=0, help="how many of them there will be")
    parser.add_argument("command", nargs="+", help="after --: the command")
    args = parser.parse_args(arguments)
    return run(args.command, args.output, args.errors, Progress(args.label, args.total, args.count, args.epochs))


if __name__ == "__main__":
    sys.exit(main())
