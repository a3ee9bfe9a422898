"""Paired significance tests and confidence intervals from the metrics' sufficient statistics.

The resamples are those of sacreBLEU's `PairedTest` (same generator, same seed, same order of draws), so scores,
p-values and intervals agree with it; a test compares them. The sums over resampled sentences are computed as one
matrix product instead of by indexing, which needs no (resamples x sentences x statistics) array and makes 20,000
sentences and any number of metrics affordable.

* paired bootstrap (Koehn, 2004), as in Moses' ``bootstrap-hypothesis-difference-significance.pl``;
* approximate randomisation (Riezler and Maxwell, 2005), as in MultEval: sentences of the two systems are swapped at
  random.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wean_fairseq.evaluation.metrics.base import EvaluationMetric, FloatArray

#: sacreBLEU's default seed (environment variable SACREBLEU_SEED).
DEFAULT_SEED = 12345
DEFAULT_RESAMPLES = 1000
DEFAULT_TRIALS = 10000
#: Draws per block; a multiple of 32, so that blocks consume whole words of the random stream.
_BLOCK = 64
#: Differences of scores (0..100) below this are rounding, not differences.
_TIE = 1e-9


@dataclass(frozen=True)
class Interval:
    """A percentile interval of bootstrap scores.

    Attributes:
        low: lower bound.
        high: upper bound.
    """

    low: float
    high: float


@dataclass(frozen=True)
class PairedResult:
    """Comparison of two systems on one metric.

    Attributes:
        difference: score of the system minus score of the baseline.
        p_bootstrap: paired bootstrap p-value.
        p_randomization: approximate randomisation p-value.
    """

    difference: float
    p_bootstrap: float
    p_randomization: float


class Draws:
    """The random part of both tests, drawn once and used for every metric and system.

    Kept small: one byte per sentence and resample, one bit per sentence and trial.

    Args:
        num_sentences: sentences of the test set.
        resamples: bootstrap resamples.
        trials: randomisation trials.
        seed: of both, each with a generator of its own (as in sacreBLEU).
    """

    def __init__(self, num_sentences: int, resamples: int, trials: int, seed: int = DEFAULT_SEED) -> None:
        """Remember the sizes; nothing is drawn before it is needed."""
        self.num_sentences = num_sentences
        self.resamples = resamples
        self.trials = trials
        self.seed = seed

    @cached_property
    def _weights(self) -> npt.NDArray[np.uint8]:
        """How often every sentence is drawn, shape (resamples, sentences); more than 255 times does not happen."""
        generator = np.random.default_rng(self.seed)
        weights = np.empty((self.resamples, self.num_sentences), dtype=np.uint8)
        for row in weights:
            row[:] = np.bincount(generator.choice(self.num_sentences, self.num_sentences), minlength=self.num_sentences)
        return weights

    @cached_property
    def _masks(self) -> npt.NDArray[np.uint8]:
        """Which sentences keep their system, one bit each, shape (trials, bytes)."""
        generator = np.random.default_rng(self.seed)
        blocks = []
        for start in range(0, self.trials, _BLOCK):
            size = (min(_BLOCK, self.trials - start), self.num_sentences)
            blocks.append(np.packbits(generator.integers(2, size=size, dtype=bool), axis=1))
        return np.concatenate(blocks)

    def bootstrap(self, rows: list[FloatArray]) -> list[FloatArray]:
        """Sum the rows of every array over the same resamples; one (resamples, statistics) array for each."""
        stacked, cuts = _stack(rows)
        blocks = (self._weights[start : start + _BLOCK] for start in range(0, self.resamples, _BLOCK))
        totals = np.concatenate([weights.astype(np.float64) @ stacked for weights in blocks])
        return np.split(totals, cuts, axis=1)

    def shuffle(self, pairs: list[tuple[FloatArray, FloatArray]]) -> list[tuple[FloatArray, FloatArray]]:
        """Sum the rows of two pseudo-systems for every trial and every pair (baseline rows, system rows)."""
        stacked, cuts = _stack([baseline - system for baseline, system in pairs])
        blocks = []
        for start in range(0, self.trials, _BLOCK):
            bits = np.unpackbits(self._masks[start : start + _BLOCK], axis=1, count=self.num_sentences)
            blocks.append(bits.astype(np.float64) @ stacked)
        result = []
        for (baseline, system), kept in zip(pairs, np.split(np.concatenate(blocks), cuts, axis=1), strict=True):
            first = kept + system.sum(axis=0)
            result.append((first, baseline.sum(axis=0) + system.sum(axis=0) - first))
        return result


def _stack(arrays: list[FloatArray]) -> tuple[FloatArray, list[int]]:
    """Put arrays side by side and return where to cut them apart again."""
    widths = [array.shape[1] for array in arrays]
    return np.concatenate(arrays, axis=1), list(np.cumsum(widths)[:-1])


def confidence_interval(scores: FloatArray) -> Interval:
    """Return the central 95% of bootstrap scores (sacreBLEU's cut: 1/40 from either end)."""
    ordered = np.sort(scores)
    skipped = len(ordered) // 40
    return Interval(float(ordered[skipped]), float(ordered[len(ordered) - skipped - 1]))


def p_value(statistics: FloatArray, observed: float) -> float:
    """Share of statistics above the observed difference, with the usual +1 (never 0).

    Two systems with equal scores get 1; sacreBLEU gives them 1/(n+1), which reads as "significantly different".
    """
    if observed <= _TIE:
        return 1.0
    return float((np.sum(statistics > observed + _TIE) + 1) / (len(statistics) + 1))


def bootstrap_p(baseline: FloatArray, system: FloatArray, observed: float) -> float:
    """Paired bootstrap p-value from the scores of both systems on the same resamples."""
    differences = np.abs(system - baseline)
    return p_value(differences - differences.mean(), observed)


def randomization_p(metric: EvaluationMetric, totals: tuple[FloatArray, FloatArray], observed: float) -> float:
    """Approximate randomisation p-value from the summed rows of the pseudo-systems."""
    return p_value(np.abs(metric.scores_of(totals[0]) - metric.scores_of(totals[1])), observed)
