"""Renders an `Evaluation`: text table for the terminal, Markdown for documents, JSON for everything else."""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from wean_fairseq.evaluation.corpus import COPY_ROW
from wean_fairseq.evaluation.evaluate import Cell, Evaluation
from wean_fairseq.evaluation.presets import CHOSEN, PRESETS

#: p-values below this are marked with a star.
SIGNIFICANT = 0.05
_RATIO_LABELS = frozenset({"len/ref", "len/src"})


def display_width(text: str) -> int:
    """Columns that a string takes in a terminal (Chinese characters take two)."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def pad(text: str, width: int, right: bool) -> str:
    """Pad a string to a display width."""
    blank = " " * (width - display_width(text))
    return blank + text if right else text + blank


def format_score(score: float) -> str:
    """Two decimals, as the papers print them."""
    return f"{score:.2f}"


def _grid(evaluation: Evaluation) -> list[list[str]]:
    """Return the table as strings: group line, label line, then one line per system."""
    groups = [column.group if column.group != CHOSEN else "" for column in evaluation.columns]
    shown = [group if place == 0 or groups[place - 1] != group else "" for place, group in enumerate(groups)]
    lines = [["", *shown], ["system", *(column.label for column in evaluation.columns)]]
    for name, cells in evaluation.cells.items():
        lines.append([name, *(format_score(cells[column.key].score) for column in evaluation.columns)])
    return lines


def text_table(evaluation: Evaluation) -> str:
    """Align the grid for a terminal; a preset's name stands over its first column."""
    groups, labels, *systems = _grid(evaluation)
    body = [labels, *systems]
    widths = [max(display_width(line[place]) for line in body) for place in range(len(labels))]
    lines = []
    if any(groups):
        heading, position = "", 0
        starts = [sum(widths[:place]) + 2 * place for place in range(len(widths))]
        for place, group in enumerate(groups):
            if group:
                position = max(position, starts[place])
                heading = heading.ljust(position) + f"[{group}] "
                position = len(heading)
        lines.append(heading.rstrip())
    lines += [
        "  ".join(pad(cell, widths[place], place > 0) for place, cell in enumerate(line)).rstrip() for line in body
    ]
    return "\n".join(lines)


def render_text(evaluation: Evaluation) -> str:
    """Return everything a reader needs: size, table, signatures, tests, notes, warnings."""
    data = evaluation.data
    parts = [f"{data['sentences']} sentences, {data['references']} reference(s)", "", text_table(evaluation), ""]
    parts += [f"{column.key}: {evaluation.signatures[column.key]}" for column in evaluation.columns]
    if evaluation.comparisons:
        parts += ["", comparison_heading(evaluation)]
        parts += [f"  {line}" for line in comparison_lines(evaluation)]
    parts += [f"note: {note}" for note in notes(evaluation)]
    parts += [f"warning: {warning}" for warning in evaluation.warnings]
    return "\n".join(parts) + "\n"


def notes(evaluation: Evaluation) -> list[str]:
    """Return what a reader must know about the paper presets in the table."""
    used = dict.fromkeys(column.group for column in evaluation.columns if column.group in PRESETS)
    return [f"{group}: {PRESETS[group].note}." for group in used if PRESETS[group].note]


def comparison_heading(evaluation: Evaluation) -> str:
    """Describe the tests."""
    data = evaluation.data
    return (
        f"paired tests (p of the bootstrap with {data['resamples']} resamples / of approximate randomisation with "
        f"{data['trials']} trials, seed {data['seed']}; * = both below {SIGNIFICANT}):"
    )


def comparison_lines(evaluation: Evaluation) -> list[str]:
    """Return one line per pair of systems; descriptive metrics (copy rate, lengths) are left to the JSON."""
    quality = {column.key for column in evaluation.columns if column.metric.higher_is_better}
    lines: dict[str, list[str]] = {}
    for item in evaluation.comparisons:
        if item.key in quality:
            result = item.result
            star = "*" if max(result.p_bootstrap, result.p_randomization) < SIGNIFICANT else ""
            number = f"{result.difference:+.2f} ({result.p_bootstrap:.4f}/{result.p_randomization:.4f}){star}"
            lines.setdefault(f"{item.system} vs {item.baseline}", []).append(f"{item.key} {number}")
    return [f"{pair}: {', '.join(numbers)}" for pair, numbers in lines.items()]


def markdown_row(cells: Sequence[str]) -> str:
    """One row of a table; a bar in a name is part of the name."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render_markdown(evaluation: Evaluation) -> str:
    """Return the table, signatures, tests and warnings as Markdown."""
    labels = [
        column.label if column.group == CHOSEN else f"{column.group}: {column.label}" for column in evaluation.columns
    ]
    lines = [markdown_row(["system", *labels]), f"|---|{'--:|' * len(labels)}"]
    for name, cells in evaluation.cells.items():
        shown = f"*{name}*" if name == COPY_ROW else name
        lines.append(markdown_row([shown, *(format_score(cells[column.key].score) for column in evaluation.columns)]))
    lines += [
        "",
        f"{evaluation.data['sentences']} sentences, {evaluation.data['references']} reference(s). Signatures:",
        "",
    ]
    lines += [f"- {column.key}: `{evaluation.signatures[column.key]}`" for column in evaluation.columns]
    if evaluation.comparisons:
        lines += [
            "",
            comparison_heading(evaluation).capitalize(),
            "",
            *(f"- {line}" for line in comparison_lines(evaluation)),
        ]
    lines += [f"\nNote: {note}" for note in notes(evaluation)]
    lines += [f"\nWarning: {warning}" for warning in evaluation.warnings]
    return "\n".join(lines) + "\n"


def cell_json(cell: Cell, signature: str, sentences: bool) -> dict[str, Any]:
    """Return ``{score, signature, ci}`` (and the sentence scores when asked for)."""
    interval = cell.interval
    result: dict[str, Any] = {
        "score": cell.score,
        "signature": signature,
        "ci": None if interval is None else [interval.low, interval.high],
    }
    if sentences and cell.sentences is not None:
        result["sentences"] = [float(value) for value in cell.sentences]
    return result


def as_json(evaluation: Evaluation, sentences: bool = False) -> dict[str, Any]:
    """Return ``{systems: {NAME: {metric: {score, signature, ci}}}, pairwise: [...], data: {...}}``."""
    return {
        "systems": {
            name: {key: cell_json(cell, evaluation.signatures[key], sentences) for key, cell in cells.items()}
            for name, cells in evaluation.cells.items()
        },
        "pairwise": [
            {
                "metric": item.key,
                "baseline": item.baseline,
                "system": item.system,
                "difference": item.result.difference,
                "p_bootstrap": item.result.p_bootstrap,
                "p_randomization": item.result.p_randomization,
            }
            for item in evaluation.comparisons
        ],
        "data": {**evaluation.data, "warnings": evaluation.warnings},
    }


def render_json(evaluation: Evaluation, sentences: bool = False) -> str:
    """Return the JSON text."""
    return json.dumps(as_json(evaluation, sentences), indent=2, ensure_ascii=False) + "\n"
