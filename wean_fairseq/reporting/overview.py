"""Experiments that were scored on the same sentences, side by side."""

from collections import Counter
from collections.abc import Sequence

from ..evaluation.corpus import COPY_ROW
from .document import Cell, ListBlock, TableBlock
from .figures import ScorePanel
from .runs import ScoredSet
from .scores import (
    COPY_WINS,
    OTHERWISE,
    Entry,
    Experiment,
    copied_score,
    copy_win,
    interval_of,
    keys_of,
    mean_of,
    metric_of,
    names_of,
    score_cell,
    signature_of,
    systems_of,
)

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
        for name in experiment.sets:
            files = experiment.tests(name)[0].evaluation.data.get("files", {})
            parts = [entry for role in ("source", "references") for entry in files.get(role, [])]
            if parts:
                identity = tuple(str(part["sha256"]) for part in parts)
                groups.setdefault(identity, []).append(Entry(experiment, name))
    return [found for found in groups.values() if len({entry.experiment.title for entry in found}) > 1]


def title_of(entries: Sequence[Entry]) -> str:
    """The title of a group."""
    number = entries[0].tests[0].evaluation.data["sentences"]
    return f"All systems on the same {number:,} sentences"


def reading(entries: Sequence[Entry]) -> ListBlock:
    """Notes on reading the group's table."""
    items = [_CAUTION, "Ranges and paired tests are in the experiments' own sections. – = not scored, or not known."]
    if any(test.evaluation.comparisons for entry in entries for test in entry.tests):
        items.append("* = differs from the first system of its own experiment in both paired tests (p < 0.05).")
    if any(COPY_ROW in names_of(entry.tests) for entry in entries):
        items.append(f"{COPY_ROW} is the source, scored as if a system had written it. ▽ = less than that.")
    return ListBlock("How to read the table", items)


def copy_warning(entries: Sequence[Entry]) -> ListBlock | None:
    """Say on which metrics of the table the source beats every system; ``None`` where on none."""
    wins = [copy_win(_comparable_tests(entries, key), key) for key in _KEYS]
    beaten = [f"{win} of the best system." for win in wins if win]
    return ListBlock(COPY_WINS, beaten, "warning") if beaten else None


def table(entries: Sequence[Entry]) -> TableBlock:
    """Every system of every experiment in a row, with its size and the length of its training."""
    found = {key for entry in entries for key in keys_of(entry.tests)}
    keys = [key for key in _KEYS if key in found] or sorted(found)[: len(_KEYS)]
    rows = []
    if any(COPY_ROW in names_of(entry.tests) for entry in entries):
        rows.append([Cell(COPY_ROW), *[Cell("–")] * 3, *(_copy_cell(key, entries) for key in keys)])
    for entry in entries:
        rows += [_row(entry, system, keys, entries) for system in systems_of(entry.tests)]
    head = ["system", "experiment", "parameters", "updates", *(metric_of(key).label for key in keys)]
    return TableBlock("Scores, sizes and training", head, rows)


def _copy_cell(key: str, entries: Sequence[Entry]) -> Cell:
    """The score of the source, from an experiment that has it."""
    having = [entry for entry in _comparable_entries(entries, key) if mean_of(entry.tests, COPY_ROW, key) is not None]
    return _score(having[0], COPY_ROW, key, entries) if having else Cell("–")


def _row(entry: Entry, system: str, keys: Sequence[str], entries: Sequence[Entry]) -> list[Cell]:
    trained = entry.experiment.runs[0].systems.get(system)
    parameters = trained.log.parameters if trained else None
    updates = trained.log.updates if trained else 0
    numbers = [Cell(f"{parameters:,}" if parameters else "–"), Cell(f"{updates:,}" if updates else "–")]
    return [
        Cell(system),
        Cell(entry.experiment.title),
        *numbers,
        *(_score(entry, system, key, entries) for key in keys),
    ]


def _score(entry: Entry, system: str, key: str, entries: Sequence[Entry]) -> Cell:
    """A score, unless it was computed otherwise than the others."""
    if mean_of(entry.tests, system, key) is None:
        return Cell("–")
    if not _is_comparable(entry, key, entries):
        return Cell(OTHERWISE, f"see {entry.experiment.title}")
    cell = score_cell(entry.tests, system, key)
    return Cell(cell.text, cell.detail if len(entry.tests) > 1 else "", cell.mark)


def _is_comparable(entry: Entry, key: str, entries: Sequence[Entry]) -> bool:
    """Whether a metric was computed as in the first experiment that has it."""
    first = next((found for other in entries if (found := signature_of(other.tests, key))), "")
    return signature_of(entry.tests, key) == first


def _comparable_tests(entries: Sequence[Entry], key: str) -> list[list[ScoredSet]]:
    """The scores of each experiment that has a metric, computed in the same way."""
    return [entry.tests for entry in _comparable_entries(entries, key)]


def _comparable_entries(entries: Sequence[Entry], key: str) -> list[Entry]:
    """The experiments that have a metric, computed in the same way."""
    return [entry for entry in entries if signature_of(entry.tests, key) and _is_comparable(entry, key, entries)]


def panels(entries: Sequence[Entry], keys: Sequence[str] = _DRAWN) -> list[ScorePanel]:
    """Some metrics of all systems, to be drawn; those that no system has are left out."""
    counts = Counter(system for entry in entries for system in names_of(entry.tests))
    drawn = []
    for key in keys:
        found = []
        for entry in _comparable_entries(entries, key):
            for system in systems_of(entry.tests):
                score = mean_of(entry.tests, system, key)
                if score is not None:
                    name = f"{system} ({entry.experiment.title})" if counts[system] > 1 else system
                    found.append((name, score, interval_of(entry.tests, system, key)))
        if found:
            drawn.append(ScorePanel(metric_of(key).label, found, copied_score(_comparable_tests(entries, key), key)))
    return drawn
