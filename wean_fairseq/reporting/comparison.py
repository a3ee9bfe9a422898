"""Published tables with our rows below the papers' rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..evaluation.corpus import COPY_ROW
from ..evaluation.published import PUBLISHED_TABLES, PublishedRow, PublishedTable, fits
from ..evaluation.tables import Cell, Table
from .scores import Entry, cell_beside, copy_cell, name_columns

_ABSENT = "not scored"


def published_tables(entries: Sequence[Entry]) -> Iterator[Table]:
    """Yield the published tables that one test set belongs to, with the rows of all experiments below them."""
    for table in PUBLISHED_TABLES.values():
        entries_of: dict[str, list[Entry]] = {}
        for entry in entries:
            data = _data_name(table, entry) if any(_keys(table, entry)) else ""
            if data:
                entries_of.setdefault(data, []).append(entry)
        for data, belonging in entries_of.items():
            yield _comparison_table(table, data, belonging)


def _keys(table: PublishedTable, entry: Entry) -> list[str]:
    """Return, for each column, the key of our score that it is compared with, or an empty string."""
    return [column.key_in(entry.columns) for column in table.columns]


def _experiment_names(entry: Entry) -> list[str]:
    """Return the names of the experiment and its data that a pattern of a published table may match."""
    run = entry.experiment.runs[0]
    path = run.path.resolve()
    script = entry.manifest.script
    kind = script.split("_", maxsplit=1)[0]
    names = [script, entry.name, entry.experiment.title, f"{path.parent.name}_{path.name}", f"{kind}_{entry.name}"]
    return [_pattern_name(name) for name in names]


def _data_name(table: PublishedTable, entry: Entry) -> str:
    """Return the data set of a published table that a test set is, or an empty string.

    The preset of a table with one data set identifies it. Standard metrics do not identify the data. If names do not
    agree (one script prepares ESSAY and ZhiHu), the folder of the source data decides, then the folder of the run.
    """
    run = entry.experiment.runs[0]
    if run.is_own_data:
        return ""
    if len(table.rows) == 1 and any("/" in key for key in _keys(table, entry)):
        return next(iter(table.rows))
    names = _experiment_names(entry)
    if not any(_matching_data(table, name) for name in names):
        return ""
    folders = [_pattern_name(Path(run.settings.get("DATA", "")).name), _pattern_name(run.path.resolve().name)]
    return next(data for name in [*folders, *names] if (data := _matching_data(table, name)))


def _matching_data(table: PublishedTable, name: str) -> str:
    return next((data for data, patterns in table.experiments.items() if fits(name, patterns)), "")


def _pattern_name(name: str) -> str:
    """Write a name like the patterns of published tables."""
    return name.lower().replace("-", "_").replace("/", "_")


def _comparison_table(table: PublishedTable, data: str, entries: Sequence[Entry]) -> Table:
    keys = [
        {entry: key for entry in entries if (key := _keys(table, entry)[place])} for place in range(len(table.columns))
    ]

    def our_row(entry: Entry, system: str, origin: str) -> list[Cell | str]:
        named = f"{origin}, {entry.experiment.title}" if len(entries) > 1 else origin
        return [system, named, *(cell_beside(entry, system, column, _ABSENT) for column in keys)]

    rows: list[list[Cell | str]] = []
    if any(COPY_ROW in entry.evaluation.scores for entry in entries):
        rows.append([COPY_ROW, "ours", *(copy_cell(column, _ABSENT) for column in keys)])
    unmatched = [(entry, system) for entry in entries for system in entry.systems]
    for label, row in table.rows[data].items():
        shown = (column.shown(score, "–") for score, column in zip(row.scores, table.columns, strict=True))
        rows.append([label, *(Cell(text, mark="published") for text in ("published", *shown))])
        ours = [(entry, system) for entry in entries for system in _runs_of(row, entry)]
        rows += [our_row(entry, system, "ours") for entry, system in ours]
        unmatched = [pair for pair in unmatched if pair not in ours]
    rows += [our_row(entry, system, "ours, not in the paper") for entry, system in unmatched]
    notes = [table.note] if table.note else []
    scored = name_columns({key: entry.columns[key] for entry in entries for key in _keys(table, entry) if key})
    notes.append(f"Ours: {_our_data(entries[0])}, {scored}; a published number was computed by its own paper's scorer.")
    head = ["system", "numbers", *(column.head for column in table.columns)]
    return Table(head, rows, caption=f"{table.source}: {table.title}, {data}", notes=notes)


def _our_data(entry: Entry) -> str:
    script = entry.manifest.script
    size = f"{entry.evaluation.data.sentences:,} sentences of {entry.name}"
    return f"{size}, prepared by preprocess/{script}.py" if script else size


def _runs_of(row: PublishedRow, entry: Entry) -> list[str]:
    if row.experiments and not any(fits(name, row.experiments) for name in _experiment_names(entry)):
        return []
    return [system for system in row.runs if system in entry.evaluation.scores]
