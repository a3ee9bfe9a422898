"""Validation curves of several trainings in one picture, from the logs that fairseq wrote.

    python -m wean_fairseq.evaluation.curves WEAN=a/train.log Seq2seq=b/train.log --output curves.png

Reads ``--log-file`` in every log format of fairseq-train (simple, tqdm and json). A log may hold several runs: where a
run went back to an earlier update, what it did again replaces what was there. The numbers go into a .tsv beside the
picture.
"""

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import UserError
from .pictures import save
from .text_files import check_outputs, decode_lines, parse_json, read_bytes, write_atomically

LOWER_IS_BETTER = ("loss", "nll_loss", "ppl")
NEAR_BEST = 0.95
# Okabe and Ito's colours can be told apart by everybody; shape and dashes say the same again.
STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
    ("#000000", "X", "-."),
)
_LABELS = {"bleu": "BLEU", "loss": "loss (bits per token)", "nll_loss": "negative log-likelihood", "ppl": "perplexity"}

# On the terminal, each line starts with the time and a logger's name; in the --log-file it does not.
_VALID_LINE = re.compile(r"(?:^|\| )epoch (\d+) \| valid on '([^']+)' subset \| (.*)$")
_TRAIN_LINE = re.compile(r"(?:^|\| )epoch (\d+):\s+(\d+) / (\d+) (.*)$")
_JSON_LINE = re.compile(r"(?:^|\| )(\{\"epoch\": .*\})\s*$")


@dataclass
class Point:
    """What was logged after so many updates; ``epoch`` counts passes over the data, with fractions."""

    updates: int
    epoch: float
    values: dict[str, float]


@dataclass
class History:
    """One training: its validations, and the training metrics that were logged on the way."""

    name: str
    path: str
    valid: list[Point] = field(default_factory=list)
    train: list[Point] = field(default_factory=list)


def read_history(name: str, path: str, subset: str = "valid") -> History:
    """Read a log of fairseq-train.

    Raises:
        UserError: if there is no such file, or no validation of ``subset`` in it.
    """
    history = History(name, path)
    for line in decode_lines(read_bytes(path), path):
        try:
            kind, point = _parse_line(line, subset)
        except (ValueError, TypeError, ArithmeticError):  # it only looks like a line of fairseq
            continue
        if point is not None:
            points = history.valid if kind == "valid" else history.train
            _drop_repeated(history if kind == "train" else None, points, point.updates)
            points.append(point)
    if not history.valid:
        raise UserError(
            f"{path} holds no validation of the subset {subset!r}; wait for the first one, "
            "or give the --log-file of fairseq-train."
        )
    _set_epoch_fractions(history)
    return history


def _drop_repeated(history: History | None, points: list[Point], updates: int) -> None:
    """Remove what a resumed run does again."""
    while points and points[-1].updates >= updates:
        points.pop()
    while history is not None and history.valid and history.valid[-1].updates > updates:
        history.valid.pop()


def _parse_line(line: str, subset: str) -> tuple[str, Point | None]:
    valid = _VALID_LINE.search(line)
    if valid is not None:
        if valid[2] != subset:
            return "", None
        values = _numbers(item.rpartition(" ")[::2] for item in valid[3].split(" | "))
        return "valid", _point(float(valid[1]), values)
    train = _TRAIN_LINE.search(line)
    if train is not None:
        values = _numbers(item.partition("=")[::2] for item in train[4].split(", "))
        return "train", _point(int(train[1]) - 1 + int(train[2]) / int(train[3]), values)
    record = _JSON_LINE.search(line)
    if record is None:
        return "", None
    content = parse_json(record[1])
    if "update" in content:
        return "train", _point(float(content["update"]), _numbers(content.items()))
    prefix = f"{subset}_"
    values = _numbers((key.removeprefix(prefix), value) for key, value in content.items() if key.startswith(prefix))
    return "valid", _point(float(content.get("epoch", 0)), values)


def _point(epoch: float, values: dict[str, float]) -> Point | None:
    return Point(int(values["num_updates"]), epoch, values) if "num_updates" in values else None


def _numbers(items: Any) -> dict[str, float]:
    """Key -> value of the items whose value is a number."""
    numbers = {}
    for key, value in items:
        try:
            numbers[key.strip()] = float(value)
        except (TypeError, ValueError):
            continue
    return numbers


def _set_epoch_fractions(history: History) -> None:
    """Give validations within an epoch their fraction of it: fairseq logs only the epoch they are in."""
    anchors = [(0, 0.0)] + [(point.updates, point.epoch) for point in history.train if point.updates > 0]
    if len(anchors) == 1:  # no training lines: the last validation of an epoch is taken for its end
        ends = {point.epoch: point.updates for point in history.valid}
        anchors += [(updates, epoch) for epoch, updates in ends.items()]
    for point in history.valid:
        point.epoch = _interpolate(anchors, point.updates)


def _interpolate(anchors: list[tuple[int, float]], updates: int) -> float:
    for (left, start), (right, end) in pairwise(anchors):
        if left < updates <= right:
            return start + (end - start) * (updates - left) / (right - left)
    last, epoch = anchors[-1]
    return epoch * updates / last if last else 0.0


def check_metrics(histories: list[History], metrics: Sequence[str]) -> None:
    """Refuse a metric that a log does not have.

    Raises:
        UserError: naming the log and what it has.
    """
    for history in histories:
        logged = sorted({key for point in history.valid for key in point.values})
        for metric in metrics:
            if metric not in logged:
                raise UserError(f"{history.path} logs no {metric!r} at validation; it has {', '.join(logged)}.")


def summarise(history: History, metric: str) -> str:
    """One sentence: the best value and how soon it was nearly reached."""
    points = [point for point in history.valid if metric in point.values]
    lower = metric in LOWER_IS_BETTER
    best = (min if lower else max)(points, key=lambda point: point.values[metric])
    text = f"{history.name}: best {metric} {best.values[metric]:g} at epoch {best.epoch:.2f} (update {best.updates})"
    if lower:
        return text
    near = next(point for point in points if point.values[metric] >= NEAR_BEST * best.values[metric])
    return f"{text}, {NEAR_BEST:.0%} of it by epoch {near.epoch:.2f}"


def render_table(histories: list[History], metrics: Sequence[str]) -> str:
    """All validations as tab-separated values."""
    rows = ["\t".join(("system", "epoch", "updates", *metrics))]
    for history in histories:
        for point in history.valid:
            values = [f"{point.values[metric]:g}" if metric in point.values else "" for metric in metrics]
            rows.append("\t".join((history.name, f"{point.epoch:.3f}", str(point.updates), *values)))
    return "\n".join(rows) + "\n"


def draw(
    histories: list[History], metrics: Sequence[str], output: str, *, title: str = "", training: bool = False
) -> None:
    """Write ``plot``'s picture to a file.

    Raises:
        UserError: if it cannot be written.
    """
    save(plot(histories, metrics, title=title, training=training), output)


def plot(histories: list[History], metrics: Sequence[str], *, title: str = "", training: bool = False) -> Any:
    """A matplotlib figure with a panel a metric; with ``training`` the training's own values too, in a thin line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(metrics), figsize=(6.4 * len(metrics), 4.4), squeeze=False, layout="constrained")
    for panel, metric in zip(axes[0], metrics, strict=True):
        for index, history in enumerate(histories):
            _draw_curve(panel, history, metric, STYLES[index % len(STYLES)], training)
        panel.set_xlabel("epochs")
        panel.set_ylabel(f"validation {_LABELS.get(metric, metric)}" if not training else _LABELS.get(metric, metric))
        panel.set_xlim(left=0)
        panel.grid(color="0.9")
        panel.spines[["right", "top"]].set_visible(False)
        panel.legend(frameon=False)
        _add_updates(panel, histories)
    if title:
        figure.suptitle(title)
    return figure


def _draw_curve(panel: Any, history: History, metric: str, style: tuple[str, str, str], training: bool) -> None:
    colour, marker, dashes = style
    points = [point for point in history.valid if metric in point.values]
    steps = [point for point in history.train if metric in point.values] if training else []
    if steps:
        panel.plot(
            [point.epoch for point in steps],
            [point.values[metric] for point in steps],
            color=colour,
            alpha=0.45,
            linewidth=1,
            label=f"{history.name}, training",
        )
    panel.plot(
        [point.epoch for point in points],
        [point.values[metric] for point in points],
        color=colour,
        marker=marker,
        linestyle=dashes,
        markersize=4,
        label=f"{history.name}, validation" if training else history.name,
    )


def _add_updates(panel: Any, histories: list[History]) -> None:
    """Number the updates along the top, where all trainings have the same number of them in an epoch."""
    rates = [history.valid[-1].updates / history.valid[-1].epoch for history in histories if history.valid[-1].epoch]
    if not rates or max(rates) > 1.02 * min(rates):
        return
    rate = rates[0]
    top = panel.secondary_xaxis("top", functions=(lambda epoch: epoch * rate, lambda updates: updates / rate))
    top.set_xlabel("updates", fontsize="small")
    top.tick_params(labelsize="small")


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m wean_fairseq.evaluation.curves",
        description="Draw the validation curves of several trainings from fairseq's logs.",
    )
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG", help="fairseq-train's --log-file of each system")
    parser.add_argument("--output", required=True, metavar="FILE.png", help="picture to write; numbers go to FILE.tsv")
    parser.add_argument("--metric", nargs="+", default=["bleu"], help="logged values to draw (default: bleu)")
    parser.add_argument("--subset", default="valid", help="validation subset (default: valid)")
    parser.add_argument("--training", action="store_true", help="draw the training's own values as a thin line, too")
    parser.add_argument("--title", default="", help="text above the picture")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = build_parser().parse_args(arguments)
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        logs = []
        for argument in args.logs:
            name, separator, path = argument.partition("=")
            if not (name and separator and path):
                raise UserError(f"{argument!r} is not of the form NAME=LOG; write for example WEAN={argument}.")
            logs.append((name, path))
        numbers = Path(args.output).with_suffix(".tsv")
        check_outputs({"--output": args.output, "the numbers of --output:": numbers}, [path for _, path in logs])
        histories = [read_history(name, path, args.subset) for name, path in logs]
        check_metrics(histories, args.metric)
        draw(histories, args.metric, args.output, title=args.title, training=args.training)
        write_atomically(numbers, render_table(histories, args.metric))
    except UserError as error:
        print(f"curves: error: {error}", file=sys.stderr)
        return 2
    for metric in args.metric:
        for history in histories:
            print(summarise(history, metric))
    print(f"picture: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
