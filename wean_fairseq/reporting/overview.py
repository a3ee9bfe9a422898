"""Experiments that were scored on the same sentences, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ..evaluation.corpus import COPY_ROW
from ..evaluation.score_file import SIGNIFICANT
from ..evaluation.tables import Cell, Table
from . import scores
from .document import ListBlock
from .figures import ScorePanel
from .scores import Entry, Experiment

#: Standard metrics that a comparison of paraphrases, simplifications or essays needs: quality and copying.
_KEYS = ("bleu", "ibleu", "self-bleu", "sari", "rouge-l", "copy-rate", "length-ratio")
_DRAWN = ("bleu", "ibleu", "sari", "rouge-l")
_CAUTION = (
    "Systems of one experiment had the same data, budget and search; those of different experiments differ in more "
    "than their kind: compare sizes, updates and settings first."
)


def shared_tests(experiments: Sequence[Experiment]) -> list[list[Entry]]:
    """Return the test sets with equal hashes of source and references that several experiments were scored on."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in (entry for experiment in experiments for entry in experiment.sets.values()):
        files = entry.evaluation.data.files
        identity = tuple(file.sha256 for role in ("source", "references") for file in files.get(role, []))
        if identity:
            groups.setdefault(identity, []).append(entry)
    return [entries for entries in groups.values() if len({entry.experiment.title for entry in entries}) > 1]


def reading_notes(entries: Sequence[Entry]) -> ListBlock:
    """Return notes on reading the group's table."""
    items = [_CAUTION, "Ranges and paired tests are in the experiments' own sections. – = not scored, or not known."]
    if any(entry.evaluation.comparisons for entry in entries):
        differs = "differs from the first system of its experiment in both paired tests"
        items.append(f"* = {differs} (p < {SIGNIFICANT}).")
    if any(COPY_ROW in entry.evaluation.scores for entry in entries):
        items.append(f"{COPY_ROW} is the source, scored as if a system had written it. ▽ = less than that.")
    return ListBlock("How to read the table", items)


def copy_warning(entries: Sequence[Entry]) -> ListBlock | None:
    """Return the metrics of the table on which the source beats every system, or None if there are none."""
    wins = [scores.copy_win([*scores.comparable(_entries_with(entries, key))], key) for key in _KEYS]
    beaten = [f"{win} of the best system." for win in wins if win]
    return ListBlock(scores.COPY_WINS, beaten, "warning") if beaten else None


def overview_table(entries: Sequence[Entry]) -> Table:
    """Return one row for every system of every experiment, with its size and the length of its training."""
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
    """Return pictures of some metrics of all systems, without those that no system has."""
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
