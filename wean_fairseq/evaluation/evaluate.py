"""Score systems on a corpus with all metrics, confidence intervals, a copy-the-source row and paired tests."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from msgspec import convert
from tqdm import tqdm

from . import significance
from .corpus import COPY_ROW, Corpus, check_systems, describe_file, is_baseline
from .metrics.base import FloatArray
from .output_reader import SystemOutput
from .plausibility import empty_warnings, find_oddities, plausibility_warnings
from .presets import MetricColumn
from .score_file import Column, Comparison, Evaluation, Score, ScoredData
from .significance import Draws

#: Minimum number of sentences in which two systems must differ. If they differ in fewer sentences, their paired test is
#: reported with a warning.
FEW_DIFFERING = 10
#: For each system, the statistics of each of its runs.
RunStatistics = Mapping[str, Sequence[FloatArray]]


@dataclass(frozen=True)
class Resampling:
    """Options of confidence intervals and paired tests. 0 resamples or trials turn the interval or test off.

    Attributes:
        resamples: number of bootstrap resamples, for intervals and the paired bootstrap test.
        trials: number of trials of the approximate randomisation test.
        seed: seed of both tests.
        all_pairs: compare every pair of systems instead of each system with the first.
        correction: ``holm`` corrects the p-values of each metric. The correction depends on the number of systems that
            are compared with the same baseline.
    """

    resamples: int = 1000
    trials: int = 10000
    seed: int = significance.DEFAULT_SEED
    all_pairs: bool = False
    correction: str | None = None


def evaluate(
    systems: Sequence[SystemOutput],
    corpus: Corpus,
    columns: Sequence[MetricColumn],
    resampling: Resampling = Resampling(),
    quiet: bool = True,
    leads: Sequence[SystemOutput] = (),
    are_outputs: bool = False,
) -> Evaluation:
    """Score every system with every column.

    Args:
        systems: outputs in input order. Outputs with the same name are runs of one system.
        corpus: references and, where known, sources.
        columns: metrics to compute, from `presets.columns_for`.
        resampling: options of intervals and paired tests.
        quiet: show no progress bar. Outside a terminal, no bar is shown in any case.
        leads: further baseline systems, see `corpus.lead_rows`.
        are_outputs: the texts are known to be outputs of a model, see `plausibility.find_oddities`.
    """
    check_systems(systems, corpus, may_be_none=bool(leads))
    oddities = find_oddities(systems, corpus, are_outputs)
    usable, warnings = drop_sourceless(columns, corpus)
    usable = add_groups(usable, corpus)
    if whole := [column.key for column in usable if corpus.groups and not column.metric.additive]:
        warnings.append(f"--groups leaves out the metrics of the whole output ({', '.join(whole)}).")
    outputs: dict[str, list[SystemOutput]] = {}
    if corpus.sources is not None and corpus.copyable:
        outputs[COPY_ROW] = [SystemOutput(COPY_ROW, [[line] for line in corpus.sources], "")]
    for system in [*leads, *systems]:
        outputs.setdefault(system.name, []).append(system)
    scoring = _Scoring(outputs, corpus, resampling)
    described: dict[str, Column] = {}
    for column in tqdm(usable, "scoring", leave=False, disable=quiet or None):
        column.metric.quiet = quiet
        scoring.add(column)
        signature = column.metric.get_signature().format() + (f"|group:{column.group}" if column.group else "")
        described[column.key] = Column(column.label, column.preset, column.group, column.metric.direction, signature)
        column.metric.forget_references()
    evaluation = Evaluation(scoring.scores, _describe_data(systems, corpus, resampling), described, scoring.comparisons)
    evaluation.data.warnings = [
        *warnings,
        *plausibility_warnings(oddities, [column.signature for column in described.values()]),
        *empty_warnings(systems, corpus),
        *nbest_warnings(systems, usable),
        *copy_warnings(evaluation),
        *run_warnings(systems),
        *few_warnings(evaluation),
    ]
    return evaluation


def drop_sourceless(columns: Sequence[MetricColumn], corpus: Corpus) -> tuple[list[MetricColumn], list[str]]:
    """Leave out the columns whose metrics need the source if the test set has no source.

    Return the remaining columns, and warnings about the columns that were left out.
    """
    if corpus.sources is not None:
        return list(columns), []
    dropped = [column.key for column in columns if column.metric.needs_source]
    warnings = [
        "no source given (--src): the copy-the-source row is missing, so the score of copying alone is unknown."
    ]
    if dropped:
        warnings.append(f"left out, because they compare with the source (--src): {', '.join(dropped)}.")
    return [column for column in columns if not column.metric.needs_source], warnings


def add_groups(columns: Sequence[MetricColumn], corpus: Corpus) -> list[MetricColumn]:
    """After each column with an additive metric, insert one column for each group of sentences."""
    groups = dict.fromkeys(corpus.groups or [])
    expanded: list[MetricColumn] = []
    for column in columns:
        expanded.append(column)
        for name in groups if column.metric.additive else ():
            expanded.append(column._replace(key=f"{column.key}[{name}]", group=name))
    return expanded


class _Scoring:
    """Computes the scores and paired tests of all systems, column by column.

    Args:
        outputs: the runs of every system, and the rows derived from the source.
    """

    def __init__(self, outputs: Mapping[str, Sequence[SystemOutput]], corpus: Corpus, resampling: Resampling) -> None:
        self.outputs, self.corpus, self.resampling = outputs, corpus, resampling
        self.scores: dict[str, dict[str, Score]] = {name: {} for name in outputs}
        self.comparisons: list[Comparison] = []
        # All metrics use the same resamples for the same number of sentences.
        self._draws = cache(lambda size: Draws(size, resampling.resamples, resampling.trials, resampling.seed))

    def add(self, column: MetricColumn) -> None:
        """Score all systems on one column, and test their differences."""
        metric, groups = column.metric, self.corpus.groups or [""] * len(self.corpus)
        members = np.flatnonzero([column.group in ("", name) for name in groups])
        if metric.needs_source:
            metric.sources = self.corpus.sources
        metric.prepare(self.corpus.references)
        # A row contains the counts of one sentence, such as its n-gram matches. A score is computed from the sums of
        # the rows.
        rows: dict[str, list[FloatArray]] = {}
        for name, runs in self.outputs.items():
            texts = [
                ["\n".join(texts) for texts in run.nbest] if metric.wants_nbest else run.hypotheses for run in runs
            ]
            rows[name] = [metric.rows(text)[members] for text in texts]
            run_scores = [metric.score_of(run_rows.sum(axis=0)) for run_rows in rows[name]]
            score = self.scores[name][column.key] = Score(float(np.mean(run_scores)), runs=run_scores)
            if not column.group:
                score.sentences = np.mean([metric.sentence_scores(run_rows) for run_rows in rows[name]], axis=0)
        draws = self._draws(len(members))
        if not metric.additive or draws.resamples < 1:
            return
        # All systems and runs are scored on the same resamples of the test set, so their differences can be tested.
        totals = iter(draws.bootstrap([run_rows for runs in rows.values() for run_rows in runs]))
        resampled = {name: np.array([metric.scores_of(next(totals)) for _ in runs]) for name, runs in rows.items()}
        for name, drawn in resampled.items():
            score = self.scores[name][column.key]
            if len(drawn) == 1:
                score.interval = significance.confidence_interval(drawn[0])
            else:
                score.interval = significance.runs_interval(score.score, *significance.run_error([(score.runs, drawn)]))
        if draws.trials > 0:
            self.comparisons += self._compare(column, rows, resampled, draws)

    def _compare(
        self, column: MetricColumn, rows: RunStatistics, resampled: Mapping[str, FloatArray], draws: Draws
    ) -> list[Comparison]:
        """Test the differences between systems in one column.

        Each system is compared with the first system, or with every system before it.
        """
        names = [name for name in rows if not is_baseline(name)]
        baselines = names if self.resampling.all_pairs else names[:1]
        pairs = [(first, second) for place, first in enumerate(baselines) for second in names[place + 1 :]]
        single = [pair for pair in pairs if all(len(rows[name]) == 1 for name in pair)]
        shuffled = draws.shuffle([(rows[first][0], rows[second][0]) for first, second in single]) if single else []
        totals = dict(zip(single, shuffled, strict=True))
        comparisons = []
        for baseline, system in pairs:
            first, second = (self.scores[name][column.key] for name in (baseline, system))
            difference = second.score - first.score
            if (baseline, system) in totals:
                drawn = (resampled[baseline][0], resampled[system][0])
                p_values = {
                    "bootstrap": significance.bootstrap_p(*drawn, difference),
                    "randomization": significance.randomization_p(
                        column.metric, totals[baseline, system], abs(difference)
                    ),
                }
            elif min(len(first.runs), len(second.runs)) > 1:
                error = significance.run_error([(second.runs, resampled[system]), (first.runs, resampled[baseline])])
                p_values = {"runs": significance.runs_p(difference, *error)}
            else:
                continue  # a single run does not show how much a system varies. `run_warnings` reports this
            sums = [sum(rows[name]) for name in (baseline, system)]
            apart = np.any(sums[0] * len(rows[system]) != sums[1] * len(rows[baseline]), axis=1)
            comparisons.append(Comparison(column.key, baseline, system, difference, int(apart.sum()), p_values))
        if self.resampling.correction == "holm":
            _correct_p_values(comparisons)
        return comparisons


def _correct_p_values(comparisons: Sequence[Comparison]) -> None:
    """Correct the p-values of one column, separately for each test and each baseline."""
    families: dict[tuple[str, str], list[Comparison]] = {}
    for item in comparisons:
        for test in item.p_values:
            families.setdefault((item.baseline, test), []).append(item)
    for (_, test), family in families.items():
        values = significance.holm([item.p_values[test] for item in family])
        for item, value in zip(family, values, strict=True):
            item.corrected = {**(item.corrected or {}), test: value}


def run_warnings(systems: Sequence[SystemOutput]) -> Iterator[str]:
    """Warn if two runs of a system are identical, or if only some of the systems have several runs."""
    runs = Counter(system.name for system in systems)
    for name, number in runs.items():
        different = {tuple(system.hypotheses) for system in systems if system.name == name}
        if len(different) < number:
            yield f"{name}: {number} runs, but only {len(different)} different outputs; is a file given twice?"
    if len(runs) > 1 and 1 in runs.values() and max(runs.values()) > 1:
        once = [name for name, number in runs.items() if number == 1]
        yield f"{', '.join(once)}: one run does not show how much runs vary, so it is not tested against several runs."


def few_warnings(evaluation: Evaluation) -> Iterator[str]:
    """Warn if the systems of a paired test differ in only a few sentences."""
    few: dict[tuple[str, str], list[str]] = {}
    for item in evaluation.comparisons:
        if evaluation.columns[item.metric].is_quality and item.differing < FEW_DIFFERING:
            few.setdefault((item.system, item.baseline), []).append(f"{item.metric} ({item.differing})")
    for (system, baseline), keys in few.items():
        pair = f"{system} and {baseline}"
        yield f"{pair} differ in fewer than {FEW_DIFFERING} sentences on {', '.join(keys)}: too few to tell."


def nbest_warnings(systems: Sequence[SystemOutput], columns: Sequence[MetricColumn]) -> Iterator[str]:
    """Warn if a metric uses more outputs per sentence than a system has for each sentence."""
    depths = {column.key: column.metric.wants_nbest for column in columns if column.metric.wants_nbest > 1}
    for system in systems:
        if system.short_lists and depths:
            yield f"{system.name}: {system.short_lists}"
        longest = max(len(entries) for entries in system.nbest)
        short = [f"{key} looks at {number}" for key, number in depths.items() if number > longest]
        if short:
            yield f"{system.name} has at most {longest} output(s) per sentence, but {', '.join(short)}."


def copy_warnings(evaluation: Evaluation) -> Iterator[str]:
    """Report systems that score below a copy of the source or of its beginning, with the metrics concerned."""
    for row, copied in evaluation.scores.items():
        for name, scores in evaluation.scores.items():
            if not is_baseline(row) or is_baseline(name):
                continue
            beaten = [
                f"{key} ({copied[key].score:.2f} > {scores[key].score:.2f})"
                for key, column in evaluation.columns.items()
                if column.is_quality and copied[key].score > scores[key].score
            ]
            if beaten:
                yield f"{'copying the source' if row == COPY_ROW else row} beats {name} on {', '.join(beaten)}."


def _describe_data(systems: Sequence[SystemOutput], corpus: Corpus, resampling: Resampling) -> ScoredData:
    outputs = [
        {
            "system": system.name,
            **describe_file(system.path, len(system.nbest)),
            "empty": len(system.empty_lines),
            "outputs_per_sentence": float(np.mean([len(entries) for entries in system.nbest])),
        }
        for system in systems
        if system.path
    ]
    content = {
        "sentences": len(corpus),
        "references": len(corpus.references),
        **({} if corpus.groups is None else {"groups": dict(Counter(corpus.groups))}),
        "files": {**corpus.files, "systems": outputs},
        **vars(resampling),
    }
    return convert(content, ScoredData)
