"""Paired significance tests and confidence intervals from the metrics' sufficient statistics.

The resamples equal the resamples of sacreBLEU's `PairedTest`, because generator, seed and order of draws are the same.
A test checks this. The sums over resampled sentences are computed by one matrix product instead of by indexing. This
avoids an array of (resamples x sentences x statistics), so 20,000 sentences and many metrics fit into memory.

* approximate randomisation (Riezler and Maxwell, 2005), as in MultEval: sentences of the two systems are swapped at
  random;
* paired bootstrap (Koehn, 2004), two-sided. The p-value is the share of resampled differences whose distance from the
  observed difference is at least the distance of the observed difference from 0 (shift method of Noreen, 1989). In
  sacreBLEU and Moses, which shift the absolute values, 10% of the p-values are below 0.05 if two systems are equally
  good, because this is a one-sided test except for the smallest differences;
* a t test for systems that were trained several times. Its error combines the variances of runs and of sentences (see
  `runs_p`).

Ties count as evidence for the null hypothesis, because most resamples are ties if the systems differ in few sentences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from ..optional import LazyModule
from .metrics.base import EvaluationMetric, FloatArray

special = LazyModule("scipy.special")

#: sacreBLEU's default seed (environment variable SACREBLEU_SEED).
DEFAULT_SEED = 12345
#: Number of draws per block. It is a multiple of 32, so that each block uses whole words of the generator's random
#: bits.
_BLOCK = 64
#: Differences of scores (0..100) that are smaller than this are rounding errors.
_TIE = 1e-9
#: From this number of degrees of freedom on, a t distribution equals the normal distribution.
_NORMAL = 1e9

#: The lower and the upper end of an interval of scores.
Interval = tuple[float, float]


@dataclass
class Draws:
    """The random draws of both tests, which are drawn once and used for every metric and system.

    They need one byte per sentence and resample, and one bit per sentence and trial.

    Attributes:
        seed: seed of both tests. Each test has its own generator (as in sacreBLEU).
    """

    num_sentences: int
    resamples: int
    trials: int
    seed: int = DEFAULT_SEED

    @cached_property
    def _weights(self) -> npt.NDArray[np.uint8]:
        """How often each resample contains each sentence, shape (resamples, sentences).

        No count exceeds 255, so one byte is enough.
        """
        generator = np.random.default_rng(self.seed)
        weights = np.empty((self.resamples, self.num_sentences), dtype=np.uint8)
        for row in weights:
            row[:] = np.bincount(generator.choice(self.num_sentences, self.num_sentences), minlength=self.num_sentences)
        return weights

    @cached_property
    def _masks(self) -> npt.NDArray[np.uint8]:
        """One bit per trial and sentence, shape (trials, bytes). The bit is set if the sentence keeps its system."""
        generator = np.random.default_rng(self.seed)
        blocks = []
        for start in range(0, self.trials, _BLOCK):
            size = (min(_BLOCK, self.trials - start), self.num_sentences)
            blocks.append(np.packbits(generator.integers(2, size=size, dtype=bool), axis=1))
        return np.concatenate(blocks)

    def bootstrap(self, rows: list[FloatArray]) -> list[FloatArray]:
        """Sum the rows of every array over the resampled sentences. All arrays use the same resamples.

        Each result has the shape (resamples, statistics).
        """
        return _add_up((self._weights[start : start + _BLOCK] for start in range(0, self.resamples, _BLOCK)), rows)

    def shuffle(self, pairs: list[tuple[FloatArray, FloatArray]]) -> list[tuple[FloatArray, FloatArray]]:
        """For every trial and every pair (baseline rows, system rows), sum the rows of the two shuffled systems."""
        blocks = (self._masks[start : start + _BLOCK] for start in range(0, self.trials, _BLOCK))
        swaps = (np.unpackbits(bits, axis=1, count=self.num_sentences) for bits in blocks)
        result = []
        differences = _add_up(swaps, [baseline - system for baseline, system in pairs])
        for (baseline, system), difference in zip(pairs, differences, strict=True):
            first = difference + system.sum(axis=0)
            result.append((first, baseline.sum(axis=0) + system.sum(axis=0) - first))
        return result


def _add_up(counts: Iterable[npt.NDArray[np.uint8]], rows: list[FloatArray]) -> list[FloatArray]:
    """Sum the rows of every array (sentences, statistics), weighted by blocks of counts (draws, sentences)."""
    stacked, cuts = np.concatenate(rows, axis=1), np.cumsum([array.shape[1] for array in rows])[:-1]
    totals = np.concatenate([block.astype(np.float64) @ stacked for block in counts])
    return np.split(totals, cuts, axis=1)


def confidence_interval(scores: FloatArray) -> Interval:
    """Return the interval of the central 95% of bootstrap scores. As in sacreBLEU, 1/40 is cut off at either end."""
    ordered = np.sort(scores)
    skipped = len(ordered) // 40
    return float(ordered[skipped]), float(ordered[len(ordered) - skipped - 1])


def p_value(statistics: FloatArray, observed: float) -> float:
    """Return the share of statistics that are at least as large as the observed difference.

    It is never 0, because the observed difference itself counts.

    The p-value of NaN is 1.
    """
    if not np.isfinite(observed):
        return 1.0
    return float((np.sum(statistics >= observed - _TIE) + 1) / (len(statistics) + 1))


def bootstrap_p(baseline: FloatArray, system: FloatArray, difference: float) -> float:
    """Return the paired bootstrap p-value of a difference, given the scores of both systems on the same resamples."""
    return p_value(np.abs(system - baseline - difference), abs(difference))


def randomization_p(metric: EvaluationMetric, totals: tuple[FloatArray, FloatArray], observed: float) -> float:
    """Return the p-value of approximate randomisation from the summed rows of the shuffled systems."""
    return p_value(np.abs(metric.scores_of(totals[0]) - metric.scores_of(totals[1])), observed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's (1979) step-down correction: multiply the smallest of m p-values by m, the next by m - 1, ..."""
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def run_error(systems: Sequence[tuple[Sequence[float], FloatArray]]) -> tuple[float, float]:
    """Return standard error and degrees of freedom of a mean over runs, or of the difference of two such means.

    The error adds two variances: the variance over test sets, computed from the resampled means, and the variance over
    runs. Every run is scored on every sentence, so both variances contain the effect of one run on one sentence. This
    effect is counted only once. The variance of few runs is uncertain, so the degrees of freedom follow Satterthwaite
    (1946).

    Args:
        systems: one or two systems. For each system: the scores of two or more runs on the test set, and their scores
            on the same resamples of its sentences, shape (runs, resamples).
    """
    variance = float(np.var(reduce(np.subtract, [resampled.mean(axis=0) for _, resampled in systems])))
    doubt = 0.0
    for scores, resampled in systems:
        freedom = len(scores) - 1
        spread = float(np.var(scores, ddof=1)) / len(scores)  # variance of the mean over runs
        noise = float(np.var(resampled - resampled.mean(axis=0), axis=1).mean()) / freedom
        # the part of the variance over runs that the finite test set does not explain
        variance += max(0.0, spread - noise)
        doubt += spread**2 / freedom
    return variance**0.5, min(variance**2 / doubt, _NORMAL) if doubt else _NORMAL


def runs_p(difference: float, error: float, freedom: float) -> float:
    """Return the p-value of the two-sided t test for the difference between two means over runs.

    ``error`` and ``freedom`` come from `run_error`.
    """
    return float(2 * special.stdtr(freedom, -abs(difference) / error)) if error > 0 else 1.0


def runs_interval(mean: float, error: float, freedom: float) -> Interval:
    """Return the 95% t interval of a mean over runs. ``error`` and ``freedom`` come from `run_error`."""
    half = float(special.stdtrit(freedom, 0.975)) * error
    return mean - half, mean + half
