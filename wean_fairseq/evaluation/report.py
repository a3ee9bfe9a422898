"""Write an `Evaluation` as text for a terminal, as Markdown or LaTeX for a document, or as CSV or JSON."""

import json
from collections.abc import Mapping

from ..console import counted, markdown, markdown_code
from ..errors import printable
from .corpus import is_baseline
from .presets import METRIC_PRESETS
from .score_file import SIGNIFICANT, Evaluation, replace_nan
from .tables import Table

_TEST_NAMES = {
    "bootstrap": "of the bootstrap with {resamples} resamples",
    "randomization": "of approximate randomisation with {trials} trials",
    "runs": "of the t test over runs and sentences with {resamples} resamples",
}
_HEADINGS = {"text": "== {} ==\n", "markdown": "### {}\n\n", "latex": "% {}\n"}


def score_table(evaluation: Evaluation, intervals: bool, *, form: str) -> Table:
    """Return a table with one row per system and one column per metric.

    In the text form, the name of the preset is shown above its columns.
    """
    columns = evaluation.columns
    heads = [
        f"{column.preset}: {column.heading}" if column.preset and form != "text" else column.heading
        for column in columns.values()
    ]
    rows = [
        [
            f"*{name}*" if form == "markdown" and is_baseline(name) else name,
            *(scores[key].format(intervals) for key in columns),
        ]
        for name, scores in evaluation.scores.items()
    ]
    return Table(["system", *heads], rows, groups=["", *(column.preset for column in columns.values())])


def size_of(evaluation: Evaluation) -> str:
    """Describe the size of the test set by its numbers of sentences and references.

    Systems with several runs are also named, with their numbers of runs.
    """
    runs = {name: len(next(iter(scores.values())).runs) for name, scores in evaluation.scores.items() if scores}
    several = [f"{name} mean ± standard deviation of {number} runs" for name, number in runs.items() if number > 1]
    data = evaluation.data
    size = f"{counted(data.sentences, 'sentence')}, {counted(data.references, 'reference')}"
    return "; ".join([size, *several])


def notes(evaluation: Evaluation) -> list[str]:
    """Return the notes on those paper presets whose metrics the table contains."""
    used = dict.fromkeys(column.preset for column in evaluation.columns.values() if column.preset in METRIC_PRESETS)
    return [f"{preset}: {METRIC_PRESETS[preset].note}." for preset in used if METRIC_PRESETS[preset].note]


def comparison_heading(evaluation: Evaluation) -> str:
    """Describe the tests and their correction."""
    data = evaluation.data
    used = dict.fromkeys(test for comparison in evaluation.comparisons for test in comparison.p_values)
    named = " / ".join(_TEST_NAMES[test].format(resamples=data.resamples, trials=data.trials) for test in used)
    corrected = (
        "Holm's correction for the systems compared with the same one"
        if data.correction
        else "not corrected for several systems or metrics"
    )
    return f"paired tests (p {named}, seed {data.seed}; {corrected}; * = all below {SIGNIFICANT}):"


def comparison_lines(evaluation: Evaluation) -> list[str]:
    """Return one line with all test results for each pair of systems.

    Differences of descriptive metrics (copy rate, lengths) are only in the JSON.
    """
    lines: dict[str, list[str]] = {}
    for test in evaluation.comparisons:
        if evaluation.columns[test.metric].is_quality:
            number = f"{test.shown_difference} ({test.shown_p}){'*' if test.is_significant else ''}"
            lines.setdefault(f"{test.system} vs {test.baseline}", []).append(f"{test.metric} {number}")
    return [f"{pair}: {', '.join(numbers)}" for pair, numbers in lines.items()]


def render_text(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return the evaluation as text: size, table, signatures, tests, notes and warnings."""
    lines = [size_of(evaluation), "", score_table(evaluation, intervals, form="text").as_text(), ""]
    lines += [f"{key}: {column.signature}" for key, column in evaluation.columns.items()]
    if evaluation.comparisons:
        lines += ["", comparison_heading(evaluation)]
        lines += [f"  {line}" for line in comparison_lines(evaluation)]
    lines += [f"note: {note}" for note in notes(evaluation)]
    lines += [f"warning: {warning}" for warning in evaluation.data.warnings]
    return "\n".join(lines) + "\n"


def render_markdown(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return the evaluation as Markdown: table, signatures, tests, notes and warnings."""
    lines = [score_table(evaluation, intervals, form="markdown").as_markdown()]
    lines += ["", f"{markdown(size_of(evaluation))}. Signatures:", ""]
    lines += [f"- {markdown(key)}: {markdown_code(column.signature)}" for key, column in evaluation.columns.items()]
    if evaluation.comparisons:
        lines += ["", comparison_heading(evaluation).capitalize(), ""]
        lines += [f"- {markdown(line)}" for line in comparison_lines(evaluation)]
    lines += [f"\nNote: {note}" for note in notes(evaluation)]
    lines += [f"\nWarning: {markdown(warning)}" for warning in evaluation.data.warnings]
    return "\n".join(lines) + "\n"


def render_latex(evaluation: Evaluation, intervals: bool = False) -> str:
    """Return a LaTeX table for the package booktabs.

    Size, signatures, tests, notes and warnings are LaTeX comments below the table.
    """
    comments = [size_of(evaluation), *(f"{key}: {column.signature}" for key, column in evaluation.columns.items())]
    if evaluation.comparisons:
        comments += [comparison_heading(evaluation), *comparison_lines(evaluation)]
    comments += [*notes(evaluation), *(f"warning: {warning}" for warning in evaluation.data.warnings)]
    table = score_table(evaluation, intervals, form="latex").as_latex()
    return "\n".join([table, *(f"% {printable(line)}" for line in comments)]) + "\n"


def render_csv(evaluations: Mapping[str, Evaluation]) -> str:
    """Return a CSV table with one line for every score of every system and test set.

    The p-values in it compare each system with the first system.
    """
    tests = ("bootstrap", "randomization", "runs")
    head = ["set", "system", "metric", "score", "runs", "deviation", "low", "high", "baseline", "difference"]
    head += [*(f"p_{test}" for test in tests), "correction", "signature"]
    rows: list[list[str]] = []
    for name, evaluation in evaluations.items():
        first = next((system for system in evaluation.scores if not is_baseline(system)), "")
        compared = {(test.system, test.metric): test for test in evaluation.comparisons if test.baseline == first}
        for system, scores in evaluation.scores.items():
            for key, score in scores.items():
                test = compared.get((system, key))
                row = [name, system, key, score.score, len(score.runs) or 1, score.deviation]
                row += [*(score.interval or (None, None)), *((first, test.difference) if test else (None, None))]
                row += [test.decisive.get(kind) if test else None for kind in tests]
                row += [evaluation.data.correction if test else None, evaluation.columns[key].signature]
                rows.append(["" if cell is None else str(cell) for cell in replace_nan(row)])
    return Table(head, rows).as_csv()


def render_all(form: str, evaluations: Mapping[str, Evaluation], *, intervals: bool, sentences: bool) -> str:
    """Return the evaluations of all test sets in one output form.

    If there is only one test set, its name may be empty.
    """
    if form == "csv":
        return render_csv(evaluations)
    if form == "json":
        contents = {name: evaluation.as_json(sentences) for name, evaluation in evaluations.items()}
        content = contents.get("", {"sets": contents})
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write = {"text": render_text, "markdown": render_markdown, "latex": render_latex}[form]
    escape = markdown if form == "markdown" else str
    return "\n".join(
        (_HEADINGS[form].format(escape(name)) if name else "") + write(evaluation, intervals)
        for name, evaluation in evaluations.items()
    )
