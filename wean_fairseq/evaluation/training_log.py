"""Read fairseq-train's ``--log-file`` in each of its formats (simple, tqdm and json).

A log may contain several runs. If a resumed run repeats updates, its lines replace the earlier lines about these
updates.
"""

import re
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field
from math import log2
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from ..storage.json_files import parse_json
from .text_files import PathLike, decode_lines, read_bytes

LOWER_IS_BETTER = ("loss", "nll_loss", "ppl")
NEAR_BEST = 0.95
_ROUNDING = 0.02  # largest difference in bits that the two decimals of ``ppl`` can cause, from a perplexity of 1
#: Larger numbers are skipped, because they overflow the axes of a figure.
LARGEST_DRAWN = 1e30

_ARCH = re.compile(r"""['"]arch['"]: ['"]([\w.-]+)['"]""")
_SEED = re.compile(r"""['"]seed['"]: (\d+)""")
_PARAMETERS = re.compile(r"num\. shared model params: (\d[\d,]{0,30})")
_MAX_EPOCH = re.compile(r"""['"]max_epoch['"]: (\d{1,18})""")
_COMMIT = re.compile(r"training with wean_fairseq at commit (unknown|[0-9a-f]{40,64}(?:-dirty)?)$")
_DONE = re.compile(r"done training in [\d.]+ seconds")
_LIMIT = re.compile(
    r"Stopping training due to \w+: \S+ >=? (max_update|stop_time_hours): |and --(max-update|stop-time-hours) is "
)
# fairseq writes the first message. host/stopping.py writes the second when such a training is started again.
_PATIENCE = re.compile("early stop since valid performance hasn't improved|brought no improvement, and --patience is ")
# On the terminal, each line starts with the time and a logger's name, but lines in the --log-file do not.
_VALID_LINE = re.compile(r"(?:^|\| )epoch (\d{1,18}) \| valid on '([^']+)' subset \| (.*)$")
_STEP_LINE = re.compile(r"(?:^|\| )epoch (\d{1,18}):\s+(\d{1,18}) / (\d{1,18}) (.*)$")
# Only the first possible start in a line is tried. Otherwise, a line with many starts but no end could take hours.
_EPOCH_LINE = re.compile(r"(?:^|\| )epoch (\d{1,18}) \| (.*)$")
_JSON_LINE = re.compile(r"(?:^|\| )(\{\"epoch\": .*)$")
_END_OF_EPOCH = re.compile(r"\btrain_wall\b")


class LogLine(NamedTuple):
    """The numbers in one line of a log.

    Attributes:
        subset: name of the validation subset. It is ``train`` for the summary of an epoch, and empty for a line within
            an epoch.
        epoch: number of passes over the data, with a fraction within an epoch.
        values: the logged numbers by name.
        step: number of the step within the epoch, which has ``steps`` steps. Both are 0 in the format json.
    """

    subset: str
    epoch: float
    values: dict[str, float]
    step: int = 0
    steps: int = 0

    @property
    def updates(self) -> int:
        """Number of optimiser steps before this line was written."""
        return int(self.values["num_updates"])


@dataclass
class TrainingLog:
    """One training, with its validations, the lines within its epochs, its size and its cost.

    Attributes:
        parameters: number of trained parameters.
        done: whether fairseq reported the end of the training.
        stopped_early: whether ``--patience`` ended the training.
        limit: the option that ended the training, ``--max-update`` or ``--stop-time-hours``. Empty = neither.
        max_epoch: value of ``--max-epoch`` in the last run, or None if there is no limit.
        threads: number of torch's threads, if the task logs it.
        commit: commit of wean_fairseq in the last run, if the log names it. ``-dirty`` = with changed files.
        cpu_seconds: CPU time of the training processes so far, if the task logs it.
        train: the lines within epochs.
        ends: for each epoch, the number of updates at its end, and the seconds that its updates took (forward,
            backward, optimiser step).
        process_seconds: CPU time of the process that wrote the last line. It restarts from 0 when a training is
            resumed.
    """

    name: str = ""
    path: str = ""
    arch: str = ""
    seed: str = ""
    parameters: int | None = None
    done: bool = False
    stopped_early: bool = False
    limit: str = ""
    max_epoch: int | None = None
    threads: int | None = None
    commit: str = ""
    cpu_seconds: float | None = None
    valid: list[LogLine] = field(default_factory=list)
    train: list[LogLine] = field(default_factory=list)
    ends: dict[int, tuple[int, float]] = field(default_factory=lambda: {0: (0, 0.0)})
    process_seconds: float = 0.0

    @property
    def updates(self) -> int:
        """Number of optimiser steps in all finished epochs."""
        return self.ends[max(self.ends)][0]

    @property
    def seconds_per_update(self) -> float | None:
        """Seconds per update (forward, backward, optimiser step), without validation and saving.

        It is the median over epochs, because the log of a resumed epoch contains only the time of its last part. It is
        None if no epoch was finished.
        """
        rates = [
            seconds / (updates - self.ends[number - 1][0])
            for number, (updates, seconds) in self.ends.items()
            if number - 1 in self.ends and updates > self.ends[number - 1][0]
        ]
        return median(rates) if rates else None

    @property
    def hours(self) -> float | None:
        """Hours of all updates, or None if no epoch was finished."""
        return None if self.seconds_per_update is None else self.seconds_per_update * self.updates / 3600

    def validations(self, metric: str) -> list[LogLine]:
        return [point for point in self.valid if metric in point.values]

    def best(self, metric: str) -> LogLine:
        """Return the first validation with the best value of ``metric``."""
        choose = min if metric in LOWER_IS_BETTER else max
        return choose(self.validations(metric), key=lambda point: point.values[metric])

    @property
    def is_improving(self) -> bool:
        """Return True if the last validation is the best one by the metric that selects the checkpoint.

        From the second validation on, fairseq logs the best value of that metric under the name ``best_`` + metric.
        """
        last = self.valid[-1] if self.valid else LogLine("", 0, {})
        metrics = [name.removeprefix("best_") for name in last.values if name.startswith("best_")]
        return any(self.best(metric) is last for metric in metrics if metric in last.values)

    def near_best(self, metric: str) -> LogLine:
        """Return the first validation whose ``metric`` reached 95% of the best value.

        The comparison also handles negative losses.
        """
        best, is_lower_better = self.best(metric).values[metric], metric in LOWER_IS_BETTER
        sign = -1 if is_lower_better else 1
        limit = best * NEAR_BEST if is_lower_better == (best < 0) else best / NEAR_BEST
        return next(point for point in self.validations(metric) if sign * point.values[metric] >= sign * limit)


def read_log(path: PathLike, name: str = "", subset: str = "valid") -> TrainingLog:
    """Read the log of a training.

    Args:
        subset: name of the validation subset that is read.

    Raises:
        UserError: if there is no such file.
    """
    log = TrainingLog(name, str(path))
    for text in decode_lines(read_bytes(path), path):
        _read_facts(log, text)
        line = parse_line(text)
        if line is not None and "num_updates" in line.values:
            _add(log, line, subset)
    _set_epoch_fractions(log)
    return log


def parse_line(text: str) -> LogLine | None:
    """Return the numbers in a line, or None if it has none or only resembles a line of fairseq."""
    try:
        line = _parse(text)
    except (ValueError, TypeError, ArithmeticError):
        return None
    return line if line is not None and abs(line.epoch) < LARGEST_DRAWN else None


def _parse(text: str) -> LogLine | None:
    match = _VALID_LINE.search(text) or _EPOCH_LINE.search(text)
    if match and (match.lastindex == 3 or _END_OF_EPOCH.search(match[2])):
        subset = match[2] if match.lastindex == 3 else "train"
        values = _numbers(item.rpartition(" ")[::2] for item in match[match.lastindex or 0].split(" | "))
        return LogLine(subset, float(match[1]), values)
    if match := _STEP_LINE.search(text):
        epoch, step, steps = (int(number) for number in match.groups()[:3])
        values = _numbers(item.partition("=")[::2] for item in match[4].split(", "))
        return LogLine("", epoch - 1 + step / steps, values, step, steps)
    if match := _JSON_LINE.search(text):
        content = parse_json(match[1].rstrip())
        if "update" in content:
            return LogLine("", float(content["update"]), _numbers(content.items()))
        counted = next((key for key in content if key.endswith("_num_updates")), "")
        prefix = counted.removesuffix("num_updates")
        values = _numbers((key.removeprefix(prefix), content[key]) for key in content if key.startswith(prefix))
        return LogLine(prefix.removesuffix("_"), float(content["epoch"]), values) if counted else None
    return None


def _read_facts(log: TrainingLog, text: str) -> None:
    arch, seed, parameters = _ARCH.search(text), _SEED.search(text), _PARAMETERS.search(text)
    log.arch = log.arch or (arch[1] if arch else "")
    log.seed = log.seed or (seed[1] if seed else "")
    if parameters:
        log.parameters = int(parameters[1].replace(",", ""))
        log.done = log.stopped_early = False  # a training that starts or resumes writes this line
        log.limit = ""
        log.process_seconds = 0.0
    if limit := _MAX_EPOCH.search(text):
        log.max_epoch = int(limit[1]) or None
    if code := _COMMIT.search(text):
        log.commit = code[1]
    log.done = log.done or _DONE.search(text) is not None
    log.stopped_early = log.stopped_early or _PATIENCE.search(text) is not None
    if limit := _LIMIT.search(text):
        log.limit = f"--{limit[1] or limit[2]}".replace("_", "-")


def _add(log: TrainingLog, line: LogLine, subset: str) -> None:
    """Store the numbers of a line. Drop the stored numbers of updates that a resumed run repeats."""
    if "threads" in line.values:
        log.threads = int(line.values["threads"])
    if "cpu" in line.values:
        passed = line.values["cpu"] - log.process_seconds
        if passed > 0:
            log.cpu_seconds = (log.cpu_seconds or 0.0) + passed
            log.process_seconds = line.values["cpu"]
    if line.subset == "train":
        if "train_wall" in line.values:
            log.ends[int(line.epoch)] = line.updates, line.values["train_wall"]
    elif line.subset in ("", subset):
        _add_likelihood(line.values)
        points = log.valid if line.subset else log.train
        while points and points[-1].updates >= line.updates:
            points.pop()
        while not line.subset and log.valid and log.valid[-1].updates > line.updates:
            log.valid.pop()
        points.append(line)


def _add_likelihood(values: dict[str, float]) -> None:
    """Add ``nll_loss``, which fairseq's cross_entropy does not log if it equals the loss. ``ppl`` is 2 to its power."""
    is_likelihood = values.get("ppl", 0.0) > 0 and "loss" in values
    if is_likelihood and abs(log2(values["ppl"]) - values["loss"]) < _ROUNDING:
        values.setdefault("nll_loss", values["loss"])


def _numbers(items: Any) -> dict[str, float]:
    numbers = {}  # the numbers of the line, without NaN and numbers that are too large
    for key, value in items:
        with suppress(TypeError, ValueError, OverflowError):
            if abs(number := float(value)) < LARGEST_DRAWN:
                numbers[key.strip()] = number
    return numbers


def _set_epoch_fractions(log: TrainingLog) -> None:
    """Interpolate the epochs of validations, because fairseq logs them only as whole numbers."""
    anchors = [(0, 0.0)] + [(point.updates, point.epoch) for point in log.train if point.updates > 0]
    if len(anchors) == 1:  # without training lines, assume that the last validation of an epoch was at its end
        ends = {point.epoch: point.updates for point in log.valid}
        anchors += [(updates, epoch) for epoch, updates in ends.items()]
    anchors.sort()  # a log that was edited may go back to an earlier epoch
    log.valid = [point._replace(epoch=_interpolate(anchors, point.updates)) for point in log.valid]


def _interpolate(anchors: list[tuple[int, float]], updates: int) -> float:
    """Return the epoch after a number of updates. The anchors are pairs of updates and epoch, sorted by updates."""
    place = bisect_left(anchors, updates, key=itemgetter(0))
    if 0 < place < len(anchors):
        (left, start), (right, end) = anchors[place - 1 : place + 1]
        return start + (end - start) * (updates - left) / (right - left)
    last, epoch = anchors[-1]
    return epoch * updates / last if last else 0.0
