"""Copying and length, without which quality scores of paraphrases mislead.

The papers of WEAN, CopyNet, C-DNPG and PC-SAN report none of them except exact match (CopyNet). The copy-the-source
rows in ``docs/evaluation.md`` show why they are needed.
"""

from collections import Counter
from typing import Any

from ...text.ngrams import count_ngrams
from .base import MeanMetric, RatioMetric, SourceMixin


class CopyRate(SourceMixin, MeanMetric):
    """Share of outputs that are token for token their source, as a percentage."""

    higher_is_better = None

    def __init__(self, label: str = "copy%", tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase)

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        return float(hypothesis.split() == references[0].split())


class Pinc(SourceMixin, MeanMetric):
    """PINC (Chen and Dolan, 2011): share of the output's different n-grams that are not in the source, as a percentage.

    It is the mean over the orders 1 to 4 for which the output is long enough, and then over sentences. An empty output
    scores 0.
    """

    higher_is_better = None
    orders = 4

    def __init__(self, label: str = "PINC", tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"order": self.orders, "avg": "sentence"})

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        output, source = hypothesis.split(), references[0].split()
        shares = []
        for order in range(1, min(self.orders, len(output)) + 1):
            ngrams = count_ngrams(output, order).keys()
            shares.append(len(ngrams - count_ngrams(source, order).keys()) / len(ngrams))
        return sum(shares) / len(shares) if shares else 0.0


class ExactMatch(MeanMetric):
    """Share of inputs one of whose references equals one of the k best outputs (CopyNet paper, sections 5.1 and 5.3).

    Tokens between spaces are compared with their case.

    Args:
        k: number of entries of the n-best list that count.
    """

    def __init__(self, label: str = "exact@1", k: int = 1) -> None:
        super().__init__(label, "none", False, {"k": k})
        self.wants_nbest = k

    def _preprocess_segment(self, sent: str) -> str:
        return "\n".join(super(ExactMatch, self)._preprocess_segment(line) for line in sent.split("\n"))

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        tokens = [reference.split() for reference in references]
        return float(any(line.split() in tokens for line in hypothesis.split("\n")[: self.wants_nbest]))


class LengthRatio(RatioMetric):
    """Tokens of the output over tokens of the reference (of the closest length, as in BLEU), over the whole corpus."""

    higher_is_better = None
    scale = 1.0

    def __init__(self, label: str = "len/ref", tokenize: str = "13a", lowercase: bool = False) -> None:
        super().__init__(label, tokenize, lowercase)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (output length, length of the closest reference, or of the shorter of two, as in BLEU)."""
        length, *others = (len(text.split()) for text in (hypothesis, *ref_kwargs["references"]))
        closest = min(others, key=lambda other: (abs(other - length), other))
        return [float(length), float(closest)]


class SourceLengthRatio(SourceMixin, LengthRatio):
    """Tokens of the output over tokens of the source: the compression ratio of simplification and summarisation."""

    def _extract_reference_info(self, refs: Any) -> dict[str, Any]:
        return super()._extract_reference_info(refs[:1])


class Novelty(SourceMixin, RatioMetric):
    """Share of output n-grams that do not occur in the source, over the whole corpus, as a percentage.

    An n-gram used more often than in the source counts as new for the surplus.
    """

    higher_is_better = None

    def __init__(self, label: str = "novel-1", order: int = 1, tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"order": order})
        self.order = order

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (new n-grams, n-grams)."""
        output: Counter[tuple[str, ...]] = count_ngrams(hypothesis.split(), self.order)
        new = output - count_ngrams(ref_kwargs["references"][0].split(), self.order)
        return [float(new.total()), float(output.total())]
