"""SARI (Xu et al., 2016, section 4.1): how good are the words that a simplification adds, keeps and deletes.

Written from the published formula. Two choices that the formula leaves open follow the corpus-level reading that the
EASSE suite made the field's standard (Alva-Manchego et al., 2019), confirmed by its published values (see the tests):
counts are summed over the corpus before precision and recall are taken, and deletion enters as F1. 0/0 counts as 0.

With I, O, R_1..R_r the n-gram counts of source, output and the r references, R = sum of the R_j, for every order n =
1..4::

    add   (types)   right = |O \\ I and in R|                 proposed = |O \\ I|              wanted = |R \\ I|
    keep  (counts)  right = min(r*min(I,O), min(r*I, R))      proposed = r*min(I,O)            wanted = min(r*I, R)
    delete (counts) right = min(r*(I-O)+, (r*I-R)+)           proposed = r*(I-O)+              wanted = (r*I-R)+

Each operation's F1 is averaged over n, SARI is the mean of the three, times 100.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from wean_fairseq.evaluation.metrics.base import FloatArray, OwnMetric, SourceMixin, ratio

_MAX_ORDER = 4
#: right, proposed, wanted for each of add, keep, delete.
_COUNTS_PER_ORDER = 9

Ngrams = Counter[tuple[str, ...]]


def count_ngrams(tokens: Sequence[str], order: int) -> Ngrams:
    """Count the n-grams of one order."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


class Sari(SourceMixin, OwnMetric):
    """Corpus SARI as a sacreBLEU metric: 4 orders x 9 counts are its sufficient statistics.

    Args:
        label: name in tables.
        tokenize: as for BLEU; ``13a`` is the standard.
        lowercase: True is the standard.
    """

    def __init__(self, label: str = "SARI", tokenize: str = "13a", lowercase: bool = True) -> None:
        """Set tokenisation; everything else is fixed."""
        super().__init__(label, tokenize, lowercase, {"order": _MAX_ORDER, "del": "f1"})

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        """Count the n-grams of the source (first entry) and of all references together, per order."""
        source, references = refs[0].split(), [reference.split() for reference in refs[1:]]
        return {
            "source": [count_ngrams(source, order) for order in range(1, _MAX_ORDER + 1)],
            "reference": [
                sum((count_ngrams(tokens, order) for tokens in references), Ngrams())
                for order in range(1, _MAX_ORDER + 1)
            ],
            "num_refs": len(references),
        }

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return the nine counts of every order, one order after the other."""
        tokens = hypothesis.split()
        row: list[float] = []
        for order in range(1, _MAX_ORDER + 1):
            source, reference = ref_kwargs["source"][order - 1], ref_kwargs["reference"][order - 1]
            output = count_ngrams(tokens, order)
            row += added_counts(source, output, reference)
            row += kept_and_deleted_counts(source, output, reference, ref_kwargs["num_refs"])
        return row

    def operation_scores(self, totals: FloatArray) -> FloatArray:
        """Return F1 of add, keep and delete averaged over n, shape (sums, 36) -> (sums, 3), as percentages."""
        counts = totals.reshape(-1, _MAX_ORDER, 3, 3)  # sums x orders x operations x (right, proposed, wanted)
        right, proposed, wanted = counts[..., 0], counts[..., 1], counts[..., 2]
        precision, recall = ratio(right, proposed), ratio(right, wanted)
        return np.asarray(100.0 * ratio(2 * precision * recall, precision + recall).mean(axis=1))

    def scores_of(self, totals: FloatArray) -> FloatArray:
        """SARI = mean of the three operations."""
        return np.asarray(self.operation_scores(totals).mean(axis=1))


def added_counts(source: Ngrams, output: Ngrams, reference: Ngrams) -> list[float]:
    """Right, proposed and wanted additions of one order (n-gram types)."""
    added = output.keys() - source.keys()
    wanted = reference.keys() - source.keys()
    return [len(added & wanted), len(added), len(wanted)]


def kept_and_deleted_counts(source: Ngrams, output: Ngrams, reference: Ngrams, num_refs: int) -> list[float]:
    """Right, proposed and wanted keeps, then the same for deletions, of one order (source counts times r)."""
    keep = [0, 0, 0]
    delete = [0, 0, 0]
    for ngram, count in source.items():
        in_source, in_output, in_reference = num_refs * count, num_refs * output[ngram], reference[ngram]
        kept, keepable = min(in_source, in_output), min(in_source, in_reference)
        keep[0] += min(kept, keepable)
        keep[1] += kept
        keep[2] += keepable
        deleted, deletable = max(in_source - in_output, 0), max(in_source - in_reference, 0)
        delete[0] += min(deleted, deletable)
        delete[1] += deleted
        delete[2] += deletable
    return [float(value) for value in keep + delete]
