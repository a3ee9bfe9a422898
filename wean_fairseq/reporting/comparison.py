"""The published tables that a test set belongs to, with our rows below the papers'."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..evaluation.corpus import COPY_ROW
from ..evaluation.published import TABLES, Row, Table, fits
from .document import Cell, TableBlock
from .scores import Entry, cell_beside, copy_cell, name_of_keys

_ABSENT = "not scored"


def published_tables(entries: Sequence[Entry]) -> Iterator[TableBlock]:
    """The published tables that one test set belongs to, with the rows of all experiments below the papers'."""
    for table in TABLES.values():
        belonging: dict[str, list[Entry]] = {}
        for entry in entries:
            data = _data_name(table, entry) if any(_keys(table, entry)) else ""
            if data:
                belonging.setdefault(data, []).append(entry)
        for data, found in belonging.items():
            yield _comparison_table(table, data, found)


def _keys(table: Table, entry: Entry) -> list[str]:
    """Of each column the score of ours that it is compared with, or nothing."""
    return [column.key_in(entry.evaluation.signatures) for column in table.columns]


def _experiment_names(entry: Entry) -> list[str]:
    """Names of the experiment and its data, as patterns of a published table may say them."""
    run = entry.experiment.runs[0]
    path = run.path.resolve()
    script = str(entry.manifest.get("script", ""))
    kind = script.split("_", maxsplit=1)[0]
    names = [script, entry.name, entry.experiment.title, f"{path.parent.name}_{path.name}", f"{kind}_{entry.name}"]
    return [_pattern_name(name) for name in names]


def _data_name(table: Table, entry: Entry) -> str:
    """Which data set of a published table a test set is, or nothing.

    The preset of a table with one data set says it; standard metrics say nothing about the data. Where names do not
    agree (one script prepares ESSAY and ZhiHu), the folder that the data came from counts first, then that of the run.
    """
    run = entry.experiment.runs[0]
    if run.is_own_data:
        return ""
    if len(table.rows) == 1 and any("/" in key for key in _keys(table, entry)):
        return next(iter(table.rows))
    called = _experiment_names(entry)
    if not any(_matching_data(table, name) for name in called):
        return ""
    folders = [_pattern_name(Path(run.settings.get("DATA", "")).name), _pattern_name(run.path.resolve().name)]
    return next(data for name in [*folders, *called] if (data := _matching_data(table, name)))


def _matching_data(table: Table, name: str) -> str:
    return next((data for data, patterns in table.experiments.items() if fits(name, patterns)), "")


def _pattern_name(name: str) -> str:
    """A name as patterns of published tables are written."""
    return name.lower().replace("-", "_").replace("/", "_")


def _comparison_table(table: Table, data: str, entries: Sequence[Entry]) -> TableBlock:
    found = [
        {entry: key for entry in entries if (key := _keys(table, entry)[place])} for place in range(len(table.columns))
    ]

    def ours(entry: Entry, system: str, origin: str) -> list[Cell]:
        named = f"{origin}, {entry.experiment.title}" if len(entries) > 1 else origin
        return [Cell(system), Cell(named), *(cell_beside(entry, system, keys, _ABSENT) for keys in found)]

    rows = []
    if any(COPY_ROW in entry.evaluation.cells for entry in entries):
        rows.append([Cell(COPY_ROW), Cell("ours"), *(copy_cell(keys, _ABSENT) for keys in found)])
    left = [(entry, system) for entry in entries for system in entry.systems]
    for label, row in table.rows[data].items():
        shown = (column.shown(score, "–") for score, column in zip(row.scores, table.columns, strict=True))
        rows.append([Cell(label), *(Cell(text, mark="published") for text in ("published", *shown))])
        for entry in entries:
            for system in _runs_of(row, entry):
                rows.append(ours(entry, system, "ours"))
                left = [other for other in left if other != (entry, system)]
    rows += [ours(entry, system, "ours, not in the paper") for entry, system in left]
    notes = [table.note] if table.note else []
    scored = name_of_keys([key for entry in entries for key in _keys(table, entry) if key])
    notes.append(f"Ours: {_our_data(entries[0])}, {scored}; a published number was computed by its own paper's scorer.")
    head = ["system", "numbers", *(column.head for column in table.columns)]
    return TableBlock(f"{table.source}: {table.title}, {data}", head, rows, notes)


def _our_data(entry: Entry) -> str:
    script = entry.manifest.get("script")
    size = f"{entry.evaluation.data['sentences']:,} sentences of {entry.name}"
    return f"{size}, prepared by preprocess/{script}.py" if script else size


def _runs_of(row: Row, entry: Entry) -> list[str]:
    if row.experiments and not any(fits(name, row.experiments) for name in _experiment_names(entry)):
        return []
    return [system for system in row.runs if system in entry.evaluation.cells]
