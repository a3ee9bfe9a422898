"""Scores and the data that is needed to interpret them, in the form that ``wean-evaluate --json`` writes.

A file contains the label, preset, group of sentences, direction and signature of each column, so a reader can show or
compare scores without the metrics. For files of older versions, `Evaluation` derives the columns from their keys.
"""

import math
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, convert, field, to_builtins

from ..ranges import Amount, Count
from .metrics.base import Direction
from .metrics.registry import METRICS
from .presets import METRIC_PRESETS, STANDARD

#: Differences with a p-value below this number are marked with a star.
SIGNIFICANT = 0.05

_ROUNDING = 1e-6
Probability = Annotated[float, Meta(ge=0, le=1)]

if TYPE_CHECKING:
    Number = float
else:
    # NaN is written to JSON as null, and becomes NaN again when the file is read.
    Number = float | None


def format_score(score: float) -> str:
    """Format a score with two decimals, as the papers print them. NaN is shown as a dash."""
    return f"{score:.2f}" if math.isfinite(score) else "–"


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _differ(number: float, other: float) -> bool:
    """Return whether two numbers differ by more than rounding errors. NaN is not compared."""
    return abs(number - other) > _ROUNDING * max(1.0, abs(number))


class Column(Struct, frozen=True):
    """Description of a column, that is, of the scores of one metric.

    Attributes:
        label: short name within the preset.
        preset: name of the preset, ``standard``, or empty if the metric was chosen with ``--metric``.
        group: group of sentences that is scored, see `Corpus.groups`. Empty = all sentences.
        direction: ``higher`` or ``lower``, depending on which scores are better. None for descriptive numbers, such as
            lengths.
        signature: how the score was computed, in sacreBLEU's notation.
    """

    label: str
    preset: str
    group: str = ""
    direction: Direction = None
    signature: str = ""

    @property
    def is_quality(self) -> bool:
        """True if higher values are better."""
        return self.direction == "higher"

    @property
    def heading(self) -> str:
        """Label with the group of sentences, if there is one."""
        return f"{self.label}[{self.group}]" if self.group else self.label

    @classmethod
    def from_key(cls, key: str, signature: str) -> "Column":
        """Create the column for a key such as ``paper:cdnpg-compat/iBLEU`` or ``exact@1[copied]``.

        Files of older versions contain only keys, but no descriptions of the columns.
        """
        plain, _, group = key.partition("[")
        preset, _, label = plain.rpartition("/")
        columns = METRIC_PRESETS[preset].columns if preset in METRIC_PRESETS else {}
        metric, fixed = columns.get(label, (plain, {}))
        direction = METRICS[metric].direction(**fixed) if metric in METRICS else None
        label = METRICS[plain].label if plain in METRICS else label
        return cls(label, preset or STANDARD, group.removesuffix("]"), direction, signature)


class Score(Struct):
    """The score of one system in one column.

    Attributes:
        score: the corpus-level number, or the mean of ``runs``.
        interval: 95% interval, if it was computed. For one run it is the bootstrap interval. For several runs it covers
            the variation of runs and of sentences.
        runs: the scores of the runs, if the system has several.
        sentences: one score per sentence (the mean over the runs). They are only available while scoring.
        signature: signature of the column, which files of older versions store in every score.
    """

    score: Number
    interval: tuple[Number, Number] | None = field(default=None, name="ci")
    runs: list[Number] = []
    sentences: Any = None
    signature: str = ""

    def __post_init__(self) -> None:
        self.score, self.runs = _number(self.score), [_number(run) for run in self.runs]
        if self.interval is not None and not all(math.isfinite(_number(bound)) for bound in self.interval):
            self.interval = None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the runs, or None if there is only one run."""
        return float(np.std(self.runs, ddof=1)) if len(self.runs) > 1 else None

    def format(self, intervals: bool = False) -> str:
        """Format the score with its deviation if there are several runs, and with its interval if requested."""
        text = format_score(self.score)
        if self.deviation is not None:
            text += f" ± {format_score(self.deviation)}"
        if intervals and self.interval is not None:
            text += f" [{', '.join(map(format_score, self.interval))}]"
        return text

    def as_json(self, sentences: bool) -> dict[str, Any]:
        """Return ``{score, ci}``, with the scores of several runs, and with the sentence scores if requested."""
        is_finite = self.interval is not None and all(map(math.isfinite, self.interval))
        content: dict[str, Any] = {"score": self.score, "ci": self.interval if is_finite else None}
        if self.deviation is not None:
            content |= {"runs": self.runs, "deviation": self.deviation}
        if sentences and self.sentences is not None:
            content["sentences"] = np.asarray(self.sentences).tolist()
        return content


class Comparison(Struct):
    """The paired tests of two systems on one column.

    Attributes:
        metric: key of the column.
        difference: score of the system minus score of the baseline.
        p_values: p-value of each test: ``bootstrap`` and ``randomization``, or ``runs`` if both systems have several
            runs.
        differing: number of sentences in which the statistics of the two systems differ.
        corrected: corrected p-values, if a correction was requested. It depends on the number of systems that are
            compared with the same baseline.
    """

    metric: str
    baseline: str
    system: str
    difference: Number
    differing: Count = 0
    p_values: Annotated[dict[str, Probability], Meta(min_length=1)] = field(default_factory=dict)
    corrected: dict[str, Probability] | None = None

    def __post_init__(self) -> None:
        self.difference = _number(self.difference)

    @property
    def decisive(self) -> dict[str, float]:
        """The corrected p-values if there are any, otherwise the uncorrected ones."""
        return self.corrected or self.p_values

    @property
    def is_significant(self) -> bool:
        """Return True if every test is significant. NaN is never significant."""
        return math.isfinite(self.difference) and max(self.decisive.values()) < SIGNIFICANT

    @property
    def shown_difference(self) -> str:
        """The difference as printed in tables. NaN is shown as a dash."""
        return f"{self.difference:+.2f}" if math.isfinite(self.difference) else "–"

    @property
    def shown_p(self) -> str:
        """The decisive p-values as printed in tables."""
        return "/".join(f"{p_value:.4f}" for p_value in self.decisive.values())


class DataFile(Struct):
    """An input file of the evaluation.

    Attributes:
        lines: number of lines, 0 if it is unknown.
        system: name of the system that wrote the file.
        empty: number of empty outputs.
        outputs_per_sentence: mean length of the file's n-best lists.
    """

    name: str
    sha256: str
    lines: Count = 0
    system: str | UnsetType = UNSET
    empty: Count | UnsetType = UNSET
    outputs_per_sentence: Amount | UnsetType = UNSET


class ScoredData(Struct):
    """The texts that were scored, and the options of the tests.

    Attributes:
        references: number of references per sentence, 0 if it is unknown.
        groups: number of sentences in each group.
        files: the input files by role, which is ``references``, ``source``, ``groups`` or ``systems``.
    """

    sentences: Count = 0
    references: Count = 0
    groups: dict[str, Count] | UnsetType = UNSET
    files: dict[str, list[DataFile]] = {}
    resamples: Count = 0
    trials: Count = 0
    seed: int | None = None
    correction: str | None = None
    warnings: list[str] = []


class Evaluation(Struct):
    """All scores, tests and warnings of one test set.

    Attributes:
        scores: score of each system and column, as system -> key of the column -> score. The rows derived from the
            source come first.
        columns: key -> description. Files of older versions have no descriptions, so they are derived from the key and
            the signature.
        outdated_tests: number of paired tests in the file that are left out, because an older version defined them
            differently.
    """

    scores: dict[str, dict[str, Score]] = field(name="systems")
    data: ScoredData
    columns: dict[str, Column] = {}
    comparisons: list[Comparison] = field(default_factory=list, name="pairwise")
    outdated_tests: int = 0

    def __post_init__(self) -> None:
        scored = {key: score for scores in self.scores.values() for key, score in scores.items()}
        if not self.columns:
            self.columns = {key: Column.from_key(key, score.signature) for key, score in scored.items()}
        if not scored:
            raise ValueError("There are no scores")
        for key in [*scored, *(test.metric for test in self.comparisons)]:
            if key not in self.columns or not self.columns[key].signature:
                raise ValueError(f"Column {key!r} has no signature")
        for fault in chain(self._file_faults(), self._score_faults(), self._test_faults()):
            raise ValueError(fault)
        tests = [test for test in self.comparisons if test.p_values]
        self.outdated_tests, self.comparisons = len(self.comparisons) - len(tests), tests

    def _file_faults(self) -> Iterator[str]:
        """Describe files that contradict the scores. The file with the scores was then changed or merged by hand."""
        number = self.data.sentences
        for role, files in self.data.files.items():
            for file in files:
                if number and file.lines not in (0, number):
                    yield f"{file.name!r} of {role} has {file.lines} lines, but there are {number} sentences"
                if isinstance(file.system, str) and file.system not in self.scores:
                    yield f"{file.name!r} is a file of {file.system!r}, which has no scores"

    def _score_faults(self) -> Iterator[str]:
        """Describe scores that contradict their runs, sentences or interval."""
        number = self.data.sentences
        for system, scores in self.scores.items():
            if not scores:
                yield f"{system!r} has no scores"
            for key, score in scores.items():
                place = f"{key!r} of {system!r}"
                if len(score.runs) > 1 and _differ(float(np.mean(score.runs)), score.score):
                    yield f"{place} is {score.score}, but the mean of its runs is {float(np.mean(score.runs))}"
                if number and isinstance(score.sentences, list) and len(score.sentences) != number:
                    yield f"{place} has {len(score.sentences)} scores of sentences, but there are {number} sentences"
                if score.interval and score.interval[0] > score.interval[1]:
                    yield f"the interval of {place} ends below its start"

    def _test_faults(self) -> Iterator[str]:
        """Describe paired tests that contradict the scores."""
        for test in self.comparisons:
            first, second = (self.scores.get(name, {}).get(test.metric) for name in (test.baseline, test.system))
            if first is None or second is None:
                yield f"a test compares {test.system!r} with {test.baseline!r}, but one has no score {test.metric!r}"
            elif max(len(first.runs), len(second.runs)) < 2 and _differ(second.score - first.score, test.difference):
                yield (
                    f"a test gives the difference {test.difference} of {test.system!r} and {test.baseline!r} by "
                    f"{test.metric!r}, but their scores differ by {second.score - first.score}"
                )

    def as_json(self, sentences: bool = False) -> dict[str, Any]:
        """Return the content of the JSON file. docs/evaluation.md describes it."""
        systems = {
            system: {key: score.as_json(sentences) for key, score in scores.items()}
            for system, scores in self.scores.items()
        }
        tests, columns = to_builtins(self.comparisons), to_builtins(self.columns)
        content = {"columns": columns, "systems": systems, "pairwise": tests, "data": to_builtins(self.data)}
        return {name: replace_nan(item) for name, item in content.items()}


class _Sets(Struct):
    sets: dict[str, Evaluation]


def has_scores(content: dict[str, Any]) -> bool:
    """Return True if the content of a JSON file has the form of ``wean-evaluate --json``."""
    return "sets" in content or content.keys() >= {"systems", "data"}


def evaluations_in(content: dict[str, Any], name: str) -> dict[str, Evaluation]:
    """Return the scores in the content of a JSON file, by test set.

    Args:
        content: the scores of one test set or, after ``--set``, of several.
        name: name of the test set if there is only one.

    Raises:
        msgspec.ValidationError: if ``wean-evaluate --json`` does not write such content.
    """
    return convert(content, _Sets).sets if "sets" in content else {name: convert(content, Evaluation)}


def replace_nan(value: Any) -> Any:
    """Replace NaN and infinity in nested lists and dictionaries by None, because JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: replace_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
