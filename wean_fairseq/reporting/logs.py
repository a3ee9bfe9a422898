"""What the logs of fairseq say about the size and the cost of a training, and about the speed of decoding."""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ..errors import UserError
from ..evaluation.text_files import PathLike, decode_lines, parse_json, read_bytes

_ARCH = re.compile(r"""['"]arch['"]: ['"]([\w.-]+)['"]""")
_SEED = re.compile(r"""['"]seed['"]: (\d+)""")
_PARAMETERS = re.compile(r"num\. shared model params: (\d[\d,]*)")
_EPOCH = re.compile(r"(?:^|\| )epoch (\d+) \| (?!valid on )(.*\btrain_wall\b.*)$")
_JSON_EPOCH = re.compile(r"(?:^|\| )(\{\"epoch\": .*\"train_train_wall\".*\})\s*$")
_UPDATES = re.compile(r"(?:^|\| )num_updates (\d[\d.e+]*)")  # a million is 1e+06
_WALL = re.compile(r"(?:^|\| )train_wall (\d[\d.e+]*)")
_DONE = re.compile(r"done training in [\d.]+ seconds")
_TRANSLATED = re.compile(r"Translated [\d,]+ sentences .* in [\d.]+s \(([\d.,]+) sentences/s")


@dataclass
class Training:
    """Size and cost of a training.

    Attributes:
        arch: name of the architecture.
        seed: of the training, as text.
        parameters: how many numbers are trained.
        updates: steps of the optimiser in all epochs that came to their end.
        seconds_per_update: forward, backward and update, without validation and saving: the median over epochs, since
            an epoch that was interrupted counts only what was done after it went on.
        done: whether fairseq said that it had come to the end.
    """

    arch: str = ""
    seed: str = ""
    parameters: int | None = None
    updates: int = 0
    seconds_per_update: float | None = None
    done: bool = False

    @property
    def hours(self) -> float | None:
        """Time of all updates; ``None`` where no epoch came to its end."""
        return None if self.seconds_per_update is None else self.seconds_per_update * self.updates / 3600


def read_training(path: PathLike) -> Training:
    """Read the --log-file of fairseq-train, in any of its formats.

    An epoch that a resumed training did again counts once.

    Raises:
        UserError: if there is no such file.
    """
    training = Training()
    epochs: dict[int, tuple[int, float]] = {}  # updates at its end, seconds
    for line in decode_lines(read_bytes(path), path):
        arch, seed, parameters = _ARCH.search(line), _SEED.search(line), _PARAMETERS.search(line)
        if arch and not training.arch:
            training.arch = arch[1]
        if seed and not training.seed:
            training.seed = seed[1]
        if parameters:
            training.parameters = int(parameters[1].replace(",", ""))
            training.done = False  # a training begins, or goes on
        training.done = bool(_DONE.search(line)) or training.done
        epoch = _epoch(line)
        if epoch is not None:
            epochs[epoch[0]] = epoch[1:]
    ends = {0: (0, 0.0), **epochs}
    training.updates = ends[max(ends)][0]
    rates = [
        seconds / (updates - ends[number - 1][0])
        for number, (updates, seconds) in epochs.items()
        if number - 1 in ends and updates > ends[number - 1][0]
    ]
    training.seconds_per_update = median(rates) if rates else None
    return training


def _epoch(line: str) -> tuple[int, int, float] | None:
    """Number, updates and seconds of an epoch that ends with this line."""
    simple, record = _EPOCH.search(line), _JSON_EPOCH.search(line)
    try:
        if simple is not None:
            updates, wall = _UPDATES.search(simple[2]), _WALL.search(simple[2])
            return (int(simple[1]), int(float(updates[1])), float(wall[1])) if updates and wall else None
        if record is not None:
            content = parse_json(record[1])
            return int(content["epoch"]), int(float(content["train_num_updates"])), float(content["train_train_wall"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return None


def decoding_speed(path: Path) -> float | None:
    """Sentences a second, as fairseq-generate reports them on its standard error; ``None`` where it did not."""
    try:
        text = read_bytes(path).decode(errors="replace")
    except UserError:
        return None
    found = _TRANSLATED.findall(text)
    return float(found[-1].replace(",", "")) if found else None
