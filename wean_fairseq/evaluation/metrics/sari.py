"""SARI (Xu et al., 2016, section 4.1) rates the words that a simplification adds, keeps and deletes.

Let I, O and R_j be the n-gram counts of the source, the output and the j-th of r references. R is the sum of all R_j.
For every order n = 1..4::

    add   (types)   right = |O \\ I and in R|                 proposed = |O \\ I|              wanted = |R \\ I|
    keep  (counts)  right = min(r*min(I,O), min(r*I, R))      proposed = r*min(I,O)            wanted = min(r*I, R)
    delete (counts) right = min(r*(I-O)+, (r*I-R)+)           proposed = r*(I-O)+              wanted = (r*I-R)+

The formula does not define how counts become a score, so papers use three different scores under the same name. Here
they are three metrics with different signatures:

* `Sari`, the standard since EASSE (Alva-Manchego et al., 2019): counts are summed over the corpus before precision and
  recall are computed, and every operation uses F1;
* `Sari` with ``legacy``, EASSE's name for the variant of Zhang and Lapata (2017): the only difference is that the
  source is split at spaces instead of being tokenised;
* `SentenceSari`, the score of Xu's own program: the mean over sentences, in which the deletion score is only a
  precision.

A ratio 0/0 counts as 0. The score of each operation is averaged over the orders n. SARI is the mean of the three
scores, times 100.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...text.ngrams import MAX_ORDER, Ngrams, added_counts, count_all, sentence_scores
from ..tokenizers import Lowercase, fold_case
from .base import FloatArray, OwnMetric, SignatureItems, SourceMixin, ratio

OPERATIONS = ("add", "keep", "delete")


def summed_counts(lines: Sequence[Sequence[str]], weight: int | None = None) -> dict[str, Any]:
    """Return the n-gram counts of the source (first in ``lines``) and of all references, and the weight r."""
    source, *references = map(count_all, lines)
    return {
        "source": source,
        "reference": [sum(counts, Ngrams()) for counts in zip(*references, strict=True)],
        "weight": len(references) if weight is None else weight,
    }


class _SariMetric(SourceMixin, OwnMetric):
    """Base class of all variants of SARI: the mean of the three operations, or one of them.

    Args:
        operation: "add", "keep" or "delete". Empty = SARI, the mean of the operations.
    """

    def __init__(
        self, label: str, tokenize: str, lowercase: Lowercase, options: SignatureItems, operation: str
    ) -> None:
        """Store the operation.

        The score of a single operation describes systems, but its direction is None because it does not rank them.
        """
        super().__init__(label, tokenize, lowercase, options | ({"operation": operation} if operation else {}))
        self.operation = operation
        self.direction = None if operation else "higher"

    @abstractmethod
    def operation_scores(self, totals: FloatArray) -> FloatArray:
        """Return the scores of add, keep and delete as percentages, shape (sums, statistics) -> (sums, 3)."""

    def scores_of(self, totals: FloatArray) -> FloatArray:
        scores = self.operation_scores(totals)
        return scores[:, OPERATIONS.index(self.operation)] if self.operation else np.asarray(scores.mean(axis=1))


class Sari(_SariMetric):
    """Corpus-level SARI as a sacreBLEU metric. Its sufficient statistics are 9 counts for each of the 4 n-gram orders.

    Args:
        tokenize: as for BLEU. ``13a`` is the standard.
        lowercase: whether case is ignored. True is the standard.
        legacy: split the source at spaces instead of tokenising it.
        weight: value of r in the formula, if it is not the number of references. Zhang and Lapata's evaluation used 8
            for every corpus, even for WikiSmall, which has one reference.
    """

    def __init__(
        self,
        label: str = "SARI",
        tokenize: str = "13a",
        lowercase: Lowercase = True,
        legacy: bool = False,
        weight: int | None = None,
        operation: str = "",
    ) -> None:
        options: SignatureItems = {"order": MAX_ORDER, "del": "f1"}
        options |= {"src": "none"} if legacy else {}
        options |= {"weight": weight} if weight is not None else {}
        super().__init__(label, tokenize, lowercase, options, operation)
        self.legacy, self.weight = legacy, weight

    def _cache_references(self, references: Sequence[Sequence[str]]) -> list[Any]:
        """Count the n-grams of the source and the references. With `legacy`, the source is first split at spaces."""
        cache = super()._cache_references(references)
        for info, source in zip(cache, self.sources or (), strict=True) if self.legacy else ():
            info["source"] = count_all(fold_case(source, self.lowercase).split())
        return cache

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        """For each order, count the n-grams of the source (the first text), and of all references together."""
        return summed_counts([line.split() for line in refs], self.weight)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return nine counts for every order, starting with order 1."""
        row: list[float] = []
        for output, source, reference in zip(
            count_all(hypothesis.split()), ref_kwargs["source"], ref_kwargs["reference"], strict=True
        ):
            row += added_counts(source, output, reference)
            row += kept_and_deleted_counts(source, output, reference, ref_kwargs["weight"])
        return row

    def operation_scores(self, totals: FloatArray) -> FloatArray:
        """Return the F1 of add, keep and delete, averaged over n, as percentages: (sums, 36) -> (sums, 3)."""
        counts = totals.reshape(-1, MAX_ORDER, 3, 3)  # shape: sums x orders x operations x (right, proposed, expected)
        right, proposed, expected = counts[..., 0], counts[..., 1], counts[..., 2]
        precision, recall = ratio(right, proposed), ratio(right, expected)
        return np.asarray(100.0 * f1(precision, recall).mean(axis=1))


def kept_and_deleted_counts(source: Ngrams, output: Ngrams, reference: Ngrams, num_refs: int) -> list[float]:
    """Return right, proposed and expected counts for keep, then for delete, of one order (source counts times r)."""
    rows = [(0, 0, 0, 0, 0, 0)]
    for ngram, count in source.items():
        in_source, in_output, in_reference = num_refs * count, num_refs * output[ngram], reference[ngram]
        kept, keepable = min(in_source, in_output), min(in_source, in_reference)
        deleted, deletable = max(in_source - in_output, 0), max(in_source - in_reference, 0)
        rows.append((min(kept, keepable), kept, keepable, min(deleted, deletable), deleted, deletable))
    return [float(sum(column)) for column in zip(*rows, strict=True)]


class SentenceSari(_SariMetric):
    """Mean of the sentence SARI of Xu's own program (github.com/cocoxu/simplification), which the NTS scripts call.

    Keeping and deleting are rated for each distinct n-gram, independent of its count. As in that program, words are
    separated by single spaces, so there is an empty word between two spaces.

    Args:
        brackets: write round brackets as -lrb- and -rrb-, as the NTS scripts do.
    """

    def __init__(self, label: str = "SARI-xu", brackets: bool = False, operation: str = "") -> None:
        options: SignatureItems = {"order": MAX_ORDER, "del": "precision", "avg": "sentence"}
        super().__init__(label, "none", True, options | ({"brackets": "lrb"} if brackets else {}), operation)
        self.signature_items["tok"] = "spaces"
        self.brackets = brackets

    def _preprocess_segment(self, sent: str) -> str:
        text = sent.lower().strip()
        return text.replace("(", "-lrb-").replace(")", "-rrb-") if self.brackets else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        """For each order, count the n-grams of the source (the first text), and of all references together."""
        return summed_counts([line.split(" ") for line in refs])

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return the sentence's scores of add, keep and delete, followed by 1."""
        outputs = count_all(hypothesis.split(" "))
        scores = sentence_scores(ref_kwargs["source"], outputs, ref_kwargs["reference"], ref_kwargs["weight"])
        return [*scores, 1.0]

    def operation_scores(self, totals: FloatArray) -> FloatArray:
        """Return the means over sentences, shape (sums, 4) -> (sums, 3), as percentages."""
        return 100.0 * ratio(totals[:, :3], totals[:, 3:].repeat(3, axis=1))


def f1(precision: FloatArray, recall: FloatArray) -> FloatArray:
    """Return the harmonic mean, or 0 if both are 0."""
    return ratio(2 * precision * recall, precision + recall)
