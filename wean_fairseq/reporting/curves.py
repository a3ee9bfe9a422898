"""Validation curves of several trainings in one figure, from logs in any of fairseq's formats."""

from collections.abc import Sequence
from typing import Any

from ..errors import UserError
from ..evaluation.tables import Table
from ..evaluation.training_log import LOWER_IS_BETTER, NEAR_BEST, LogLine, TrainingLog, read_log
from .style import STYLES, displayable, new_figure

_LABELS = {
    "bleu": "BLEU",
    "loss": "loss (bits per token)",
    "nll_loss": "negative log-likelihood (bits per token)",
    "ppl": "perplexity",
}


def read_history(name: str, path: str, subset: str = "valid") -> TrainingLog:
    """Read a log of fairseq-train that holds a validation.

    Raises:
        UserError: if there is no such file, or no validation of ``subset`` in it.
    """
    history = read_log(path, name, subset)
    if not history.valid:
        raise UserError(
            f"{path} holds no validation of the subset {subset!r}; wait for the first one, "
            "or give the --log-file of fairseq-train."
        )
    return history


def check_metrics(histories: list[TrainingLog], metrics: Sequence[str]) -> None:
    """Check that every log has the metrics.

    Raises:
        UserError: naming a log without a metric, and its metrics.
    """
    for history in histories:
        logged = sorted({key for point in history.valid for key in point.values})
        for metric in metrics:
            if metric not in logged:
                raise UserError(f"{history.path} logs no {metric!r} at validation; it has {', '.join(logged)}.")


def summarise(history: TrainingLog, metric: str) -> str:
    """Return one sentence on the best value and the first validation that is close to it."""
    best = history.best(metric)
    text = f"{history.name}: best {metric} {best.values[metric]:g} at epoch {best.epoch:.2f} (update {best.updates})"
    if metric in LOWER_IS_BETTER:
        return text
    return f"{text}, {NEAR_BEST:.0%} of it by epoch {history.near_best(metric).epoch:.2f}"


def validation_table(histories: list[TrainingLog], metrics: Sequence[str]) -> Table:
    """Return one row per validation."""
    rows = []
    for history in histories:
        for point in history.valid:
            values = [f"{point.values[metric]:g}" if metric in point.values else "" for metric in metrics]
            rows.append([history.name, f"{point.epoch:.3f}", str(point.updates), *values])
    return Table(["system", "epoch", "updates", *metrics], rows)


def draw_curves(histories: list[TrainingLog], metrics: Sequence[str], *, training: bool = False) -> Any:
    """Draw one panel per metric. ``training`` adds the values of the training itself as a thin line."""
    figure, axes = new_figure(1, len(metrics), (6.4 * len(metrics), 4.4))
    figure.suptitle("Learning curves")
    for panel, metric in zip(axes[0], metrics, strict=True):
        for index, history in enumerate(histories):
            _draw_curve(panel, history, metric, STYLES[index % len(STYLES)], training)
        panel.set_xlabel("epochs")
        panel.set_ylabel(f"validation {_LABELS.get(metric, metric)}" if not training else _LABELS.get(metric, metric))
        panel.set_xlim(left=0)
        panel.grid(color="0.9")
        panel.legend()
        _add_updates(panel, histories)
    return figure


def _draw_curve(panel: Any, history: TrainingLog, metric: str, style: tuple[str, str, str], training: bool) -> None:
    colour, marker, dashes = style
    name = displayable(history.name)
    points = history.validations(metric)
    steps = [point for point in history.train if metric in point.values] if training else []

    def draw(points: list[LogLine], label: str, **style: Any) -> None:
        values = [point.values[metric] for point in points]
        panel.plot([point.epoch for point in points], values, color=colour, label=label, **style)

    if steps:
        draw(steps, f"{name}, training", alpha=0.45, linewidth=1)
    label = f"{name}, validation" if training else name
    draw(points, label, marker=marker, linestyle=dashes, markersize=4)


def _add_updates(panel: Any, histories: list[TrainingLog]) -> None:
    """Number the updates along the top if all trainings have equally long epochs."""
    rates = [history.valid[-1].updates / history.valid[-1].epoch for history in histories if history.valid[-1].epoch]
    if not rates or max(rates) > 1.02 * min(rates):
        return
    rate = rates[0]
    top = panel.secondary_xaxis("top", functions=(lambda epoch: epoch * rate, lambda updates: updates / rate))
    top.set_xlabel("updates", fontsize="small")
    top.tick_params(labelsize="small")
