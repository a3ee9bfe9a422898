"""NLTK's sentence BLEU with smoothing "method 7" in two incompatible versions, and the iBLEU of the C-DNPG code.

The C-DNPG authors report the mean of ``sentence_bleu(..., smoothing_function=method7)``. NLTK changed that function in
versions 3.5 and 3.6 without renaming it. Scores can only be compared with the paper's table if they use the same
version. This code reproduces both versions:

* ``legacy``: NLTK <= 3.4.5;
* ``current``: NLTK >= 3.6.

With p_n the modified n-gram precision, L the output length and k = 5, an order n without any match is smoothed first
(step A, "method 4")::

    legacy    p_n = 1 / ((n - 1) + k / ln L)
    current   p_n = (ln L / (k * 2^j)) / (number of n-grams)     for the j-th such order, j = 1, 2, ...; only if L > 1

then neighbouring orders are averaged (step B, "method 5"), with m_0 = p_1 + 1 and the raw 5-gram precision as p_5::

    m_n = (m_{n-1} + p_n + p_{n+1}) / 3          n = 1 .. 4

Score = BP * exp(sum_n w_n ln m_n), or 0 if no word matches. The score may exceed 1. For example, an exact copy of a
long sentence scores about 1.12.
"""

import math
from typing import Any

import numpy as np

from ...errors import UserError
from ...text.ngrams import Ngrams, count_ngrams
from ..tokenizers import Lowercase
from .base import FloatArray, MeanMetric, SourceMixin

_K = 5
_MAX_ORDER = 4
VERSIONS = ("legacy", "current")


def clipped_matches(output: list[str], references: list[list[str]], order: int) -> tuple[int, int]:
    """Return the number of matching n-grams and the number of all n-grams of one order.

    As in NLTK, the second number is at least 1.
    """
    counts = count_ngrams(output, order)
    best = Ngrams()
    for reference in references:
        best |= count_ngrams(reference, order)
    return sum(min(count, best[ngram]) for ngram, count in counts.items()), max(counts.total(), 1)


def smoothed_precisions(output: list[str], references: list[list[str]], version: str) -> list[float]:
    """Return m_1 .. m_4 after steps A and B, or an empty list if no word matches."""
    counted = [clipped_matches(output, references, order) for order in range(1, _MAX_ORDER + 2)]
    if counted[0][0] == 0:
        return []
    precisions = [matches / total for matches, total in counted]
    log_length = math.log(len(output))
    zeros = 0
    for place, (matches, total) in enumerate(counted[:_MAX_ORDER]):
        if matches == 0 and version == "legacy":
            precisions[place] = 1.0 / (place + _K / log_length) if log_length else math.inf
        elif matches == 0 and len(output) > 1:
            zeros += 1
            precisions[place] = log_length / (_K * 2**zeros) / total
    previous = precisions[0] + 1.0
    for place in range(_MAX_ORDER):
        previous = precisions[place] = (previous + precisions[place] + precisions[place + 1]) / 3
    return precisions[:_MAX_ORDER]


def method7_bleu(output: list[str], references: list[list[str]], order: int = 4, version: str = "legacy") -> float:
    """Return sentence BLEU with smoothing method 7.

    Args:
        order: highest order whose precision has a weight (4 or 2). Smoothing always uses orders up to 5.
        version: see the module docstring. In the legacy version, a one-word output without a matching bigram causes a
            division error. The C-DNPG code counts such an error as 0, and so does this function.
    """
    if not output:
        return 0.0
    precisions = smoothed_precisions(output, references, version)
    if not precisions or math.inf in precisions:
        return 0.0
    closest = min((abs(len(reference) - len(output)), len(reference)) for reference in references)[1]
    brevity = 1.0 if len(output) > closest else math.exp(1 - closest / len(output))
    return brevity * math.exp(sum(math.log(precision) for precision in precisions[:order]) / order)


class Method7Bleu(MeanMetric):
    """Mean of `method7_bleu` over sentences, as a percentage.

    Args:
        version: ``legacy`` or ``current``.
        tokenize: name of a tokenisation. The C-DNPG code uses ``none``, because its text is split at spaces.
    """

    def __init__(
        self,
        label: str = "m7",
        order: int = 4,
        version: str = "legacy",
        tokenize: str = "none",
        lowercase: Lowercase = False,
    ) -> None:
        if version not in VERSIONS:
            raise UserError(f"unknown version {version!r} of method 7; choose {' or '.join(VERSIONS)}.")
        super().__init__(
            label, tokenize, lowercase, {"order": order, "smooth": f"nltk-method7-{version}", "avg": "sentence"}
        )
        self.order = order
        self.version = version

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        tokens = [reference.split() for reference in references]
        return method7_bleu(hypothesis.split(), tokens, self.order, self.version)


class Method7SelfBleu(SourceMixin, Method7Bleu):
    """`Method7Bleu` of the output against the source, or with ``defective`` against the letters of its first word.

    The C-DNPG code indexes the source one level too deep, so it compares the output with the letters of the first
    source token. The published iBLEU values imply a self-BLEU of 1.3 to 3.4, which such a comparison produces. Use the
    option ``defective`` only to compare scores with that table.
    """

    direction = None

    def __init__(self, label: str = "m7-self", *, defective: bool = False, **options: Any) -> None:
        super().__init__(label, **options)
        self.defective = defective
        self.signature_items["against"] = "first-source-token-letters" if defective else "source"

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        source = references[0]
        if self.defective:
            first_word = next(iter(source.split()), "")
            source = " ".join(first_word)
        return super().segment_value(hypothesis, [source])


class Method7IBleu(SourceMixin, Method7Bleu):
    """iBLEU of the C-DNPG code: mean of ``alpha * BLEU4(hyp, ref) - (1 - alpha) * BLEU4(hyp, src)`` with alpha 0.8.

    Args:
        defective: reproduce the self-BLEU of the published table, see `Method7SelfBleu`.
    """

    def __init__(self, label: str = "m7-iBLEU", *, alpha: float = 0.8, defective: bool = False, **options: Any) -> None:
        super().__init__(label, **options)
        self.alpha = alpha
        self._self_bleu = Method7SelfBleu("self", defective=defective, **options)
        self.signature_items.update(alpha=alpha, against=self._self_bleu.signature_items["against"])

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (BLEU against references, BLEU against source, 1)."""
        references = ref_kwargs["references"]
        against_source = self._self_bleu.segment_value(hypothesis, references)
        return [self.segment_value(hypothesis, references[1:]), against_source, 1.0]

    def scores_of(self, totals: FloatArray) -> FloatArray:
        combined = self.alpha * totals[:, 0] - (1.0 - self.alpha) * totals[:, 1]
        return np.asarray(100.0 * combined / totals[:, 2])
