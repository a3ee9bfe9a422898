"""Scores of several runs put together: means over seeds, significance, what the copy row beats, published numbers."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..evaluation.corpus import COPY_ROW
from ..evaluation.evaluate import SIGNIFICANT
from ..evaluation.evaluate import Cell as Score
from ..evaluation.metrics.registry import METRICS, Settings, build_metric
from ..evaluation.presets import PRESETS, STANDARD
from ..evaluation.report import format_score
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
    def sets(self) -> list[str]:
        return list(dict.fromkeys(name for run in self.runs for name in run.sets))

    def tests(self, name: str) -> list[ScoredSet]:
        return [run.sets[name] for run in self.runs if name in run.sets]

    @property
    def seeds(self) -> list[str]:
        return [run.seed for run in self.runs if run.seed]


class Entry(NamedTuple):
    """An experiment and one of its test sets."""

    experiment: Experiment
    name: str

    @property
    def tests(self) -> list[ScoredSet]:
        return self.experiment.tests(self.name)


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
    name, fixed = plain, {}
    if slash and preset in PRESETS:
        found = [item for item in PRESETS[preset].metrics if item.label == label]
        if found:
            name, fixed = found[0].name, dict(found[0].fixed)
    elif plain in METRICS:
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


def mean_of(tests: Sequence[ScoredSet], system: str, key: str) -> float | None:
    """Mean of a score over seeds; ``None`` where none is a number."""
    found = _values(tests, system, key)
    return statistics.mean(found) if found else None


def _values(tests: Sequence[ScoredSet], system: str, key: str) -> list[float]:
    return [cell.score for cell in _cells(tests, system, key) if math.isfinite(cell.score)]


def _cells(tests: Sequence[ScoredSet], system: str, key: str) -> list[Score]:
    cells = (test.evaluation.cells.get(system, {}).get(key) for test in tests)
    return [cell for cell in cells if cell is not None]


def score_cell(tests: Sequence[ScoredSet], system: str, key: str) -> Cell:
    """Mean and deviation over seeds, or the one score with its interval; starred where it differs from the baseline."""
    found = _values(tests, system, key)
    if not found:  # what was scored is no number
        return Cell("–" if _cells(tests, system, key) else "not run")
    mark = "copy" if system == COPY_ROW else ""
    copied = mean_of(tests, COPY_ROW, key)
    if not mark and copied is not None and metric_of(key).higher_is_better and copied > statistics.mean(found):
        mark = "beaten"
    star = "*" if is_significant(tests, system, key) else ""
    if len(found) > 1:
        text = f"{format_score(statistics.mean(found))} ± {format_score(statistics.stdev(found))}"
        return Cell(text + star, f"{len(found)} seeds", mark)
    if len(tests) > 1:
        return Cell(format_score(found[0]) + star, "1 seed", mark)
    interval = tests[0].evaluation.cells[system][key].interval
    detail = " to ".join(map(format_score, interval)) if interval else ""
    return Cell(format_score(found[0]) + star, detail, mark)


def interval_of(tests: Sequence[ScoredSet], system: str, key: str) -> tuple[float, float] | None:
    """The bootstrap interval of one seed, or the least and the most of several."""
    if len(tests) > 1:
        found = _values(tests, system, key)
        return (min(found), max(found)) if len(found) > 1 else None
    cells = _cells(tests, system, key)
    return cells[0].interval if cells else None


def is_significant(tests: Sequence[ScoredSet], system: str, key: str) -> bool:
    """Whether all paired tests tell a system from the baseline, the same way with every seed that has the tests."""
    items = [
        item
        for test in tests
        for item in test.evaluation.comparisons
        if item.system == system and item.metric == key and item.baseline == baseline_of(test)
    ]
    if not all(item.is_significant for item in items):
        return False
    return len({item.difference > 0 for item in items}) == 1


def baseline_of(test: ScoredSet) -> str:
    """The system that the others are tested against: the first one."""
    return next((name for name in test.evaluation.cells if name != COPY_ROW), "")


def names_of(tests: Sequence[ScoredSet]) -> list[str]:
    """The systems of all seeds, the copy row first."""
    names = dict.fromkeys(name for test in tests for name in test.evaluation.cells)
    return sorted(names, key=lambda name: name != COPY_ROW)


def systems_of(tests: Sequence[ScoredSet]) -> list[str]:
    """The systems of all seeds, without the copy row."""
    return [name for name in names_of(tests) if name != COPY_ROW]


def keys_of(tests: Sequence[ScoredSet]) -> list[str]:
    """The metrics of all seeds, in their order."""
    return list(dict.fromkeys(key for test in tests for cells in test.evaluation.cells.values() for key in cells))


def signature_of(tests: Sequence[ScoredSet], key: str) -> str:
    """The signature of a metric; nothing where it was not computed."""
    return next((test.evaluation.signatures[key] for test in tests if key in test.evaluation.signatures), "")


def name_of_keys(keys: Sequence[str]) -> str:
    """Keys in words: those of a preset together."""
    groups: dict[str, list[str]] = {}
    for key in dict.fromkeys(keys):
        groups.setdefault(metric_of(key).group, []).append(metric_of(key).label)
    return "; ".join(f"{group} {', '.join(labels)}" for group, labels in groups.items())


def score_tables(tests: Sequence[ScoredSet]) -> Iterator[TableBlock]:
    """A table for each preset: a metric a row, a system a column."""
    systems = names_of(tests)
    groups: dict[str, list[str]] = {}
    for key in keys_of(tests):
        groups.setdefault(metric_of(key).group, []).append(key)
    for group, keys in groups.items():
        rows = [[Cell(metric_of(key).label), *(score_cell(tests, system, key) for system in systems)] for key in keys]
        note = PRESETS[group].note if group in PRESETS else ""
        notes = [f"{note[0].upper()}{note[1:]}."] if note else []
        source = PRESETS[group].source if group in PRESETS else "" if group == STANDARD else "chosen metrics"
        caption = "Standard metrics" if group == STANDARD else f"{group}, after {source}" if source else group
        yield TableBlock(caption, ["metric", *systems], rows, notes)


def significance_table(tests: Sequence[ScoredSet]) -> Iterator[TableBlock]:
    """The paired tests of quality metrics, if there are some: a metric a row, a pair of systems a column."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for test in tests:
        for item in test.evaluation.comparisons:
            if metric_of(item.metric).higher_is_better:
                text = f"{item.shown_difference}{'*' if item.is_significant else ''} ({item.shown_p})"
                pair = f"{item.system} − {item.baseline}"
                pairs.setdefault(pair, {}).setdefault(item.metric, []).append(text)
    if not pairs:
        return
    keys = dict.fromkeys(key for found in pairs.values() for key in found)
    rows = [
        [Cell(name_of_keys([key])), *(Cell("; ".join(found.get(key, []))) for found in pairs.values())] for key in keys
    ]
    data = tests[0].evaluation.data
    note = (
        f"Difference of scores (p of the paired bootstrap with {data.get('resamples')} resamples / of approximate "
        f"randomisation with {data.get('trials')} trials; of several runs in one evaluation: of the t test), one for "
        f"each seed; * = all below {SIGNIFICANT}."
    )
    yield TableBlock("Paired tests", ["metric", *pairs], rows, [note])


def copied_score(groups: Sequence[Sequence[ScoredSet]], key: str) -> float | None:
    """The score of a copy of the source: the same in every group of tests that has it, as the text is the same."""
    found = (mean_of(tests, COPY_ROW, key) for tests in groups)
    return next((score for score in found if score is not None), None)


def copy_win(groups: Sequence[Sequence[ScoredSet]], key: str) -> str:
    """The metric and both scores, where a copy of the source beats every system; else nothing."""
    copied, metric = copied_score(groups, key), metric_of(key)
    found = [mean_of(tests, name, key) for tests in groups for name in systems_of(tests)]
    best = max((score for score in found if score is not None), default=None)
    if copied is None or best is None or copied <= best or not metric.higher_is_better:
        return ""
    return f"{metric.label} {format_score(copied)} against {format_score(best)}"


def copy_warnings(tests: Sequence[ScoredSet]) -> list[str]:
    """Say on which metrics a copy of the source beats every system, a sentence a preset; none where on none."""
    beaten: dict[str, list[str]] = {}
    for key in keys_of(tests):
        if win := copy_win([tests], key):
            beaten.setdefault(metric_of(key).group, []).append(win)
    if not beaten:
        return []
    return [
        *(f"{group}: {', '.join(texts)} of the best system." for group, texts in beaten.items()),
        "Read these metrics together with those that look at the source: SARI, iBLEU, self-BLEU, copy rate.",
    ]


def signatures(tests: Sequence[ScoredSet]) -> list[str]:
    """Every metric with its signature; where seeds differ, all of them."""
    found: dict[str, dict[str, None]] = {}
    for test in tests:
        for key, signature in test.evaluation.signatures.items():
            found.setdefault(key, {})[signature] = None
    return [f"{key}: {' or '.join(names)}" for key, names in found.items()]


def metrics_to_draw(tests: Sequence[ScoredSet]) -> list[str]:
    """A few metrics worth a picture: those of the paper's preset first, but quality alone."""
    quality = [key for key in keys_of(tests) if metric_of(key).higher_is_better and "[" not in key]
    standard = [key for key in _SHOWN_FIRST if key in quality]
    return (standard or quality)[:4]
