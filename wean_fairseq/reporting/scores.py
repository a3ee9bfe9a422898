"""Merge the scores of several runs: means over seeds, significance, and metrics on which the copied source wins."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..console import counted
from ..evaluation.corpus import COPY_ROW, is_baseline
from ..evaluation.presets import METRIC_PRESETS, STANDARD
from ..evaluation.score_file import SIGNIFICANT, Column, Evaluation, Score, format_score
from ..evaluation.tables import Cell, Table
from .runs import Run, ScoredSet, TextManifest, is_seed_folder

#: Heading of the list of metrics that `copy_wins` returns.
COPY_WINS = "The copy row wins: on these metrics, a copy of the source beats every system"
#: Text that replaces a score which was not computed in the same way as the scores next to it.
OTHERWISE = "scored otherwise"
#: Preferred metrics for the plot of scores, in order of preference.
_SHOWN_FIRST = ("sari", "ibleu", "bleu", "bleu2", "rouge-l", "exact@1")


@dataclass
class Experiment:
    """Runs that differ only in their seed.

    Attributes:
        title: name of the run directory, or of the directory that contains the runs of all seeds.
        runs: one run per seed.
    """

    title: str
    runs: list[Run]

    @property
    def seeds(self) -> list[str]:
        return [run.seed for run in self.runs if run.seed]

    @cached_property
    def sets(self) -> dict[str, "Entry"]:
        """The test sets by name, each with the scores of all seeds that contain it."""
        tests: dict[str, list[ScoredSet]] = {}
        for run in self.runs:
            for name, test in run.sets.items():
                tests.setdefault(name, []).append(test)
        return {
            name: Entry(self, name, seeds[0].manifest, merge_seeds([test.evaluation for test in seeds]), len(seeds))
            for name, seeds in tests.items()
        }


@dataclass(eq=False)
class Entry:
    """The merged scores of an experiment's seeds on one test set.

    Attributes:
        manifest: description of the data, from the first seed.
        seeds: number of seeds that contain the test set.
    """

    experiment: Experiment
    name: str
    manifest: TextManifest
    evaluation: Evaluation
    seeds: int

    @property
    def columns(self) -> dict[str, Column]:
        return self.evaluation.columns

    @property
    def systems(self) -> list[str]:
        """The systems of all seeds, without rows that are derived from the source, such as its copy."""
        return [name for name in self.evaluation.scores if not is_baseline(name)]

    @property
    def baseline(self) -> str:
        """The system with which the others are compared, which is the first one."""
        return next(iter(self.systems), "")

    def score(self, system: str, key: str) -> float | None:
        """Return the mean of a score over seeds, or None if the score is missing or NaN."""
        score = self.evaluation.scores.get(system, {}).get(key)
        return score.score if score is not None and math.isfinite(score.score) else None


def merge_seeds(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Merge the evaluations of several seeds. The score of each seed becomes a run of the merged score.

    The row of the copied source comes first.

    Each merged score is the mean of the seeds' finite scores. The interval of a single seed is kept. With several
    seeds, the interval is the range of their scores instead of a 95% interval. If a metric has different signatures,
    they are joined by "or". Paired tests and warnings of all seeds are kept. The data comes from the first seed.
    """
    merged: dict[str, dict[str, list[Score]]] = {}
    columns: dict[str, list[Column]] = {}
    for evaluation in evaluations:
        for system, scores in evaluation.scores.items():
            for key, score in scores.items():
                merged.setdefault(system, {}).setdefault(key, []).append(score)
        for key, column in evaluation.columns.items():
            columns.setdefault(key, []).append(column)
    merge = _merge_scores if len(evaluations) > 1 else _first_score
    warnings = dict.fromkeys(text for evaluation in evaluations for text in evaluation.data.warnings)
    return Evaluation(
        scores={
            system: {key: merge(scores) for key, scores in merged[system].items()}
            for system in sorted(merged, key=lambda name: name != COPY_ROW)
        },
        columns={
            key: replace(seeds[0], signature=" or ".join(dict.fromkeys(column.signature for column in seeds)))
            for key, seeds in columns.items()
        },
        comparisons=[test for evaluation in evaluations for test in evaluation.comparisons],
        data=replace(evaluations[0].data, warnings=list(warnings)),
    )


def _first_score(scores: Sequence[Score]) -> Score:
    return Score(scores[0].score, scores[0].interval)


def _merge_scores(scores: Sequence[Score]) -> Score:
    numbers = [score.score for score in scores if math.isfinite(score.score)]
    interval = (min(numbers), max(numbers)) if len(numbers) > 1 else None
    return Score(statistics.mean(numbers) if numbers else math.nan, interval, numbers)


def group_runs(runs: Sequence[Run]) -> list[Experiment]:
    """Group runs that have the same settings and test data, but different seeds."""
    grouped: dict[tuple[Any, ...], list[Run]] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        identity = _identity(run)
        repetition = counts[identity, run.seed]  # a second run with the same seed belongs to a separate experiment
        counts[identity, run.seed] += 1
        grouped.setdefault((identity, repetition), []).append(run)
    firsts = [members[0].path.resolve() for members in grouped.values()]
    above = [first.parent if is_seed_folder(first) else first for first in firsts]
    folders = [first if above.count(place) > 1 else place for first, place in zip(firsts, above, strict=True)]
    return [
        Experiment(_title(folder, folders), members) for folder, members in zip(folders, grouped.values(), strict=True)
    ]


def _title(folder: Path, folders: Sequence[Path]) -> str:
    """Return the shortest suffix of a path that distinguishes it from the other paths."""
    for length in range(1, len(folder.parts)):
        end = folder.parts[-length:]
        if sum(other.parts[-length:] == end for other in folders) == 1:
            return "/".join(end)
    return str(folder)


def _identity(run: Run) -> tuple[Any, ...]:
    """Return a value that is equal for all runs of one experiment.

    A run without settings is a separate experiment, unless the name of its directory contains the seed.
    """
    path = run.path.resolve()
    place = str(path.parent if is_seed_folder(path) else path)
    references = tuple(
        (name, tuple(file.sha256 for file in test.evaluation.data.files.get("references", [])))
        for name, test in sorted(run.sets.items())
    )
    settings = tuple(sorted(run.settings.items()))
    return (settings, references) if settings and run.seed and references else (place,)


def score_cell(entry: Entry, system: str, key: str, *, interval: bool = True) -> Cell:
    """Return mean and deviation over seeds, or one score with its interval. A star marks a significant difference."""
    if (value := entry.score(system, key)) is None:
        return Cell("–" if key in entry.evaluation.scores.get(system, {}) else "not run")
    mark, copied = "copy" if system == COPY_ROW else "", entry.score(COPY_ROW, key)
    if not mark and copied is not None and entry.columns[key].is_quality and copied > value:
        mark = "beaten"
    score = entry.evaluation.scores[system][key]
    detail = " to ".join(map(format_score, score.interval or ())) if interval else ""
    if entry.seeds > 1:
        detail = counted(len(score.runs), "seed")
    return Cell(score.format() + ("*" if is_significant(entry, system, key) else ""), detail, mark)


def comparable(keys: Mapping[Entry, str]) -> dict[Entry, str]:
    """Return the entries whose scores were computed in the same way as the score of the first entry."""
    signatures = {entry: entry.columns[key].signature for entry, key in keys.items()}
    return {entry: key for entry, key in keys.items() if signatures[entry] == next(iter(signatures.values()))}


def cell_beside(entry: Entry, system: str, keys: Mapping[Entry, str], absent: str, *, interval: bool = True) -> Cell:
    """Return a cell with the score of one experiment, for a table that compares several experiments.

    Args:
        keys: key of the metric in each experiment that contains it.
        absent: text for an experiment without the metric.
    """
    if entry not in keys:
        return Cell(absent)
    if entry not in comparable(keys):
        return Cell(OTHERWISE, f"see {entry.experiment.title}")
    return score_cell(entry, system, keys[entry], interval=interval)


def copy_cell(keys: Mapping[Entry, str], absent: str, *, interval: bool = True) -> Cell:
    """Return a cell with the score of the copied source, from the first experiment in which it is not NaN."""
    entries = [entry for entry, key in comparable(keys).items() if key in entry.evaluation.scores.get(COPY_ROW, {})]
    if not entries:
        return Cell(absent)
    entry = next((entry for entry in entries if entry.score(COPY_ROW, keys[entry]) is not None), entries[0])
    return score_cell(entry, COPY_ROW, keys[entry], interval=interval)


def is_significant(entry: Entry, system: str, key: str) -> bool:
    """Return True if every paired test with the baseline is significant, with the same direction for every seed."""
    tests = [
        test
        for test in entry.evaluation.comparisons
        if (test.metric, test.baseline, test.system) == (key, entry.baseline, system)
    ]
    return all(test.is_significant for test in tests) and len({test.difference > 0 for test in tests}) == 1


def _by_preset(columns: Mapping[str, Column]) -> dict[str, list[str]]:
    """Group the keys of columns by preset. Metrics that were chosen individually count as standard metrics."""
    presets: dict[str, list[str]] = {}
    for key, column in columns.items():
        presets.setdefault(column.preset or STANDARD, []).append(key)
    return presets


def name_columns(columns: Mapping[str, Column]) -> str:
    """Return the labels of columns, grouped by preset."""
    return "; ".join(
        f"{preset} {', '.join(columns[key].heading for key in keys)}" for preset, keys in _by_preset(columns).items()
    )


def score_tables(entry: Entry) -> Iterator[Table]:
    """Yield a table for each preset, with one row per metric and one column per system."""
    systems = list(entry.evaluation.scores)
    for preset, keys in _by_preset(entry.columns).items():
        rows: list[list[Cell | str]] = [
            [entry.columns[key].heading, *(score_cell(entry, system, key) for system in systems)] for key in keys
        ]
        paper = METRIC_PRESETS.get(preset)
        notes = [f"{paper.note[0].upper()}{paper.note[1:]}."] if paper and paper.note else []
        source = paper.source if paper else "chosen metrics"
        caption = "Standard metrics" if preset == STANDARD else f"{preset}, after {source}"
        yield Table(["metric", *systems], rows, caption=caption, notes=notes)


def significance_table(evaluation: Evaluation) -> Iterator[Table]:
    """Yield a table of the paired tests on quality metrics, with one row per metric, if there are any tests."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for test in evaluation.comparisons:
        if evaluation.columns[test.metric].is_quality:
            text = f"{test.shown_difference}{'*' if test.is_significant else ''} ({test.shown_p})"
            pairs.setdefault(f"{test.system} − {test.baseline}", {}).setdefault(test.metric, []).append(text)
    if not pairs:
        return
    keys = dict.fromkeys(key for tests in pairs.values() for key in tests)
    rows = [
        [name_columns({key: evaluation.columns[key]}), *("; ".join(tests.get(key, [])) for tests in pairs.values())]
        for key in keys
    ]
    data = evaluation.data
    note = (
        f"Difference of scores (p of the paired bootstrap with {data.resamples} resamples / of approximate "
        f"randomisation with {data.trials} trials; of several runs in one evaluation: of the t test), one for "
        f"each seed; * = all below {SIGNIFICANT}."
    )
    yield Table(["metric", *pairs], rows, caption="Paired tests", notes=[note])


def copied_score(entries: Sequence[Entry], key: str) -> float | None:
    """Return the score of the copied source. It is the same in every experiment that has this row."""
    scores = (entry.score(COPY_ROW, key) for entry in entries)
    return next((score for score in scores if score is not None), None)


def copy_win(entries: Sequence[Entry], key: str) -> str:
    """Return the metric and both scores if the copied source beats every system, otherwise an empty string."""
    copied = copied_score(entries, key)
    scores = [entry.score(name, key) for entry in entries for name in entry.systems]
    best = max((score for score in scores if score is not None), default=None)
    if copied is None or best is None or copied <= best or not entries[0].columns[key].is_quality:
        return ""
    return f"{entries[0].columns[key].heading} {format_score(copied)} against {format_score(best)}"


def copy_wins(entry: Entry) -> list[str]:
    """Return one sentence for each preset about the metrics on which the copied source beats every system."""
    wins = {key: win for key in entry.columns if (win := copy_win([entry], key))}
    if not wins:
        return []
    presets = _by_preset({key: entry.columns[key] for key in wins})
    return [
        *(f"{preset}: {', '.join(wins[key] for key in keys)} of the best system." for preset, keys in presets.items()),
        "Read these metrics together with those that look at the source: SARI, iBLEU, self-BLEU, copy rate.",
    ]


def metrics_to_draw(evaluation: Evaluation) -> list[str]:
    """Return the keys of up to four quality metrics for the plot of scores. Standard metrics come first."""
    quality = [key for key, column in evaluation.columns.items() if column.is_quality and not column.group]
    standard = [key for key in _SHOWN_FIRST if key in quality]
    return (standard or quality)[:4]
