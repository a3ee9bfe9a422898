"""Diversity of the wording: corpus distinct-n (Li et al., 2016) and the per-essay diversity of PC-SAN (eq. 14)."""

from typing import Any

import numpy as np

from ...text.ngrams import count_ngrams
from ..tokenizers import Lowercase
from .base import FloatArray, MeanMetric, OwnMetric


class Diversity(MeanMetric):
    """PC-SAN eq. 14: |set(tokens)| / |tokens| of every essay, mean over essays, as a percentage."""

    def __init__(self, label: str = "Diver", tokenize: str = "none", lowercase: Lowercase = False) -> None:
        super().__init__(label, tokenize, lowercase, {"avg": "sentence"})

    higher_is_better = None

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        tokens = hypothesis.split()
        return len(set(tokens)) / len(tokens) if tokens else 0.0


class Distinct(OwnMetric):
    """distinct-n: different n-grams over n-grams of the whole output, as a percentage.

    Sets of n-grams cannot be added up, so there is neither an interval nor a test. The number also falls with the size
    of the test set, so compare it on one set only. The value of a sentence is computed from that sentence alone.
    """

    higher_is_better = None
    additive = False

    def __init__(self, label: str = "dist-1", order: int = 1, tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"order": order, "avg": "corpus"})
        self.order = order
        self._seen: set[tuple[str, ...]] = set()

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        self._seen = set()
        return super()._extract_corpus_statistics(hypotheses, references)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (n-grams not seen in earlier sentences, all n-grams, different ones within the sentence)."""
        counts = count_ngrams(hypothesis.split(), self.order)
        new = [ngram for ngram in counts if ngram not in self._seen]
        self._seen.update(new)
        return [float(len(new)), float(counts.total()), float(len(counts))]

    def scores_of(self, totals: FloatArray) -> FloatArray:
        return np.asarray(100.0 * totals[:, 0] / np.maximum(totals[:, 1], 1.0))

    def sentence_scores(self, rows: FloatArray) -> FloatArray:
        return np.asarray(100.0 * rows[:, 2] / np.maximum(rows[:, 1], 1.0))
