"""Numbers that describe the words of outputs: copying, length, diversity, and coverage of topics in essays.

Quality scores of paraphrases mislead if copying and length are not reported. The papers of WEAN, CopyNet, C-DNPG and
PC-SAN report none of them except exact match (CopyNet). The rows of the copied source in ``docs/evaluation.md`` show
why these numbers are needed.

Diversity of the wording is measured by corpus distinct-n (Li et al., 2016) and the per-essay diversity of PC-SAN (eq.
14). None of the papers on topic-to-essay generation measures the coverage of topics. They ask raters about "topic
consistency" instead.
"""

from collections import Counter
from typing import Any

import numpy as np

from ...text.ngrams import count_ngrams
from ..tokenizers import Lowercase, has_chinese
from .base import FloatArray, MeanMetric, OwnMetric, RatioMetric, SourceMixin, SourceOnlyMixin


class CopyRate(SourceMixin, MeanMetric):
    """Share of outputs whose tokens equal the tokens of their source, as a percentage."""

    direction = None

    def __init__(self, label: str = "copy%", tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase)

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        return float(hypothesis.split() == references[0].split())


class Pinc(SourceMixin, MeanMetric):
    """PINC (Chen and Dolan, 2011): percentage of the output's distinct n-grams that are not in the source.

    The percentage is averaged over the orders 1 to 4 for which the output is long enough, and then over sentences. An
    empty output scores 0.
    """

    direction = None
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
    """Share of inputs for which one of the k best outputs equals a reference (CopyNet paper, sections 5.1 and 5.3).

    Tokens are separated by spaces, and case matters.

    Args:
        k: number of entries of the n-best list that are considered.
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
    """Tokens of all outputs divided by tokens of all references, using the closest reference in length as BLEU does."""

    direction = None
    scale = 1.0

    def __init__(self, label: str = "len/ref", tokenize: str = "13a", lowercase: bool = False) -> None:
        super().__init__(label, tokenize, lowercase)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return the lengths of the output and of the closest reference.

        If two references are equally close, the shorter one counts.
        """
        length, *others = (len(text.split()) for text in (hypothesis, *ref_kwargs["references"]))
        closest = min(others, key=lambda other: (abs(other - length), other))
        return [float(length), float(closest)]


class SourceLengthRatio(SourceOnlyMixin, LengthRatio):
    """Tokens of the output divided by tokens of the source (compression ratio of simplification and summarisation)."""


class Novelty(SourceMixin, RatioMetric):
    """Share of output n-grams that do not occur in the source, over the whole corpus, as a percentage.

    If the output contains an n-gram more often than the source, the additional occurrences count as new.
    """

    direction = None

    def __init__(self, label: str = "novel-1", order: int = 1, tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"order": order})
        self.order = order

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (number of new n-grams, number of all n-grams)."""
        output: Counter[tuple[str, ...]] = count_ngrams(hypothesis.split(), self.order)
        new = output - count_ngrams(ref_kwargs["references"][0].split(), self.order)
        return [float(new.total()), float(output.total())]


class TopicCoverage(SourceMixin, RatioMetric):
    """Share of the source's (topic) words that occur in the output, over the whole corpus, as a percentage.

    A topic word counts as covered if it is one of the output's tokens. A Chinese topic word is covered if it is a
    substring of the output, because topic and essay may be segmented differently. Topics are always split at white
    space.
    """

    direction = None  # neither direction is better, because an output that only copies the topics scores 100

    def __init__(self, label: str = "topics", tokenize: str = "none", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"match": "token", "chinese": "substring"})

    def _extract_reference_info(self, refs: Any) -> dict[str, Any]:
        return {"topics": set(refs[0].split())}

    def _cache_references(self, references: Any) -> list[Any]:
        """Cache the topics, which are split at white space instead of being tokenised."""
        tokenizer, self._tokenizer = self._tokenizer, str
        try:
            return super()._cache_references(references)
        finally:
            self._tokenizer = tokenizer

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (number of topic words in the output, number of all topic words)."""
        tokens, text, topics = set(hypothesis.split()), hypothesis.replace(" ", ""), ref_kwargs["topics"]
        realised = sum(topic in (text if has_chinese(topic) else tokens) for topic in topics)
        return [float(realised), float(len(topics))]


class Diversity(MeanMetric):
    """PC-SAN eq. 14: the mean of |set(tokens)| / |tokens| over essays, as a percentage."""

    def __init__(self, label: str = "Diver", tokenize: str = "none", lowercase: Lowercase = False) -> None:
        super().__init__(label, tokenize, lowercase, {"avg": "sentence"})

    direction = None

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        tokens = hypothesis.split()
        return len(set(tokens)) / len(tokens) if tokens else 0.0


class Distinct(OwnMetric):
    """distinct-n: distinct n-grams divided by all n-grams of the whole output, as a percentage.

    Numbers of distinct n-grams cannot be added up, so this metric has neither an interval nor a test. The score
    decreases with the size of the test set, so only compare scores on the same set. The score of a single sentence uses
    only the n-grams of this sentence.
    """

    direction = None
    additive = False

    def __init__(self, label: str = "dist-1", order: int = 1, tokenize: str = "13a", lowercase: bool = True) -> None:
        super().__init__(label, tokenize, lowercase, {"order": order, "avg": "corpus"})
        self.order = order
        self._seen: set[tuple[str, ...]] = set()

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        self._seen = set()
        return super()._extract_corpus_statistics(hypotheses, references)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (n-grams not seen in earlier sentences, all n-grams, distinct n-grams within the sentence)."""
        counts = count_ngrams(hypothesis.split(), self.order)
        new = [ngram for ngram in counts if ngram not in self._seen]
        self._seen.update(new)
        return [float(len(new)), float(counts.total()), float(len(counts))]

    def scores_of(self, totals: FloatArray) -> FloatArray:
        return np.asarray(100.0 * totals[:, 0] / np.maximum(totals[:, 1], 1.0))

    def sentence_scores(self, rows: FloatArray) -> FloatArray:
        return np.asarray(100.0 * rows[:, 2] / np.maximum(rows[:, 1], 1.0))
