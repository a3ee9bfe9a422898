"""N-grams of sentences, and the SARI of one sentence (Xu et al., 2016), computed as in Xu's own program.

``evaluation/metrics/sari.py`` describes the formula and the other ways to interpret it. Words may have any type,
because rewards are computed from ids.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

MAX_ORDER = 4

Ngrams = Counter[tuple[Any, ...]]


def count_ngrams(tokens: Sequence[Any], order: int) -> Ngrams:
    """Count the n-grams of ``order`` words."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def count_all(tokens: Sequence[Any]) -> list[Ngrams]:
    """Count the n-grams of every order from 1 to ``MAX_ORDER``."""
    return [count_ngrams(tokens, order) for order in range(1, MAX_ORDER + 1)]


def added_counts(source: Ngrams, output: Ngrams, reference: Ngrams) -> list[float]:
    """Return the numbers of correct, proposed and required added n-grams, where repetitions count once."""
    added = output.keys() - source.keys()
    required = reference.keys() - source.keys()
    return [len(added & required), len(added), len(required)]


def sentence_scores(
    source: Sequence[Ngrams], output: Sequence[Ngrams], reference: Sequence[Ngrams], weight: int = 1
) -> list[float]:
    """Return Xu's scores of add, keep and delete for one sentence, each between 0 and 1 and averaged over the orders.

    Args:
        source: n-grams of the source, for every order.
        output: n-grams of the output, for every order.
        reference: n-grams of all references together, for every order.
        weight: number of references.
    """
    orders = [_order_scores(*counts, weight) for counts in zip(source, output, reference, strict=True)]
    return [sum(scores) / len(orders) for scores in zip(*orders, strict=True)]


def sentence_sari(source: Sequence[Ngrams], output: Sequence[Ngrams], reference: Sequence[Ngrams]) -> float:
    """Return the SARI of an output with one reference, between 0 and 1, from the n-grams of every order."""
    return sum(sentence_scores(source, output, reference)) / 3


def _order_scores(source: Ngrams, output: Ngrams, reference: Ngrams, weight: int) -> list[float]:
    right, proposed, required = added_counts(source, output, reference)
    source_counts = Ngrams({ngram: weight * count for ngram, count in source.items()})
    output_counts = Ngrams({ngram: weight * count for ngram, count in output.items()})
    kept, keepable, deleted = source_counts & output_counts, source_counts & reference, source_counts - output_counts
    add = _f1(right / proposed if proposed else 0.0, right / required if required else 0.0)
    keep = _f1(*(_mean_share(kept & reference, counts) for counts in (kept, keepable)))
    return [add, keep, _mean_share(deleted - reference, deleted)]


def _mean_share(part: Ngrams, whole: Ngrams) -> float:
    """Return the share of each n-gram's count in ``whole`` that is in ``part``, averaged over the n-grams."""
    return sum(count / whole[ngram] for ngram, count in part.items()) / len(whole) if whole else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
