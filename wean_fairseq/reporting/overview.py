"""Experiments that were scored on the same sentences, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ..evaluation.corpus import COPY_ROW
from ..evaluation.evaluate import SIGNIFICANT
from . import scores
from .document import Cell, ListBlock, TableBlock
from .figures import ScorePanel
from .scores import Entry, Experiment

#: Standard metrics that a comparison of paraphrases, simplifications or essays needs, quality beside copying.
_KEYS = ("bleu", "ibleu", "self-bleu", "sari", "rouge-l", "copy-rate", "length-ratio")
_DRAWN = ("bleu", "ibleu", "sari", "rouge-l")
_CAUTION = (
    "Systems of one experiment had the same data, budget and search; those of different experiments differ in more "
    "than their kind: compare sizes, updates and settings first."
)


def shared_tests(experiments: Sequence[Experiment]) -> list[list[Entry]]:
    """Test sets with the same source and references, by their hashes, that several experiments were scored on."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for experiment in experiments:
        for entry in experiment.sets.values():
            files = entry.evaluation.data.get("files", {})
            identity = tuple(str(file["sha256"]) for role in ("source", "references") for file in files.get(role, []))
            if identity:
                groups.setdefault(identity, []).append(entry)
    return [found for found in groups.values() if len({entry.experiment.title for entry in found}) > 1]


def reading(entries: Sequence[Entry]) -> ListBlock:
    """Notes on reading the group's table."""
    items = [_CAUTION, "Ranges and paired tests are in the experiments' own sections. – = not scored, or not known."]
    if any(entry.evaluation.comparisons for entry in entries):
        differs = "differs from the first system of its experiment in both paired tests"
        items.append(f"* = {differs} (p < {SIGNIFICANT}).")
    if any(COPY_ROW in entry.evaluation.cells for entry in entries):
        items.append(f"{COPY_ROW} is the source, scored as if a system had written it. ▽ = less than that.")
    return ListBlock("How to read the table", items)


def copy_warning(entries: Sequence[Entry]) -> ListBlock | None:
    """Say on which metrics of the table the source beats every system; ``None`` where on none."""
    wins = [scores.copy_win([*scores.comparable(_having(entries, key))], key) for key in _KEYS]
    beaten = [f"{win} of the best system." for win in wins if win]
    return ListBlock(scores.COPY_WINS, beaten, "warning") if beaten else None


def table(entries: Sequence[Entry]) -> TableBlock:
    """Every system of every experiment in a row, with its size and the length of its training."""
    found = {key for entry in entries for key in entry.evaluation.signatures}
    keys = [key for key in _KEYS if key in found] or sorted(found)[: len(_KEYS)]
    columns = [_having(entries, key) for key in keys]
    rows = []
    if any(COPY_ROW in entry.evaluation.cells for entry in entries):
        copied = (scores.copy_cell(column, "–", interval=False) for column in columns)
        rows.append([Cell(COPY_ROW), *[Cell("–")] * 3, *copied])
    for entry in entries:
        rows += [_row(entry, system, columns) for system in entry.systems]
    head = ["system", "experiment", "parameters", "updates", *(scores.metric_of(key).label for key in keys)]
    return TableBlock("Scores, sizes and training", head, rows)


def _row(entry: Entry, system: str, columns: Sequence[Mapping[Entry, str]]) -> list[Cell]:
    trained = entry.experiment.runs[0].systems.get(system)
    parameters = trained.log.parameters if trained else None
    updates = trained.log.updates if trained else 0
    row = [Cell(system), Cell(entry.experiment.title)]
    row += [Cell(f"{parameters:,}" if parameters else "–"), Cell(f"{updates:,}" if updates else "–")]
    for column in columns:
        scored = entry.score(system, column.get(entry, "")) is not None
        row.append(scores.cell_beside(entry, system, column, "–", interval=False) if scored else Cell("–"))
    return row


def _having(entries: Sequence[Entry], key: str) -> dict[Entry, str]:
    return {entry: key for entry in entries if key in entry.evaluation.signatures}


def panels(entries: Sequence[Entry], keys: Sequence[str] = _DRAWN) -> list[ScorePanel]:
    """Some metrics of all systems, to be drawn; those that no system has are left out."""
    counts = Counter(system for entry in entries for system in entry.evaluation.cells)
    drawn = []
    for key in keys:
        found = []
        alike = list(scores.comparable(_having(entries, key)))
        for entry in alike:
            for system in entry.systems:
                score = entry.score(system, key)
                if score is not None:
                    name = f"{system} ({entry.experiment.title})" if counts[system] > 1 else system
                    found.append((name, score, entry.evaluation.cells[system][key].interval))
        if found:
            copied = scores.copied_score(alike, key)
            drawn.append(ScorePanel(scores.metric_of(key).label, found, copied))
    return drawn
