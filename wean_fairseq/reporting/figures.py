"""Draw the figures: learning curves, attention, granularities, copying, topics, layers of BERT and neighbours.

Each function returns a matplotlib figure. `style.write_figure` calls these functions with the project's style.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import UserError
from ..evaluation.granularity import Sentence
from ..evaluation.tables import Table
from ..evaluation.training_log import LOWER_IS_BETTER, NEAR_BEST, LogLine, TrainingLog
from .dumps import END, Attention, Coverage, Provenance
from .style import COLOURS, SHADES, STYLES, displayable, new_figure

_WORD = 0.34  # width of one word of a figure in inches
_LONGEST = 24  # maximum number of characters of a label
_MARKERS = "os^Dv*P"
_CURVES = {
    "bleu": "BLEU",
    "loss": "loss (bits per token)",
    "nll_loss": "negative log-likelihood (bits per token)",
    "ppl": "perplexity",
}


def labels(words: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """Return words as labels. Control characters are replaced, and long words are truncated."""
    return [shown if len(shown) <= longest else shown[: longest - 1] + "…" for shown in map(displayable, words)]


def _heat_map(
    panel: Any,
    values: list[list[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float] = (0.0, 1.0),
) -> Any:
    """Draw a heat map with words on the left and below it. Return the image, for a colour bar."""
    image = panel.imshow(values, aspect="auto", cmap=SHADES, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    panel.set_xticks(range(len(columns)), labels(columns), rotation=45, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(rows)), labels(rows))
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    return image


def _write_numbers(panel: Any, values: list[list[float]], limits: tuple[float, float], size: float | str) -> None:
    """Write each number of a heat map into its cell, in black or white, whichever has more contrast."""
    for row, numbers in enumerate(values):
        for column, number in enumerate(numbers):
            ink = "white" if number - limits[0] > 0.7 * (limits[1] - limits[0]) else "black"
            panel.text(column, row, f"{number:.2f}", ha="center", va="center", color=ink, fontsize=size)


def _size(rows: int, columns: int) -> tuple[float, float]:
    return max(3.6, 2.0 + _WORD * columns), max(1.9, 1.1 + 0.27 * rows)


def attention(sentences: Sequence[Attention]) -> Any:
    """Draw attention with one panel per sentence, one row per output word, and one column per source word."""
    sizes = [_size(len(sentence.output), len(sentence.source)) for sentence in sentences]
    heights = [height for _, height in sizes]
    size = (max(width for width, _ in sizes), sum(heights))
    figure, axes = new_figure(len(sentences), 1, size, height_ratios=heights)
    for panel, sentence in zip(axes[:, 0], sentences, strict=True):
        _heat_map(panel, sentence.weights, sentence.output, sentence.source)
        panel.set_xlabel("source")
        panel.set_ylabel("output")
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="attention", shrink=0.8, aspect=30)
    return figure


def granularity(sentences: Sequence[Sentence]) -> Any:
    """Draw the granularity z of words, with one panel per sentence and one row per layer. Empty sentences are left out.

    Raises:
        UserError: if all sentences are empty.
    """
    shown = [sentence for sentence in sentences if sentence.words and sentence.granularity]
    if not shown:
        raise UserError("the sentences have no words, so there is nothing to draw; choose other ones.")
    longest = max(len(sentence.words) for sentence in shown)
    figure, axes = new_figure(len(shown), 1, (max(7.2, 1.5 + _WORD * longest), 1.9 * len(shown)))
    for panel, sentence in zip(axes[:, 0], shown, strict=True):
        layers = sorted(sentence.granularity, key=int)
        values = [sentence.granularity[layer] for layer in layers]
        _heat_map(panel, values, layers, sentence.words)
        _write_numbers(panel, values, (0.0, 1.0), 6)
        panel.invert_yaxis()
        panel.set_ylabel("layer")
        if sentence.number:
            panel.set_title(f"sentence {sentence.number}", loc="left", fontsize="small")
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="z: 0 = template, 1 = detail", shrink=0.6)
    return figure


def provenance(sentences: Sequence[Provenance]) -> Any:
    """Draw for each output word the probability that it was copied, and its origin, with one panel per sentence.

    The shade of the cell (output word, source word) is the probability that the word was copied from that position. The
    first column is the probability that the word was generated. Empty outputs are left out.

    Raises:
        UserError: if all outputs are empty.
    """
    shown = []
    for sentence in (sentence for sentence in sentences if sentence.words):
        source = sentence.source[:-1] if sentence.source[-1:] == [END] else sentence.source
        weights = [
            [1.0 - word.copied, *(word.copied * word.positions.get(place, 0.0) for place in range(len(source)))]
            for word in sentence.words
        ]
        shown.append(Attention(["(generated)", *source], [word.word for word in sentence.words], weights))
    if not shown:
        raise UserError("the outputs are empty, so there is nothing to draw; choose other sentences.")
    figure = attention(shown)
    figure.axes[-1].set_ylabel("probability, given that the word was written")
    for panel in figure.axes[:-1]:
        panel.axvline(0.5, color="black", linewidth=1)
    return figure


def coverage(sentences: Sequence[Coverage]) -> Any:
    """Draw the remaining part of each topic after every word, with one panel per text and one line per topic."""
    longest = max(len(sentence.output) for sentence in sentences)
    size = (min(16.0, max(6.4, 2.2 + 0.25 * longest)), 3.4 * len(sentences))
    figure, axes = new_figure(len(sentences), 1, size, sharey=True)
    values = [value for sentence in sentences for step in sentence.left for value in step]
    axes[0, 0].set_ylim(min([0.0, *values]) - 0.03, max([1.0, *values]) + 0.03)  # the curves start at 1
    for panel, sentence in zip(axes[:, 0], sentences, strict=True):
        steps = range(1, len(sentence.output) + 1)
        every = max(1, len(sentence.output) // 60)
        for place, topic in enumerate(labels(sentence.topics)):
            left = [step[place] for step in sentence.left]
            style = {"color": COLOURS[place % len(COLOURS)], "marker": _MARKERS[place % len(_MARKERS)]}
            panel.plot(steps, left, markevery=every, markersize=4, label=topic, **style)
        panel.set_xticks(steps[::every], labels(sentence.output)[::every], rotation=60, ha="right", fontsize="small")
        panel.set_ylabel(sentence.label)
        panel.grid(axis="y", color="0.9")
        panel.legend(title="topic", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def layer_weights(weights: list[list[float]]) -> Any:
    """Draw the weights of BERT's layers (columns) in every layer of the decoder (rows), as in figure 3 of PC-SAN.

    The weights need not be a distribution (``--bert-layers static``), so the shades range from 0 (or from a negative
    minimum) to the maximum.
    """
    rows = ["all"] if len(weights) == 1 else [str(number) for number in range(1, len(weights) + 1)]
    columns = [str(number) for number in range(1, len(weights[0]) + 1)]
    figure, axes = new_figure(1, 1, (max(4.4, 2.0 + 0.55 * len(columns)), max(2.2, 1.2 + 0.4 * len(rows))))
    panel = axes[0, 0]
    limits = (min(0.0, *(min(row) for row in weights)), max(max(row) for row in weights))
    image = _heat_map(panel, weights, rows, columns, limits)
    _write_numbers(panel, weights, limits, "small")
    panel.set_xticks(range(len(columns)), columns, rotation=0, ha="center", rotation_mode="default")
    panel.set_xlabel("layer of BERT")
    panel.set_ylabel("layer of the decoder")
    figure.colorbar(image, ax=panel, label="weight")
    return figure


def _grid(number: int, columns: int, width: float, height: float, legend: float = 0.0) -> tuple[Any, Any]:
    """Return a figure with ``number`` panels, and its axes.

    Args:
        columns: maximum number of columns.
        width: width of a panel in inches.
        height: height of a panel in inches.
        legend: height of the space above all panels, in inches.
    """
    columns = min(columns, number)
    rows = -(-number // columns)
    figure, axes = new_figure(rows, columns, (width * columns, height * rows + legend))
    for panel in axes.flat[number:]:
        panel.axis("off")
    return figure, axes


def neighbours(neighbours_of: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Any:
    """Draw the cosines of words' nearest neighbours as bars, with one panel per word."""
    most = max(len(others) for _, others in neighbours_of)
    figure, axes = _grid(len(neighbours_of), 3, 3.3, 0.9 + 0.28 * most)
    for panel, (word, others) in zip(axes.flat, neighbours_of, strict=False):
        cosines = [cosine for _, cosine in others]
        panel.barh(range(len(others)), cosines, color=COLOURS[0])
        panel.set_yticks(range(len(others)), labels([other for other, _ in others]))
        panel.invert_yaxis()
        panel.set_title(labels([word])[0], loc="left", fontweight="bold")
        for place, cosine in enumerate(cosines):
            panel.text(max(cosine, 0.0), place, f" {cosine:.2f}", va="center", fontsize="small")
        panel.set_xlim(min([0.0, *cosines]), 1.15)
        panel.set_xticks([0, 0.5, 1])
    figure.supxlabel("cosine")
    return figure


class ScorePanel(NamedTuple):
    """The scores of several systems on one metric.

    Attributes:
        systems: name, score and interval of each system.
        copied: score of a copy of the source, if there is one.
    """

    metric: str
    systems: Sequence[tuple[str, float, tuple[float, float] | None]]
    copied: float | None


def scores(panels: Sequence[ScorePanel]) -> Any:
    """Draw scores as dots with intervals, with one panel per metric. A dashed line shows the copied source."""
    most = max(len(panel.systems) for panel in panels)
    figure, axes = _grid(len(panels), 2, 4.3, 0.9 + 0.32 * most, legend=0.3)
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.1)  # space for the names on the left of a panel
    for axis, panel in zip(axes.flat, panels, strict=False):
        for place, (_, score, interval) in enumerate(panel.systems):
            if interval is not None:
                axis.plot(interval, (place, place), color=COLOURS[0], linewidth=2)
            axis.plot(score, place, "o", color=COLOURS[0], label="_" if place else "system")
        if panel.copied is not None:
            axis.axvline(panel.copied, color=COLOURS[1], linestyle="--", label="copying the source")
        axis.set_yticks(range(len(panel.systems)), labels([name for name, _, _ in panel.systems], 44))
        axis.set_ylim(len(panel.systems) - 0.5, -0.5)
        axis.grid(axis="x", color="0.9")
        axis.margins(x=0.1)
        axis.locator_params(axis="x", nbins=5)
        axis.set_xlabel(panel.metric)
    if any(panel.copied is not None for panel in panels):
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def summarise(history: TrainingLog, metric: str) -> str:
    """Return one sentence on the best validation and on the first validation that is nearly as good."""
    best = history.best(metric)
    text = f"{history.name}: best {metric} {best.values[metric]:g} at epoch {best.epoch:.2f} (update {best.updates})"
    if metric in LOWER_IS_BETTER:
        return text
    return f"{text}, {NEAR_BEST:.0%} of it by epoch {history.near_best(metric).epoch:.2f}"


def validation_table(histories: list[TrainingLog], metrics: Sequence[str]) -> Table:
    """Return a table with one row per validation."""
    rows = []
    for history in histories:
        for point in history.valid:
            values = [f"{point.values[metric]:g}" if metric in point.values else "" for metric in metrics]
            rows.append([history.name, f"{point.epoch:.3f}", str(point.updates), *values])
    return Table(["system", "epoch", "updates", *metrics], rows)


def draw_curves(histories: list[TrainingLog], metrics: Sequence[str], *, training: bool = False) -> Any:
    """Draw one panel per metric. ``training`` adds a thin line with the values that were logged during training."""
    figure, axes = new_figure(1, len(metrics), (6.4 * len(metrics), 4.4))
    figure.suptitle("Learning curves")
    for panel, metric in zip(axes[0], metrics, strict=True):
        for index, history in enumerate(histories):
            _draw_curve(panel, history, metric, STYLES[index % len(STYLES)], training)
        panel.set_xlabel("epochs")
        panel.set_ylabel(f"validation {_CURVES.get(metric, metric)}" if not training else _CURVES.get(metric, metric))
        panel.set_xlim(left=0)
        panel.grid(color="0.9")
        panel.legend()
        _add_updates(panel, histories)
    return figure


def _draw_curve(panel: Any, history: TrainingLog, metric: str, style: tuple[str, str, str], training: bool) -> None:
    colour, marker, dashes = style
    name = labels([history.name], 44)[0]
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
    """Show numbers of updates along the top if all trainings have equally long epochs."""
    rates = [history.valid[-1].updates / history.valid[-1].epoch for history in histories if history.valid[-1].epoch]
    if not rates or max(rates) > 1.02 * min(rates):
        return
    rate = rates[0]
    top = panel.secondary_xaxis("top", functions=(lambda epoch: epoch * rate, lambda updates: updates / rate))
    top.set_xlabel("updates", fontsize="small")
    top.tick_params(labelsize="small")
