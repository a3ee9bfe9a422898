"""The published tables that a test set belongs to, with our rows below the papers'."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from wean_fairseq.evaluation.corpus import COPY_ROW
from wean_fairseq.evaluation.published import TABLES, Row, Table
from wean_fairseq.reporting.document import Cell, TableBlock
from wean_fairseq.reporting.runs import ScoredSet
from wean_fairseq.reporting.scores import Experiment, keys_of, names_of, score_cell


def published_tables(experiment: Experiment, name: str) -> Iterator[TableBlock]:
    """The published tables that a test set belongs to, with our rows below the papers'."""
    tests = experiment.tests(name)
    keys = set(keys_of(tests))
    for table in TABLES.values():
        if not any(key in keys for column in table.columns for key in column.keys):
            continue
        data = _data_of(table, experiment, name)
        if data:
            yield _beside(table, data, experiment, name)


def _called(experiment: Experiment, name: str) -> list[str]:
    """What the experiment and its data are called, as patterns of a published table may say it."""
    run = experiment.runs[0]
    test = run.sets.get(name) or experiment.tests(name)[0]
    path = run.path.resolve()
    script = str(test.manifest.get("script", ""))
    kind = script.split("_", maxsplit=1)[0]
    names = [script, name, experiment.title, f"{path.parent.name}_{path.name}", f"{kind}_{name}"]
    return [text.lower().replace("-", "_").replace("/", "_") for text in names]


def _data_of(table: Table, experiment: Experiment, name: str) -> str:
    """Which data set of a published table a test set is, or nothing.

    The preset of a table with one data set says it; standard metrics say nothing about the data.
    """
    keys = set(keys_of(experiment.tests(name)))
    if len(table.rows) == 1 and any(key in keys and "/" in key for column in table.columns for key in column.keys):
        return next(iter(table.rows))
    called = _called(experiment, name)
    for data, patterns in table.experiments.items():
        if any(fnmatch(text, pattern) for text in called for pattern in patterns):
            return data
    return ""


def _beside(table: Table, data: str, experiment: Experiment, name: str) -> TableBlock:
    tests = experiment.tests(name)
    columns = [next((key for key in column.keys if key in keys_of(tests)), "") for column in table.columns]
    shown = [key for key in columns if key]

    def ours(system: str) -> list[Cell]:
        return [score_cell(tests, system, key) if key else Cell("not scored") for key in columns]

    rows = [[Cell(COPY_ROW), Cell("ours"), *ours(COPY_ROW)]] if COPY_ROW in names_of(tests) else []
    left = [system for system in names_of(tests) if system != COPY_ROW]
    for label, row in table.rows[data].items():
        numbers = (
            Cell("–" if score is None else f"{score:.{column.decimals}f}", mark="published")
            for score, column in zip(row.scores, table.columns, strict=True)
        )
        rows.append([Cell(label), Cell("published", mark="published"), *numbers])
        for system in _runs_of(row, tests, experiment, name):
            rows.append([Cell(system), Cell("ours"), *ours(system)])
            left = [other for other in left if other != system]
    rows += [[Cell(system), Cell("ours, not in the paper"), *ours(system)] for system in left]
    notes = [table.note] if table.note else []
    scored = ", ".join(dict.fromkeys(shown))
    notes.append(f"Ours: {_our_data(tests[0])}, {scored}; a published number was computed by its own paper's scorer.")
    heads = [f"{column.label} (ours: {column.own})" if column.own else column.label for column in table.columns]
    return TableBlock(f"{table.source}: {table.title}, {data}", ["system", "numbers", *heads], rows, notes)


def _our_data(test: ScoredSet) -> str:
    """What our rows are scored on, which need not be what the paper's are."""
    script = test.manifest.get("script")
    size = f"{test.data.get('sentences', 0):,} sentences of {test.name}"
    return f"{size}, prepared by preprocess/{script}.py" if script else size


def _runs_of(row: Row, tests: Sequence[ScoredSet], experiment: Experiment, name: str) -> list[str]:
    """Our systems that a published row is compared with."""
    if row.experiments and not any(
        fnmatch(text, pattern) for text in _called(experiment, name) for pattern in row.experiments
    ):
        return []
    return [system for system in row.runs if system in names_of(tests)]
