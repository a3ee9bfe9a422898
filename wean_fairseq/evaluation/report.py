"""Renders an `Evaluation`: text for the terminal, Markdown and LaTeX for documents, CSV and JSON for programs."""

import csv
import io
import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .corpus import is_baseline
from .evaluate import SIGNIFICANT, Cell, Evaluation
from .presets import CHOSEN, PRESETS

_TEST_NAMES = {
    "bootstrap": "of the bootstrap with {resamples} resamples",
    "randomization": "of approximate randomisation with {trials} trials",
    "runs": "of the t test over runs and sentences with {resamples} resamples",
}


def display_width(text: str) -> int:
    """Columns that a string takes in a terminal (Chinese characters take two)."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def format_score(score: float) -> str:
    """Two decimals, as the papers print them; what is no number is a dash."""
    return f"{score:.2f}" if math.isfinite(score) else "–"


def format_cell(cell: Cell, intervals: bool = False) -> str:
    """A score with its standard deviation over runs, where there are several, and its interval if wanted."""
    text = format_score(cell.score)
    if cell.deviation is not None:
        text += f" ± {format_score(cell.deviation)}"
    if intervals and cell.interval is not None:
        text += f" [{', '.join(map(format_score, cell.interval))}]"
    return text


def _system_rows(evaluation: Evaluation, intervals: bool) -> list[list[str]]:
    return [
        [name, *(format_cell(cells[column.key], intervals) for column in evaluation.columns)]
        for name, cells in evaluation.cells.items()
    ]


def text_table(evaluation: Evaluation, intervals: bool = False) -> str:
    """Align the table for a terminal; a preset's name stands over its first column."""
    body = [["system", *(column.label for column in evaluation.columns)], *_system_rows(evaluation, intervals)]
    widths = [max(map(display_width, column)) for column in zip(*body, strict=True)]
    heading, previous = "", CHOSEN
    for place, column in enumerate(evaluation.columns, start=1):
        if column.group not in (previous, CHOSEN):
            start = sum(widths[:place]) + 2 * place
            heading = heading.ljust(start) + f"[{column.group}] "
        previous = column.group
    lines = [heading.rstrip()] if heading else []
    for line in body:
        blanks = [" " * (width - display_width(cell)) for width, cell in zip(widths, line, strict=True)]
        numbers = ["  " + blank + cell for blank, cell in zip(blanks[1:], line[1:], strict=True)]
        lines.append("".join([line[0], blanks[0], *numbers]).rstrip())
    return "\n".join(lines)


def size_of(evaluation: Evaluation) -> str:
    """Say on how much text was scored, and of how many runs the means are."""
    runs = {name: len(next(iter(cells.values())).runs) for name, cells in evaluation.cells.items() if cells}
    several = [f"{name} mean ± standard deviation of {number} runs" for name, number in runs.items() if number > 1]
    data = evaluation.data
    return "; ".join([f"{data['sentences']} sentences, {data['references']} reference(s)", *several])


def render_text(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return everything a reader needs: size, table, signatures, tests, notes, warnings."""
    parts = [size_of(evaluation), "", text_table(evaluation, intervals), ""]
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
    """Describe the tests, and what they were corrected for."""
    data = evaluation.data
    used = dict.fromkeys(test for item in evaluation.comparisons for test in item.p_values)
    named = " / ".join(_TEST_NAMES[test].format(**data) for test in used)
    corrected = (
        "Holm's correction for the systems compared with the same one"
        if data["correction"]
        else "not corrected for several systems or metrics"
    )
    return f"paired tests (p {named}, seed {data['seed']}; {corrected}; * = all below {SIGNIFICANT}):"


def comparison_lines(evaluation: Evaluation) -> list[str]:
    """Return one line per pair of systems; descriptive metrics (copy rate, lengths) are left to the JSON."""
    quality = {column.key for column in evaluation.columns if column.metric.higher_is_better}
    lines: dict[str, list[str]] = {}
    for item in evaluation.comparisons:
        if item.metric in quality:
            number = f"{item.shown_difference} ({item.shown_p}){'*' if item.is_significant else ''}"
            lines.setdefault(f"{item.system} vs {item.baseline}", []).append(f"{item.metric} {number}")
    return [f"{pair}: {', '.join(numbers)}" for pair, numbers in lines.items()]


def markdown_row(cells: Sequence[str]) -> str:
    """One row of a table; a bar in a name is part of the name."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def column_labels(evaluation: Evaluation) -> list[str]:
    """Name every column with its preset."""
    return [
        column.label if column.group == CHOSEN else f"{column.group}: {column.label}" for column in evaluation.columns
    ]


def render_markdown(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return the table, signatures, tests and warnings as Markdown."""
    labels = column_labels(evaluation)
    lines = [markdown_row(["system", *labels]), f"|---|{'--:|' * len(labels)}"]
    for name, *cells in _system_rows(evaluation, intervals):
        lines.append(markdown_row([f"*{name}*" if is_baseline(name) else name, *cells]))
    lines += ["", f"{size_of(evaluation)}. Signatures:", ""]
    lines += [f"- {column.key}: `{evaluation.signatures[column.key]}`" for column in evaluation.columns]
    if evaluation.comparisons:
        lines += ["", comparison_heading(evaluation).capitalize(), ""]
        lines += [f"- {line}" for line in comparison_lines(evaluation)]
    lines += [f"\nNote: {note}" for note in notes(evaluation)]
    lines += [f"\nWarning: {warning}" for warning in evaluation.warnings]
    return "\n".join(lines) + "\n"


_LATEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def latex_text(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    return "".join(_LATEX_SIGNS.get(sign, sign) for sign in text)


def render_latex(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return a table for the booktabs package; what must be told with it follows as comments."""
    labels = column_labels(evaluation)
    lines = [rf"\begin{{tabular}}{{l{'r' * len(labels)}}}", r"\toprule"]
    rows = [["system", *labels], *_system_rows(evaluation, intervals)]
    lines += [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    lines.insert(3, r"\midrule")
    lines += [r"\bottomrule", r"\end{tabular}"]
    told = [size_of(evaluation), *(f"{key}: {signature}" for key, signature in evaluation.signatures.items())]
    if evaluation.comparisons:
        told += [comparison_heading(evaluation), *comparison_lines(evaluation)]
    told += [*notes(evaluation), *(f"warning: {warning}" for warning in evaluation.warnings)]
    return "\n".join([*lines, *(f"% {line}" for line in told)]) + "\n"


def render_csv(evaluations: Mapping[str, Evaluation]) -> str:
    """Return a line for every score of every test set; tests of a system are those against the first one."""
    tests = ("bootstrap", "randomization", "runs")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["set", "system", "metric", "score", "runs", "deviation", "low", "high", "baseline", "difference"]
        + [f"p_{test}" for test in tests]
        + ["correction", "signature"]
    )
    for name, evaluation in evaluations.items():
        first = next((system for system in evaluation.cells if not is_baseline(system)), "")
        found = {(item.system, item.metric): item for item in evaluation.comparisons if item.baseline == first}
        for system, cells in evaluation.cells.items():
            for key, cell in cells.items():
                test = found.get((system, key))
                p_values = {} if test is None else test.decisive
                numbers = [cell.score, len(cell.runs), cell.deviation, *(cell.interval or (None, None))]
                against = [first, _finite(test.difference)] if test else [None, None]
                writer.writerow(
                    [name, system, key, *map(_finite, numbers), *against, *(p_values.get(kind) for kind in tests)]
                    + [evaluation.data["correction"] if test else None, evaluation.signatures[key]]
                )
    return text.getvalue()


def _finite(number: float | None) -> float | None:
    """A number that JSON has; what is no number is ``null``."""
    return number if number is not None and math.isfinite(number) else None


def cell_json(cell: Cell, signature: str, sentences: bool) -> dict[str, Any]:
    """Return ``{score, signature, ci}``, the runs where there are several, the sentence scores when asked for."""
    result: dict[str, Any] = {
        "score": _finite(cell.score),
        "signature": signature,
        "ci": list(cell.interval) if cell.interval is not None and all(map(math.isfinite, cell.interval)) else None,
    }
    if cell.deviation is not None:
        result |= {"runs": [_finite(score) for score in cell.runs], "deviation": _finite(cell.deviation)}
    if sentences and cell.sentences is not None:
        result["sentences"] = [_finite(float(value)) for value in cell.sentences]
    return result


def as_json(evaluation: Evaluation, sentences: bool = False) -> dict[str, Any]:
    """Return ``{systems: {NAME: {metric: {score, signature, ci}}}, pairwise: [...], data: {...}}``."""
    return {
        "systems": {
            name: {key: cell_json(cell, evaluation.signatures[key], sentences) for key, cell in cells.items()}
            for name, cells in evaluation.cells.items()
        },
        "pairwise": [asdict(item) | {"difference": _finite(item.difference)} for item in evaluation.comparisons],
        "data": {**evaluation.data, "warnings": evaluation.warnings},
    }


def render_json(content: Mapping[str, Any]) -> str:
    """Return the JSON text."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
