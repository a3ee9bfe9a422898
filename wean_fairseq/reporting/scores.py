"""Scores of several runs put together: means over seeds, significance, what the copy row beats, published numbers."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..evaluation.corpus import COPY_ROW, is_baseline
from ..evaluation.evaluate import SIGNIFICANT, Evaluation
from ..evaluation.evaluate import Cell as Score
from ..evaluation.metrics.registry import METRICS, Settings, build_metric
from ..evaluation.presets import PRESETS, STANDARD
from ..evaluation.report import format_cell, format_score
from .document import Cell, TableBlock
from .runs import Run, ScoredSet, is_seed_folder

#: What a report says above the metrics of `copy_warnings`.
COPY_WINS = "The copy row wins: on these metrics, a copy of the source beats every system"
#: In place of a score that was not computed as those it would stand beside.
OTHERWISE = "scored otherwise"
#: In the order in which a picture of the scores chooses.
_SHOWN_FIRST = ("sari", "ibleu", "bleu", "bleu2", "rouge-l", "exact@1")


@dataclass
class Experiment:
    """Runs that differ in nothing but their seed.

    Attributes:
        title: name of the run directory, or of the one that holds the seeds.
        runs: one a seed.
    """

    title: str
    runs: list[Run]

    @property
    def seeds(self) -> list[str]:
        return [run.seed for run in self.runs if run.seed]

    @cached_property
    def sets(self) -> dict[str, "Entry"]:
        """The test sets by name, each with the scores of all seeds that have it."""
        tests: dict[str, list[ScoredSet]] = {}
        for run in self.runs:
            for name, test in run.sets.items():
                tests.setdefault(name, []).append(test)
        return {
            name: Entry(self, name, found[0].manifest, together([test.evaluation for test in found]), len(found))
            for name, found in tests.items()
        }


@dataclass(eq=False)
class Entry:
    """An experiment's scores on one test set, those of its seeds put together.

    Attributes:
        manifest: what the first seed knows of the data.
        seeds: how many seeds have the test set.
    """

    experiment: Experiment
    name: str
    manifest: dict[str, Any]
    evaluation: Evaluation
    seeds: int

    @property
    def systems(self) -> list[str]:
        """Those of all seeds, without the copy row."""
        return [name for name in self.evaluation.cells if not is_baseline(name)]

    @property
    def baseline(self) -> str:
        """The system that the others are tested against: the first one."""
        return next(iter(self.systems), "")

    def score(self, system: str, key: str) -> float | None:
        """Mean of a score over seeds; ``None`` where none is a number."""
        cell = self.evaluation.cells.get(system, {}).get(key)
        return cell.score if cell is not None and math.isfinite(cell.score) else None


def together(seeds: Sequence[Evaluation]) -> Evaluation:
    """Put the evaluations of several seeds together: each seed is a run, and the copy row comes first.

    A score is the mean of those that are numbers. The interval of a single seed stays; of several seeds it is the least
    and the most, no 95 % interval. Different signatures of a metric are joined by "or". Paired tests and warnings are
    those of all seeds, the data is that of the first.
    """
    found: dict[str, dict[str, list[Score]]] = {}
    signatures: dict[str, dict[str, None]] = {}
    for seed in seeds:
        for system, cells in seed.cells.items():
            scored = found.setdefault(system, {})
            for key, cell in cells.items():
                scored.setdefault(key, []).append(cell)
        for key, signature in seed.signatures.items():
            signatures.setdefault(key, {})[signature] = None
    return Evaluation(
        columns=[],
        cells={
            system: {key: _score_of_seeds(cells, len(seeds) > 1) for key, cells in found[system].items()}
            for system in sorted(found, key=lambda name: name != COPY_ROW)
        },
        signatures={key: " or ".join(names) for key, names in signatures.items()},
        comparisons=[item for seed in seeds for item in seed.comparisons],
        warnings=list(dict.fromkeys(text for seed in seeds for text in seed.warnings)),
        data=seeds[0].data,
    )


def _score_of_seeds(cells: Sequence[Score], several: bool) -> Score:
    numbers = [cell.score for cell in cells if math.isfinite(cell.score)]
    interval = cells[0].interval
    if several:
        interval = (min(numbers), max(numbers)) if len(numbers) > 1 else None
    return Score(statistics.mean(numbers) if numbers else math.nan, numbers, interval)


@dataclass(frozen=True)
class Metric:
    """The description of a key of the JSON: the preset it belongs to, its short name, and whether more is better."""

    group: str
    label: str
    higher_is_better: bool


@cache
def metric_of(key: str) -> Metric:
    """Describe a key such as ``bleu``, ``paper:cdnpg-compat/iBLEU`` or ``exact@1[copied]``."""
    plain, bracket, part = key.partition("[")
    preset, slash, label = plain.rpartition("/")
    name, fixed = PRESETS[preset].metrics.get(label, (plain, {})) if preset in PRESETS else (plain, {})
    if plain in METRICS:
        label = METRICS[plain].label
    try:
        higher = bool(build_metric(name, Settings(), plain, **fixed).higher_is_better)
    except (UserError, ImportError):
        higher = False
    return Metric(preset if slash else STANDARD, f"{label}{bracket}{part}", higher)


def group_runs(runs: Sequence[Run]) -> list[Experiment]:
    """Put runs together that have the same settings and test data, and differ in their seed."""
    grouped: dict[tuple[Any, ...], list[Run]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        identity = _identity(run)
        again = seen[identity, run.seed]  # the same seed once more is no other seed: it stands alone
        seen[identity, run.seed] += 1
        grouped.setdefault((identity, again), []).append(run)
    firsts = [members[0].path.resolve() for members in grouped.values()]
    above = [first.parent if is_seed_folder(first) else first for first in firsts]
    folders = [first if above.count(place) > 1 else place for first, place in zip(firsts, above, strict=True)]
    return [
        Experiment(_title(folder, folders), members) for folder, members in zip(folders, grouped.values(), strict=True)
    ]


def _title(folder: Path, folders: Sequence[Path]) -> str:
    """The shortest end of a path that no other one has."""
    for length in range(1, len(folder.parts)):
        end = folder.parts[-length:]
        if sum(other.parts[-length:] == end for other in folders) == 1:
            return "/".join(end)
    return str(folder)


def _identity(run: Run) -> tuple[Any, ...]:
    """The identity of an experiment; without settings a run stands alone, unless its directory names the seed."""
    path = run.path.resolve()
    place = str(path.parent if is_seed_folder(path) else path)
    references = tuple(
        (name, tuple(str(entry["sha256"]) for entry in test.evaluation.data.get("files", {}).get("references", [])))
        for name, test in sorted(run.sets.items())
    )
    settings = tuple(sorted(run.settings.items()))
    return (settings, references) if settings and run.seed and references else (place,)


def score_cell(entry: Entry, system: str, key: str, *, interval: bool = True) -> Cell:
    """Mean and deviation over seeds, or the one score with its interval; starred where it differs from the baseline."""
    score = entry.score(system, key)
    if score is None:  # what was scored is no number
        return Cell("–" if key in entry.evaluation.cells.get(system, {}) else "not run")
    mark, copied = "copy" if system == COPY_ROW else "", entry.score(COPY_ROW, key)
    if not mark and copied is not None and metric_of(key).higher_is_better and copied > score:
        mark = "beaten"
    cell = entry.evaluation.cells[system][key]
    detail = " to ".join(map(format_score, cell.interval or ())) if interval else ""
    if entry.seeds > 1:
        detail = f"{len(cell.runs)} seed{'s' if len(cell.runs) > 1 else ''}"
    return Cell(format_cell(cell) + ("*" if is_significant(entry, system, key) else ""), detail, mark)


def comparable(keys: Mapping[Entry, str]) -> dict[Entry, str]:
    """Those of a metric's keys in several experiments under which it was computed as in the first of them."""
    signatures = [entry.evaluation.signatures[key] for entry, key in keys.items()]
    return {entry: key for entry, key in keys.items() if entry.evaluation.signatures[key] == signatures[0]}


def cell_beside(entry: Entry, system: str, keys: Mapping[Entry, str], absent: str, *, interval: bool = True) -> Cell:
    """A score beside those of other experiments, of whose ``keys`` it has one or is ``absent``."""
    if entry not in keys:
        return Cell(absent)
    if entry not in comparable(keys):
        return Cell(OTHERWISE, f"see {entry.experiment.title}")
    return score_cell(entry, system, keys[entry], interval=interval)


def copy_cell(keys: Mapping[Entry, str], absent: str, *, interval: bool = True) -> Cell:
    """The source, scored: from the first experiment in which it is a number, as the text is the same."""
    having = [entry for entry, key in comparable(keys).items() if key in entry.evaluation.cells.get(COPY_ROW, {})]
    if not having:
        return Cell(absent)
    entry = next((entry for entry in having if entry.score(COPY_ROW, keys[entry]) is not None), having[0])
    return score_cell(entry, COPY_ROW, keys[entry], interval=interval)


def is_significant(entry: Entry, system: str, key: str) -> bool:
    """Whether all paired tests tell a system from the baseline, the same way with every seed that has the tests."""
    items = [
        item
        for item in entry.evaluation.comparisons
        if (item.metric, item.baseline, item.system) == (key, entry.baseline, system)
    ]
    return all(item.is_significant for item in items) and len({item.difference > 0 for item in items}) == 1


def name_of_keys(keys: Sequence[str]) -> str:
    """Keys in words: those of a preset together."""
    groups: dict[str, list[str]] = {}
    for key in dict.fromkeys(keys):
        groups.setdefault(metric_of(key).group, []).append(metric_of(key).label)
    return "; ".join(f"{group} {', '.join(labels)}" for group, labels in groups.items())


def score_tables(entry: Entry) -> Iterator[TableBlock]:
    """A table for each preset: a metric a row, a system a column."""
    systems = list(entry.evaluation.cells)
    groups: dict[str, list[str]] = {}
    for key in entry.evaluation.signatures:
        groups.setdefault(metric_of(key).group, []).append(key)
    for group, keys in groups.items():
        rows = [[Cell(metric_of(key).label), *(score_cell(entry, system, key) for system in systems)] for key in keys]
        note = PRESETS[group].note if group in PRESETS else ""
        notes = [f"{note[0].upper()}{note[1:]}."] if note else []
        source = PRESETS[group].source if group in PRESETS else "" if group == STANDARD else "chosen metrics"
        caption = "Standard metrics" if group == STANDARD else f"{group}, after {source}" if source else group
        yield TableBlock(caption, ["metric", *systems], rows, notes)


def significance_table(evaluation: Evaluation) -> Iterator[TableBlock]:
    """The paired tests of quality metrics, if there are some: a metric a row, a pair of systems a column."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for item in evaluation.comparisons:
        if metric_of(item.metric).higher_is_better:
            text = f"{item.shown_difference}{'*' if item.is_significant else ''} ({item.shown_p})"
            pairs.setdefault(f"{item.system} − {item.baseline}", {}).setdefault(item.metric, []).append(text)
    if not pairs:
        return
    keys = dict.fromkeys(key for found in pairs.values() for key in found)
    rows = [
        [Cell(name_of_keys([key])), *(Cell("; ".join(found.get(key, []))) for found in pairs.values())] for key in keys
    ]
    data = evaluation.data
    note = (
        f"Difference of scores (p of the paired bootstrap with {data.get('resamples')} resamples / of approximate "
        f"randomisation with {data.get('trials')} trials; of several runs in one evaluation: of the t test), one for "
        f"each seed; * = all below {SIGNIFICANT}."
    )
    yield TableBlock("Paired tests", ["metric", *pairs], rows, [note])


def copied_score(entries: Sequence[Entry], key: str) -> float | None:
    """The score of a copy of the source: the same in every experiment that has it, as the text is the same."""
    found = (entry.score(COPY_ROW, key) for entry in entries)
    return next((score for score in found if score is not None), None)


def copy_win(entries: Sequence[Entry], key: str) -> str:
    """The metric and both scores, where a copy of the source beats every system; else nothing."""
    copied, metric = copied_score(entries, key), metric_of(key)
    found = [entry.score(name, key) for entry in entries for name in entry.systems]
    best = max((score for score in found if score is not None), default=None)
    if copied is None or best is None or copied <= best or not metric.higher_is_better:
        return ""
    return f"{metric.label} {format_score(copied)} against {format_score(best)}"


def copy_warnings(entry: Entry) -> list[str]:
    """Say on which metrics a copy of the source beats every system, a sentence a preset; none where on none."""
    beaten: dict[str, list[str]] = {}
    for key in entry.evaluation.signatures:
        if win := copy_win([entry], key):
            beaten.setdefault(metric_of(key).group, []).append(win)
    if not beaten:
        return []
    return [
        *(f"{group}: {', '.join(texts)} of the best system." for group, texts in beaten.items()),
        "Read these metrics together with those that look at the source: SARI, iBLEU, self-BLEU, copy rate.",
    ]


def metrics_to_draw(evaluation: Evaluation) -> list[str]:
    """A few metrics worth a picture: those of the paper's preset first, but quality alone."""
    quality = [key for key in evaluation.signatures if metric_of(key).higher_is_better and "[" not in key]
    standard = [key for key in _SHOWN_FIRST if key in quality]
    return (standard or quality)[:4]
