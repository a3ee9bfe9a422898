"""Generate the tables of scores in Markdown documents from the files of ``wean-evaluate record``.

A table is between two markers and is never edited by hand::

    <!-- results: wean_pwkp -->
    <!-- /results -->

``<!-- results: wean_pwkp bleu sari parameters -->`` shows only these metrics, and these costs of the trainings (see
``COSTS``). ``<!-- results: wean_pwkp+dress_pwkp bleu -->`` shows the systems of both results in one table.
``wean-evaluate tables README.md docs/*.md`` writes the tables. With ``--check`` it only reports documents that are out
of date (for CI).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..console import OneLineParser, counted, markdown, markdown_code, markdown_note
from ..errors import UserError
from .corpus import is_baseline
from .results import Result, Training, read_result
from .tables import Table
from .text_files import PathLike, read_text, write_atomically

_BLOCK = re.compile(
    r"(<!-- results: ([\w.+-]+)((?: [^\s<>]+)*) -->[ \t]*(\r?\n))(?:(?!<!-- results: ).)*?(<!-- /results -->)",
    re.DOTALL,
)
#: Columns with the costs of a system's training: a function of the training, and the format of its result. If there are
#: several trainings, tables show the mean.
COSTS: dict[str, tuple[Callable[[Training], float | None], str]] = {
    "parameters": (lambda training: training.parameters, ",.0f"),
    "rate": (lambda training: training.option("--lr"), "g"),
    "epochs": (lambda training: training.epochs, ".0f"),
    "best-epoch": (lambda training: training.epoch_of_best, ".0f"),
    "cpu-minutes": (lambda training: None if training.cpu_seconds is None else training.cpu_seconds / 60, ".0f"),
}


def tables_command(argv: list[str]) -> str:
    """Run ``wean-evaluate tables``."""
    description = "Write the tables between result markers in Markdown documents."
    parser = OneLineParser(prog="wean-evaluate tables", description=description)
    parser.add_argument("documents", nargs="+", metavar="FILE", help="Markdown files")
    parser.add_argument("--results", default="results", metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a table is out of date")
    args = parser.parse_args(argv)
    texts = {document: read_text(document) for document in args.documents}
    new = {document: fill(text, args.results, document) for document, text in texts.items()}
    stale = [document for document, text in texts.items() if new[document] != text]
    if args.check and stale:
        raise UserError(f"{', '.join(stale)}: tables are out of date; run wean-evaluate tables {' '.join(stale)}.")
    for document in stale:
        if Path(document).stat().st_nlink > 1:
            raise UserError(f"{document} has other names (hard links), which would keep the old tables: copy it.")
    for document in stale:
        write_atomically(document, new[document])
    return f"{len(stale)} of {len(args.documents)} documents changed.\n"


def fill(text: str, folder: PathLike, document: PathLike) -> str:
    """Return a document in which all tables are generated again."""
    filled = {block.start() for block in _BLOCK.finditer(text)}
    wrong = next(
        (found.start() for found in re.finditer(r"<!--\s*results\s*:", text) if found.start() not in filled), None
    )
    if wrong is not None:
        line = text.count("\n", 0, wrong) + 1
        raise UserError(
            f"{document}, line {line}: a results marker has no <!-- /results --> after it, or is not of the form "
            "<!-- results: NAME METRICS --> at the end of a line; correct it."
        )

    def fill_block(block: re.Match[str]) -> str:
        paths = [Path(folder, f"{name}.json") for name in block[2].split("+")]
        results = {path: read_result(path) for path in paths}
        table = result_table(results, block[3].split(), document)
        texts = [table, *(result.note for result in results.values())]
        if any(marker in text for marker in ("<!-- results: ", "<!-- /results -->") for text in texts):
            file = " or ".join(map(str, paths))
            raise UserError(f"{file} has a results marker in a text, which would end the table: remove it.")
        return block[1] + table.replace("\n", block[4]) + block[5]

    return _BLOCK.sub(fill_block, text)


def result_table(results: Mapping[Path, Result], metrics: list[str], document: PathLike) -> str:
    """Return the Markdown of one table with the systems of all results, with the given metrics or all metrics.

    Args:
        results: path -> result.

    Raises:
        UserError: if a result lacks a metric, or if two results cannot be in one table, because they scored other
            texts, computed a metric differently, have other seeds, or have other scores of the same system.
    """
    first_path, first = next(iter(results.items()))
    columns, data = first.evaluation.columns, first.evaluation.data
    # Costs, such as the CPU hours of a training, may be listed between the scores.
    shown = [metric for metric in metrics if metric in columns] or list(columns)
    rows: dict[str, list[str]] = {}
    for path, result in results.items():
        _check_complete(result, metrics, shown, path, document)
        new = _rows(result, metrics or shown)
        repeated = [name for name in new if name in rows and rows[name] != new[name]]
        for part in [*_differences(first, result, shown), *(f"the row of {name}" for name in repeated)]:
            raise UserError(f"{document}: {first_path} and {path} differ in {part}: show them in two tables.")
        rows |= new
    seeds = _seeds(first)
    facts = [counted(data.sentences, "sentence"), counted(data.references, "reference")]
    facts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
    scored = (
        scores[key] for result in results.values() for scores in result.evaluation.scores.values() for key in shown
    )
    intervals = " Intervals are 95% bootstrap intervals." if any(score.interval for score in scored) else ""
    if len(seeds) > 1:
        intervals = (
            " Scores with ± are means over the seeds, with 95% t intervals. Other intervals are 95% bootstrap "
            "intervals."
        )
    lines = [Table(["system", *(metrics or shown)], [[name, *row] for name, row in rows.items()]).as_markdown(), ""]
    if len(results) == 1:
        facts += _commit(first)
        lines.append(f"{', '.join(facts)}.{intervals} Command: {markdown_code(first.command)}.")
        lines += map(markdown_note, first.note.splitlines())
    else:
        lines += [f"{', '.join(facts)}.{intervals}", ""]
        for result in results.values():
            names = ", ".join(markdown(name) for name in result.evaluation.scores if not is_baseline(name))
            lines.append(f"* {': '.join([names, *_commit(result)])}. Command: {markdown_code(result.command)}.")
            lines += [f"  {markdown_note(line)}" for line in result.note.splitlines()]
        lines.append("")
    signed = (f"{markdown(metric)} {markdown_code(columns[metric].signature)}" for metric in shown)
    lines.append(f"Signatures: {'; '.join(signed)}.")
    return "\n".join(lines) + "\n"


def _check_complete(result: Result, metrics: list[str], shown: list[str], path: Path, document: PathLike) -> None:
    """Raise ``UserError`` unless a result has all ``metrics``, and each ``shown`` one for every system."""
    known = [*result.evaluation.columns, *(COSTS if result.trainings else {})]
    for metric in metrics:
        if metric not in known:
            raise UserError(f"{document}: {result.experiment} has no metric {metric}; choose from {', '.join(known)}.")
    incomplete = [name for name, scores in result.evaluation.scores.items() if not scores.keys() >= set(shown)]
    if incomplete or not result.evaluation.data.references:
        lacking = f"no scores of {incomplete[0]}" if incomplete else "no number of references"
        raise UserError(f"{path} has {lacking}; give a file of wean-evaluate record.")


def _differences(first: Result, other: Result, shown: list[str]) -> Iterator[str]:
    """Name what makes the scores of two results incomparable."""
    for role in ("references", "source"):
        files = [[file.sha256 for file in result.evaluation.data.files.get(role, [])] for result in (first, other)]
        if files[0] != files[1]:
            yield f"the {role}"
    for metric in shown:
        if first.evaluation.columns[metric].signature != other.evaluation.columns[metric].signature:
            yield f"the signature of {metric}"
    if _seeds(first) != _seeds(other):
        yield "the seeds"


def _rows(result: Result, head: list[str]) -> dict[str, list[str]]:
    """Return the scores (with intervals) and the costs of every system, as shown in a table."""
    return {
        name: [
            scores[column].format(intervals=True)
            if column in result.evaluation.columns
            else format_cost(column, result.trainings.get(name, Training()))
            for column in head
        ]
        for name, scores in result.evaluation.scores.items()
    }


def _seeds(result: Result) -> list[int]:
    return result.seeds or [result.seed]  # older records contain only a single seed


def _commit(result: Result) -> list[str]:
    """Return the text about the commit of a result, or nothing if it is unknown."""
    if result.commit in (None, "unknown"):
        return []
    commit, changes, _ = str(result.commit).partition("-dirty")
    return [f"commit {markdown(commit[:12])}" + (" with uncommitted changes" if changes else "")]


def format_cost(column: str, training: Training) -> str:
    """Return the cost ``column`` (see ``COSTS``) of a system's training, or the mean over its ``runs``.

    Return a dash if the cost is unknown.
    """
    value_of, form = COSTS[column]
    values = [value_of(run) for run in training.runs or [training]]
    known = [value for value in values if value is not None]
    return format(sum(known) / len(known), form) if known and len(known) == len(values) else "-"
