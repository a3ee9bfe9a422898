"""Compare experiments that were scored on the same sentences, and add our rows to published tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..evaluation.corpus import COPY_ROW
from ..evaluation.published import PUBLISHED_TABLES, PublishedRow, PublishedTable, fits
from ..evaluation.score_file import SIGNIFICANT
from ..evaluation.tables import Cell, Table
from . import scores
from .document import ListBlock
from .figures import ScorePanel
from .scores import Entry, Experiment

_ABSENT = "not scored"
#: Standard quality and copying metrics for comparing paraphrase, simplification or essay systems.
_KEYS = ("bleu", "ibleu", "self-bleu", "sari", "rouge-l", "copy-rate", "length-ratio")
_DRAWN = ("bleu", "ibleu", "sari", "rouge-l")
_CAUTION = (
    "Systems of one experiment had the same data, budget and search; those of different experiments differ in more "
    "than their kind: compare sizes, updates and settings first."
)


def shared_tests(experiments: Sequence[Experiment]) -> list[list[Entry]]:
    """Return the test sets on which several experiments were scored, grouped by their sentences.

    In each group, the sources and the references have equal hashes.
    """
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in (entry for experiment in experiments for entry in experiment.sets.values()):
        files = entry.evaluation.data.files
        identity = tuple(file.sha256 for role in ("source", "references") for file in files.get(role, []))
        if identity:
            groups.setdefault(identity, []).append(entry)
    return [entries for entries in groups.values() if len({entry.experiment.title for entry in entries}) > 1]


def reading_notes(entries: Sequence[Entry]) -> ListBlock:
    """Return notes that help to read the table of a group of experiments."""
    items = [_CAUTION, "Ranges and paired tests are in the experiments' own sections. – = not scored, or not known."]
    if any(entry.evaluation.comparisons for entry in entries):
        differs = "differs from the first system of its experiment in both paired tests"
        items.append(f"* = {differs} (p < {SIGNIFICANT}).")
    if any(COPY_ROW in entry.evaluation.scores for entry in entries):
        items.append(f"{COPY_ROW} is the source, scored as if a system had written it. ▽ = less than that.")
    return ListBlock("How to read the table", items)


def copy_warning(entries: Sequence[Entry]) -> Iterator[ListBlock]:
    """Yield a list of the metrics on which a copy of the source beats every system, if there are any."""
    wins = [scores.copy_win([*scores.comparable(_entries_with(entries, key))], key) for key in _KEYS]
    beaten = [f"{win} of the best system." for win in wins if win]
    if beaten:
        yield ListBlock(scores.COPY_WINS, beaten, "warning")


def overview_table(entries: Sequence[Entry]) -> Table:
    """Return a table with one row for every system of every experiment, with its size and its training length."""
    columns = {key: column for entry in entries for key, column in entry.columns.items()}
    keys = [key for key in _KEYS if key in columns] or sorted(columns)[: len(_KEYS)]
    entries_of = [_entries_with(entries, key) for key in keys]
    rows: list[list[Cell | str]] = []
    if any(COPY_ROW in entry.evaluation.scores for entry in entries):
        copied = (scores.copy_cell(having, "–", interval=False) for having in entries_of)
        rows.append([COPY_ROW, *["–"] * 3, *copied])
    for entry in entries:
        rows += [_row(entry, system, entries_of) for system in entry.systems]
    head = ["system", "experiment", "parameters", "updates", *(columns[key].heading for key in keys)]
    return Table(head, rows, caption="Scores, sizes and training")


def _row(entry: Entry, system: str, entries_of: Sequence[Mapping[Entry, str]]) -> list[Cell | str]:
    trained = entry.experiment.runs[0].systems.get(system)
    sizes = (trained.log.parameters, trained.log.updates) if trained else ()
    row: list[Cell | str] = [system, entry.experiment.title]
    row += [f"{size:,}" if size else "–" for size in sizes or (0, 0)]
    for having in entries_of:
        scored = entry.score(system, having.get(entry, "")) is not None
        row.append(scores.cell_beside(entry, system, having, "–", interval=False) if scored else "–")
    return row


def _entries_with(entries: Sequence[Entry], key: str) -> dict[Entry, str]:
    return {entry: key for entry in entries if key in entry.columns}


def panels(entries: Sequence[Entry], keys: Sequence[str] = _DRAWN) -> list[ScorePanel]:
    """Return plots of the given metrics of all systems, except metrics without any score."""
    counts = Counter(system for entry in entries for system in entry.evaluation.scores)
    drawn = []
    for key in keys:
        bars = []
        comparable = list(scores.comparable(_entries_with(entries, key)))
        for entry in comparable:
            for system in entry.systems:
                score = entry.score(system, key)
                if score is not None:
                    name = f"{system} ({entry.experiment.title})" if counts[system] > 1 else system
                    bars.append((name, score, entry.evaluation.scores[system][key].interval))
        if bars:
            label = comparable[0].columns[key].heading
            drawn.append(ScorePanel(label, bars, scores.copied_score(comparable, key)))
    return drawn


def published_tables(entries: Sequence[Entry]) -> Iterator[Table]:
    """Yield the published tables for the data of a test set, extended by the rows of all experiments."""
    for table in PUBLISHED_TABLES.values():
        entries_of: dict[str, list[Entry]] = {}
        for entry in entries:
            data = _data_name(table, entry) if any(_keys(table, entry)) else ""
            if data:
                entries_of.setdefault(data, []).append(entry)
        for data, belonging in entries_of.items():
            yield _comparison_table(table, data, belonging)


def _keys(table: PublishedTable, entry: Entry) -> list[str]:
    """Return, for each column of a published table, the key of our comparable score, or an empty string."""
    return [column.key_in(entry.columns) for column in table.columns]


def _experiment_names(entry: Entry) -> list[str]:
    """Return the names of the experiment and of its data, for comparison with the patterns of published tables."""
    run = entry.experiment.runs[0]
    path = run.path.resolve()
    script = entry.manifest.script
    kind = script.split("_", maxsplit=1)[0]
    names = [script, entry.name, entry.experiment.title, f"{path.parent.name}_{path.name}", f"{kind}_{entry.name}"]
    return [_pattern_name(name) for name in names]


def _data_name(table: PublishedTable, entry: Entry) -> str:
    """Return the name that a published table uses for the data of a test set, or an empty string.

    If the table has a single data set and a comparable score uses a preset, the preset identifies the data. Standard
    metrics do not identify the data. If the names match several data sets (for example, one script prepares both ESSAY
    and ZhiHu), the folder of the source data decides, then the folder of the run.
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
    """Convert a name to the form that the patterns of published tables use."""
    return name.lower().replace("-", "_").replace("/", "_")


def _comparison_table(table: PublishedTable, data: str, entries: Sequence[Entry]) -> Table:
    # For each published column, map each of our entries to the key of its score on the same metric.
    keys = [
        {entry: key for entry in entries if (key := _keys(table, entry)[place])} for place in range(len(table.columns))
    ]

    def our_row(entry: Entry, system: str, origin: str) -> list[Cell | str]:
        named = f"{origin}, {entry.experiment.title}" if len(entries) > 1 else origin
        return [system, named, *(scores.cell_beside(entry, system, column, _ABSENT) for column in keys)]

    rows: list[list[Cell | str]] = []
    if any(COPY_ROW in entry.evaluation.scores for entry in entries):
        rows.append([COPY_ROW, "ours", *(scores.copy_cell(column, _ABSENT) for column in keys)])
    # The rows of our systems are below the published row of the same system. Systems without a published row are at the
    # end.
    unmatched = [(entry, system) for entry in entries for system in entry.systems]
    for label, row in table.rows[data].items():
        shown = (column.shown(score, "–") for score, column in zip(row.scores, table.columns, strict=True))
        rows.append([label, *(Cell(text, mark="published") for text in ("published", *shown))])
        ours = [(entry, system) for entry in entries for system in _runs_of(row, entry)]
        rows += [our_row(entry, system, "ours") for entry, system in ours]
        unmatched = [pair for pair in unmatched if pair not in ours]
    rows += [our_row(entry, system, "ours, not in the paper") for entry, system in unmatched]
    notes = [table.note] if table.note else []
    scored = scores.name_columns({key: entry.columns[key] for entry in entries for key in _keys(table, entry) if key})
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
