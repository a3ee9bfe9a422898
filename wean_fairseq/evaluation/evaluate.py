"""Scores systems on a corpus: all metrics, confidence intervals, the copy-the-source row, paired tests, warnings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wean_fairseq.evaluation.corpus import COPY_ROW, Corpus, check_systems, describe_file
from wean_fairseq.evaluation.doubts import check_pieces, doubts
from wean_fairseq.evaluation.errors import name_some
from wean_fairseq.evaluation.metrics.base import FloatArray, Progress, no_progress
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.presets import Column
from wean_fairseq.evaluation.significance import (
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    DEFAULT_TRIALS,
    Draws,
    Interval,
    PairedResult,
    bootstrap_p,
    confidence_interval,
    randomization_p,
)


@dataclass(frozen=True)
class Resampling:
    """How often to resample; 0 turns a test off.

    Attributes:
        resamples: bootstrap resamples, for intervals and the paired bootstrap test.
        trials: approximate randomisation trials.
        seed: of both.
        all_pairs: compare every pair of systems, not only each with the first one.
    """

    resamples: int = DEFAULT_RESAMPLES
    trials: int = DEFAULT_TRIALS
    seed: int = DEFAULT_SEED
    all_pairs: bool = False


@dataclass
class Cell:
    """One score.

    Attributes:
        score: the corpus-level number.
        interval: 95% bootstrap interval, if computed.
        sentences: one number per sentence.
    """

    score: float
    interval: Interval | None = None
    sentences: FloatArray | None = None


@dataclass
class Comparison:
    """A paired test of two systems on one column."""

    key: str
    baseline: str
    system: str
    result: PairedResult


@dataclass
class Evaluation:
    """Everything that was measured; `report` renders it.

    Attributes:
        columns: the metrics, in order.
        cells: system name -> column key -> score; the copy row comes first where there is a source.
        signatures: column key -> signature.
        comparisons: paired tests.
        warnings: sentences for the reader.
        data: files with hashes, numbers of sentences and of empty hypotheses, resampling options.
    """

    columns: list[Column]
    cells: dict[str, dict[str, Cell]]
    signatures: dict[str, str]
    comparisons: list[Comparison] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


def evaluate(
    systems: Sequence[SystemOutput],
    corpus: Corpus,
    columns: Sequence[Column],
    resampling: Resampling = Resampling(),
    progress: Progress = no_progress,
) -> Evaluation:
    """Score every system with every column.

    Args:
        systems: outputs in input order.
        corpus: references and, where known, sources.
        columns: from `presets.columns_for`.
        resampling: intervals and paired tests.
        progress: wraps the loop over metrics, and those within slow ones (the command line passes a progress bar).
    """
    check_systems(systems, corpus)
    odd = check_pieces(systems, corpus)
    usable, warnings = drop_sourceless(columns, corpus)
    usable = add_groups(usable, corpus)
    rows_of = list(systems)
    if corpus.sources is not None:
        rows_of.insert(0, SystemOutput(COPY_ROW, [[line] for line in corpus.sources], ""))
    evaluation = Evaluation(usable, {system.name: {} for system in rows_of}, {}, warnings=warnings)
    draws = Draws(len(corpus), resampling.resamples, resampling.trials, resampling.seed)
    for column in progress(usable, "scoring"):
        column.metric.progress = progress
        _score_column(column, rows_of, corpus, draws, resampling.all_pairs, evaluation)
        column.metric.forget_references()
    evaluation.warnings += [
        *odd,
        *doubts(systems, corpus, evaluation.signatures.values()),
        *empty_warnings(systems, corpus),
        *nbest_warnings(systems, usable),
        *copy_warnings(evaluation),
    ]
    evaluation.data = describe_data(systems, corpus, resampling)
    return evaluation


def drop_sourceless(columns: Sequence[Column], corpus: Corpus) -> tuple[list[Column], list[str]]:
    """Leave out columns that need the source where there is none, and say so."""
    if corpus.sources is not None:
        return list(columns), []
    dropped = [column.key for column in columns if column.metric.needs_source]
    warnings = [
        "no source given (--src): the copy-the-source row is missing, so nobody can see what copying alone would score."
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
    systems: Sequence[SystemOutput],
    corpus: Corpus,
    draws: Draws,
    all_pairs: bool,
    evaluation: Evaluation,
) -> None:
    """Fill one column: scores, intervals and paired tests."""
    metric = column.metric
    if metric.needs_source:
        metric.sources = corpus.sources
    metric.prepare(corpus.references)
    rows: dict[str, FloatArray] = {}
    for system in systems:
        texts = ["\n".join(entries) for entries in system.nbest] if metric.wants_nbest else system.hypotheses
        counted = rows[system.name] = metric.rows(texts)
        sentences = None if column.only else metric.sentence_scores(counted)
        if column.only and corpus.groups is not None:
            counted[[name != column.only for name in corpus.groups]] = 0.0
        evaluation.cells[system.name][column.key] = Cell(metric.score_of(counted.sum(axis=0)), sentences=sentences)
    group = f"|group:{column.only}" if column.only else ""
    evaluation.signatures[column.key] = metric.get_signature().format() + group
    if not metric.additive or draws.resamples < 1:
        return
    totals = draws.bootstrap(list(rows.values()))
    resampled = {name: metric.scores_of(total) for name, total in zip(rows, totals, strict=True)}
    for name, scores in resampled.items():
        evaluation.cells[name][column.key].interval = confidence_interval(scores)
    evaluation.comparisons += _compare(column, rows, resampled, draws, all_pairs, evaluation)


def _compare(
    column: Column,
    rows: dict[str, FloatArray],
    resampled: dict[str, FloatArray],
    draws: Draws,
    all_pairs: bool,
    evaluation: Evaluation,
) -> list[Comparison]:
    """Run both paired tests on one column."""
    names = [name for name in rows if name != COPY_ROW]
    last_baseline = len(names) if all_pairs else 1
    pairs = [(first, second) for place, first in enumerate(names[:last_baseline]) for second in names[place + 1 :]]
    if not pairs or draws.trials < 1:
        return []
    shuffled = draws.shuffle([(rows[a], rows[b]) for a, b in pairs])
    comparisons = []
    for (baseline, system), totals in zip(pairs, shuffled, strict=True):
        difference = evaluation.cells[system][column.key].score - evaluation.cells[baseline][column.key].score
        bootstrap = bootstrap_p(resampled[baseline], resampled[system], abs(difference))
        randomization = randomization_p(column.metric, totals, abs(difference))
        comparisons.append(Comparison(column.key, baseline, system, PairedResult(difference, bootstrap, randomization)))
    return comparisons


def empty_warnings(systems: Sequence[SystemOutput], corpus: Corpus) -> list[str]:
    """Report empty hypotheses and references; they are scored as they are."""
    warnings = []
    for system in systems:
        empty = system.empty_lines
        if empty:
            warnings.append(f"{system.name}: {len(empty)} empty hypotheses (line {name_some(empty)}), scored as empty.")
    blank = sum(not line.strip() for text in corpus.references for line in text)
    if blank:
        warnings.append(f"{blank} reference lines are empty.")
    return warnings


def nbest_warnings(systems: Sequence[SystemOutput], columns: Sequence[Column]) -> list[str]:
    """Say where a metric looks at more outputs of a sentence than there are."""
    wanted = {column.key: column.metric.wants_nbest for column in columns if column.metric.wants_nbest > 1}
    warnings = []
    for system in systems:
        longest = max(len(entries) for entries in system.nbest)
        short = [f"{key} looks at {number}" for key, number in wanted.items() if number > longest]
        if short:
            warnings.append(f"{system.name} has {longest} output(s) of a sentence but {', '.join(short)}.")
    return warnings


def copy_warnings(evaluation: Evaluation) -> list[str]:
    """Say which systems a plain copy of the source beats, and on what."""
    copied = evaluation.cells.get(COPY_ROW)
    if copied is None:
        return []
    warnings = []
    for name, cells in evaluation.cells.items():
        beaten = [
            f"{column.key} ({copied[column.key].score:.2f} > {cells[column.key].score:.2f})"
            for column in evaluation.columns
            if column.metric.higher_is_better and copied[column.key].score > cells[column.key].score
        ]
        if beaten:
            warnings.append(f"copying the source beats {name} on {', '.join(beaten)}.")
    return warnings


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
    }
