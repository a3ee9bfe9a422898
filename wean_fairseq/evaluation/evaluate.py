"""Scores systems on a corpus: all metrics, confidence intervals, the copy-the-source row, paired tests, warnings."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from ..errors import name_some
from . import significance
from .corpus import COPY_ROW, Corpus, check_systems, describe_file, is_baseline
from .metrics.base import FloatArray
from .output_reader import SystemOutput
from .plausibility import find_oddities, plausibility_warnings
from .presets import Column

#: p-values below this are marked with a star.
SIGNIFICANT = 0.05
#: A test of two systems that differ in fewer sentences comes with a warning.
FEW_DIFFERING = 10


@dataclass(frozen=True)
class Resampling:
    """Numbers of resamples; 0 turns a test off.

    Attributes:
        resamples: bootstrap resamples, for intervals and the paired bootstrap test.
        trials: approximate randomisation trials.
        seed: of both.
        all_pairs: compare every pair of systems, not only each with the first one.
        correction: ``holm`` corrects the p-values of a metric for the number of systems compared with the same one.
    """

    resamples: int = 1000
    trials: int = 10000
    seed: int = significance.DEFAULT_SEED
    all_pairs: bool = False
    correction: str | None = None


@dataclass
class Cell:
    """One score.

    Attributes:
        score: the corpus-level number; the mean of ``runs`` where there are several.
        runs: the scores of all runs of the system.
        interval: 95% interval, if computed: bootstrap of one run, from runs and sentences of several.
        sentences: one number per sentence, the mean of the runs.
    """

    score: float
    runs: list[float]
    interval: significance.Interval | None = None
    sentences: FloatArray | None = None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over runs, if there are several."""
        return float(np.std(self.runs, ddof=1)) if len(self.runs) > 1 else None


@dataclass
class Comparison:
    """The paired tests of two systems on one column, under the names that they have in JSON.

    Attributes:
        metric: key of the column.
        difference: score of the system minus score of the baseline.
        differing: sentences whose statistics differ.
        p_values: by test: ``bootstrap`` and ``randomization``, or ``runs`` where both systems have several runs.
        corrected: the same, corrected for the number of systems that were compared with the same baseline, if asked
            for.
    """

    metric: str
    baseline: str
    system: str
    difference: float
    differing: int
    p_values: dict[str, float]
    corrected: dict[str, float] | None = None

    @property
    def decisive(self) -> dict[str, float]:
        """The p-values that decide: the corrected ones, where those were asked for."""
        return self.corrected or self.p_values

    @property
    def shown_difference(self) -> str:
        """The difference as tables print it; of what is no number a dash."""
        return f"{self.difference:+.2f}" if math.isfinite(self.difference) else "–"

    @property
    def shown_p(self) -> str:
        """Those p-values as tables print them."""
        return "/".join(f"{p_value:.4f}" for p_value in self.decisive.values())

    @property
    def is_significant(self) -> bool:
        """Whether all tests say so; of what is no number, none does."""
        return math.isfinite(self.difference) and max(self.decisive.values()) < SIGNIFICANT


@dataclass
class Evaluation:
    """Everything that was measured; `report` renders it.

    Attributes:
        cells: system name -> column key -> score; the copy row comes first where there is a source.
        signatures: column key -> signature.
        data: files with hashes, numbers of sentences and of empty hypotheses, resampling options.
    """

    columns: list[Column]
    cells: dict[str, dict[str, Cell]]
    signatures: dict[str, str]
    comparisons: list[Comparison] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Evaluation":
        """Read the JSON of ``report.as_json``; the metrics themselves are not in it.

        Paired tests of older versions, which called too much significant, are left out.

        Raises:
            ValueError: if it is something else.
        """
        try:
            cells = {
                system: {key: _cell_from_json(cell) for key, cell in found.items()}
                for system, found in content["systems"].items()
            }
            signatures = {
                key: _text(cell["signature"]) for found in content["systems"].values() for key, cell in found.items()
            }
            comparisons = [_comparison_from_json(test) for test in content.get("pairwise", []) if "p_values" in test]
            data = {"sentences": 0, **content["data"]}
            _number(data["sentences"])
            for entry in (entry for part in data.get("files", {}).values() for entry in part):
                _text(entry["name"]), _text(entry["sha256"]), _number(entry.get("lines", 0))
            warnings = [str(text) for text in data.get("warnings", [])]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError("these are not scores of wean-evaluate") from error
        if not signatures:
            raise ValueError("there are no scores")
        return cls([], cells, signatures, comparisons, warnings, data)


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _score(value: Any) -> float:
    """A score, or a difference of two; ``null`` is one that is no number, which JSON cannot write."""
    return math.nan if value is None else _number(value)


def _cell_from_json(content: Mapping[str, Any]) -> Cell:
    score = _score(content["score"])
    low, high = map(_score, content.get("ci") or (None, None))
    interval = (low, high) if math.isfinite(low) and math.isfinite(high) else None
    return Cell(score, [_score(run) for run in content.get("runs", [score])], interval)


def _comparison_from_json(content: Mapping[str, Any]) -> Comparison:
    p_values = {name: _number(value) for name, value in content["p_values"].items()}
    if not p_values:
        raise ValueError("a paired test without p-values")
    corrected = {name: _number(value) for name, value in (content.get("corrected") or {}).items()}
    metric, baseline, system = (_text(content[name]) for name in ("metric", "baseline", "system"))
    difference, differing = _score(content["difference"]), int(content.get("differing", 0))
    return Comparison(metric, baseline, system, difference, differing, p_values, corrected or None)


def evaluate(
    systems: Sequence[SystemOutput],
    corpus: Corpus,
    columns: Sequence[Column],
    resampling: Resampling = Resampling(),
    quiet: bool = True,
    leads: Sequence[SystemOutput] = (),
) -> Evaluation:
    """Score every system with every column.

    Args:
        systems: outputs in input order; those of one name are runs of one system.
        corpus: references and, where known, sources.
        columns: from `presets.columns_for`.
        resampling: intervals and paired tests.
        quiet: show no progress bar, neither of the metrics nor within a slow one; none is shown outside a terminal.
        leads: rows beside the copy row, see `leads.lead_rows`.
    """
    check_systems(systems, corpus, may_be_none=bool(leads))
    oddities = find_oddities(systems, corpus)
    usable, warnings = drop_sourceless(columns, corpus)
    usable = add_groups(usable, corpus)
    outputs: dict[str, list[SystemOutput]] = {}
    if corpus.sources is not None:
        outputs[COPY_ROW] = [SystemOutput(COPY_ROW, [[line] for line in corpus.sources], "")]
    for system in [*leads, *systems]:
        outputs.setdefault(system.name, []).append(system)
    evaluation = Evaluation(usable, {name: {} for name in outputs}, {}, warnings=warnings)
    draws_of = cache(lambda size: significance.Draws(size, resampling.resamples, resampling.trials, resampling.seed))
    for column in tqdm(usable, "scoring", leave=False, disable=quiet or None):
        column.metric.quiet = quiet
        members = np.flatnonzero([column.only in ("", name) for name in corpus.groups or [""] * len(corpus)])
        _score_column(column, outputs, corpus, members, draws_of(len(members)), resampling, evaluation)
        column.metric.forget_references()
    evaluation.warnings += [
        *plausibility_warnings(oddities, evaluation.signatures.values()),
        *empty_warnings(systems, corpus),
        *nbest_warnings(systems, usable),
        *copy_warnings(evaluation),
        *run_warnings(systems),
        *few_warnings(evaluation),
    ]
    evaluation.data = describe_data(systems, corpus, resampling)
    return evaluation


def drop_sourceless(columns: Sequence[Column], corpus: Corpus) -> tuple[list[Column], list[str]]:
    """Leave out columns that need the source where there is none, and say so."""
    if corpus.sources is not None:
        return list(columns), []
    dropped = [column.key for column in columns if column.metric.needs_source]
    warnings = [
        "no source given (--src): the copy-the-source row is missing, so the score of copying alone is unknown."
    ]
    if dropped:
        warnings.append(f"left out, because they compare with the source (--src): {', '.join(dropped)}.")
    return [column for column in columns if not column.metric.needs_source], warnings


def add_groups(columns: Sequence[Column], corpus: Corpus) -> list[Column]:
    """Put behind each column one for each group of sentences; metrics whose rows cannot be added up have none."""
    groups = dict.fromkeys(corpus.groups or [])
    expanded: list[Column] = []
    for column in columns:
        expanded.append(column)
        for name in groups if column.metric.additive else ():
            expanded.append(replace(column, key=f"{column.key}[{name}]", label=f"{column.label}[{name}]", only=name))
    return expanded


def _score_column(
    column: Column,
    outputs: Mapping[str, Sequence[SystemOutput]],
    corpus: Corpus,
    members: npt.NDArray[np.intp],
    draws: significance.Draws,
    resampling: Resampling,
    evaluation: Evaluation,
) -> None:
    metric = column.metric
    if metric.needs_source:
        metric.sources = corpus.sources
    metric.prepare(corpus.references)
    rows: dict[str, list[FloatArray]] = {}
    for name, runs in outputs.items():
        texts = [["\n".join(entry) for entry in run.nbest] if metric.wants_nbest else run.hypotheses for run in runs]
        rows[name] = [metric.rows(text)[members] for text in texts]
        scores = [metric.score_of(counted.sum(axis=0)) for counted in rows[name]]
        sentences = (
            None if column.only else np.mean([metric.sentence_scores(counted) for counted in rows[name]], axis=0)
        )
        evaluation.cells[name][column.key] = Cell(float(np.mean(scores)), scores, sentences=sentences)
    group = f"|group:{column.only}" if column.only else ""
    evaluation.signatures[column.key] = metric.get_signature().format() + group
    if not metric.additive or draws.resamples < 1:
        return
    totals = iter(draws.bootstrap([counted for runs in rows.values() for counted in runs]))
    resampled = {name: np.array([metric.scores_of(next(totals)) for _ in runs]) for name, runs in rows.items()}
    for name, drawn in resampled.items():
        cell = evaluation.cells[name][column.key]
        if len(drawn) == 1:
            cell.interval = significance.confidence_interval(drawn[0])
        else:
            cell.interval = significance.runs_interval(cell.score, *significance.run_error([(cell.runs, drawn)]))
    if draws.trials > 0:
        evaluation.comparisons += _compare(column, rows, resampled, draws, resampling, evaluation)


def _compare(
    column: Column,
    rows: Mapping[str, Sequence[FloatArray]],
    resampled: Mapping[str, FloatArray],
    draws: significance.Draws,
    resampling: Resampling,
    evaluation: Evaluation,
) -> list[Comparison]:
    """Run the tests of one column, for the first system (or all) against those after it."""
    names = [name for name in rows if not is_baseline(name)]
    baselines = names if resampling.all_pairs else names[:1]
    pairs = [(first, second) for place, first in enumerate(baselines) for second in names[place + 1 :]]
    single = [pair for pair in pairs if all(len(rows[name]) == 1 for name in pair)]
    shuffled = draws.shuffle([(rows[first][0], rows[second][0]) for first, second in single]) if single else []
    totals = dict(zip(single, shuffled, strict=True))
    comparisons = []
    for baseline, system in pairs:
        first, second = (evaluation.cells[name][column.key] for name in (baseline, system))
        difference = second.score - first.score
        if (baseline, system) in totals:
            p_values = {
                "bootstrap": significance.bootstrap_p(resampled[baseline][0], resampled[system][0], difference),
                "randomization": significance.randomization_p(column.metric, totals[baseline, system], abs(difference)),
            }
        elif min(len(first.runs), len(second.runs)) > 1:
            error = significance.run_error([(second.runs, resampled[system]), (first.runs, resampled[baseline])])
            p_values = {"runs": significance.runs_p(difference, *error)}
        else:
            continue  # one run alone does not show how much its system varies: `run_warnings` says so
        apart = np.any(sum(rows[baseline]) * len(rows[system]) != sum(rows[system]) * len(rows[baseline]), axis=1)
        comparisons.append(Comparison(column.key, baseline, system, difference, int(apart.sum()), p_values))
    if resampling.correction == "holm":
        _correct_p_values(comparisons)
    return comparisons


def _correct_p_values(comparisons: Sequence[Comparison]) -> None:
    """Correct the p-values of one column, test by test, within the comparisons with one baseline."""
    families: dict[tuple[str, str], list[Comparison]] = {}
    for item in comparisons:
        for test in item.p_values:
            families.setdefault((item.baseline, test), []).append(item)
    for (_, test), family in families.items():
        values = significance.holm([item.p_values[test] for item in family])
        for item, value in zip(family, values, strict=True):
            item.corrected = {**(item.corrected or {}), test: value}


def run_warnings(systems: Sequence[SystemOutput]) -> Iterator[str]:
    """Say where runs of one system are the same text, and where one run is compared with several."""
    runs = Counter(system.name for system in systems)
    for name, number in runs.items():
        different = {tuple(system.hypotheses) for system in systems if system.name == name}
        if len(different) < number:
            yield f"{name}: {number} runs, but only {len(different)} different outputs; is a file given twice?"
    if len(runs) > 1 and 1 in runs.values() and max(runs.values()) > 1:
        once = [name for name, number in runs.items() if number == 1]
        yield f"{', '.join(once)}: one run does not show how much runs vary, so it is not tested against several runs."


def few_warnings(evaluation: Evaluation) -> Iterator[str]:
    """Say where a test rests on few sentences."""
    quality = {column.key for column in evaluation.columns if column.metric.higher_is_better}
    few: dict[tuple[str, str], list[str]] = {}
    for item in evaluation.comparisons:
        if item.metric in quality and item.differing < FEW_DIFFERING:
            few.setdefault((item.system, item.baseline), []).append(f"{item.metric} ({item.differing})")
    for (system, baseline), keys in few.items():
        pair = f"{system} and {baseline}"
        yield f"{pair} differ in fewer than {FEW_DIFFERING} sentences on {', '.join(keys)}: too few to tell."


def empty_warnings(systems: Sequence[SystemOutput], corpus: Corpus) -> Iterator[str]:
    """Report empty hypotheses, which are scored as empty, and empty references, see `drop_holes`."""
    for system in systems:
        empty = system.empty_lines
        if empty:
            yield f"{system.name}: {len(empty)} empty hypotheses (line {name_some(empty)}), scored as empty."
    blank = sum(not line.strip() for text in corpus.references for line in text)
    sentences = enumerate(zip(*corpus.references, strict=True), start=1)
    none = [number for number, lines in sentences if not any(map(str.strip, lines))]
    if holes := blank - len(none) * len(corpus.references):
        yield f"{holes} reference lines are empty and left out (nrefs:var); the other references of the sentence count."
    if none:
        yield f"{len(none)} sentences have only empty references (line {name_some(none)}), scored as empty."


def nbest_warnings(systems: Sequence[SystemOutput], columns: Sequence[Column]) -> Iterator[str]:
    """Say where a metric looks at more outputs of a sentence than there are."""
    wanted = {column.key: column.metric.wants_nbest for column in columns if column.metric.wants_nbest > 1}
    for system in systems:
        longest = max(len(entries) for entries in system.nbest)
        short = [f"{key} looks at {number}" for key, number in wanted.items() if number > longest]
        if short:
            yield f"{system.name} has {longest} output(s) of a sentence but {', '.join(short)}."


def copy_warnings(evaluation: Evaluation) -> Iterator[str]:
    """Say which systems a plain copy of the source, or of its beginning, beats, and on what."""
    for row, copied in evaluation.cells.items():
        for name, cells in evaluation.cells.items():
            if not is_baseline(row) or is_baseline(name):
                continue
            beaten = [
                f"{column.key} ({copied[column.key].score:.2f} > {cells[column.key].score:.2f})"
                for column in evaluation.columns
                if column.metric.higher_is_better and copied[column.key].score > cells[column.key].score
            ]
            if beaten:
                yield f"{'copying the source' if row == COPY_ROW else row} beats {name} on {', '.join(beaten)}."


def describe_data(systems: Sequence[SystemOutput], corpus: Corpus, resampling: Resampling) -> dict[str, Any]:
    """Describe what the scores were computed on."""
    return {
        "sentences": len(corpus),
        "references": len(corpus.references),
        **({} if corpus.groups is None else {"groups": dict(Counter(corpus.groups))}),
        "files": {
            **corpus.files,
            "systems": [
                {
                    "system": system.name,
                    **describe_file(system.path, len(system.nbest)),
                    "empty": len(system.empty_lines),
                    "outputs_per_sentence": float(np.mean([len(entries) for entries in system.nbest])),
                }
                for system in systems
                if system.path
            ],
        },
        "resamples": resampling.resamples,
        "trials": resampling.trials,
        "seed": resampling.seed,
        "correction": resampling.correction,
    }
