"""Base classes of all metrics.

A metric sums the sufficient statistics of all sentences, and one formula turns the sums into the score.

Every metric here is a subclass of sacreBLEU's `Metric`: `_compute_segment_statistics` turns one sentence into a row of
numbers, the rows are added up, and `_compute_score_from_stats` turns the sum into the score. Corpus score, sentence
score, confidence interval and significance tests all use the same rows, so they cannot disagree.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric, Score, Signature

from ...console import counted
from ...errors import UserError
from ..tokenizers import Lowercase, case_signature, fold_case, get_tokenizer

FloatArray = npt.NDArray[np.float64]
SignatureItems = dict[str, str | int | float]
#: Whether higher or lower scores are better. None means neither, for numbers that only describe the outputs.
Direction = Literal["higher", "lower"] | None


def drop_holes(references: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """Replace missing (empty) references of a sentence by None, which sacreBLEU skips.

    An empty line in a file of further references means that the sentence has fewer references, as in sacreBLEU's
    command for a variable number of references. If all references of a sentence are empty, the first one is kept.

    Args:
        references: one list of sentences per reference file, shape (references, sentences).

    Raises:
        UserError: if all references of a sentence are None.
    """
    filled = [[line if line and not line.isspace() else None for line in text] for text in references]
    for number, lines in enumerate(zip(*filled, strict=True)):
        if not any(lines):
            texts = [text[number] for text in references if text[number] is not None]
            if not texts:
                raise UserError(f"sentence {number + 1} has no reference: give one, which may be an empty text.")
            filled[0][number] = texts[0]
    return filled


class EvaluationMetric(Metric):
    """A sacreBLEU metric that can also score many resampled test sets at once.

    Attributes:
        label: name of the score in tables, which is unique within one evaluation.
        needs_source: whether `sources` must be set before scoring.
        wants_nbest: number of entries of the n-best list that the metric uses. If the number is not 0, a hypothesis is
            the whole list, with one entry per line and the best entry first.
        direction: ``higher`` for measures of quality, ``lower`` for errors, None for descriptive numbers. Measures of
            quality are compared with the score of a copy of the source.
        sources: source sentences in the order of the references, for metrics with `needs_source`.
        additive: False if the rows of sentences cannot be added up. Such a metric is not resampled, because its
            resampled scores would be meaningless.
        signature_items: entries that extend or replace sacreBLEU's signature entries.
        quiet: show no progress bar while a slow metric is computed.
    """

    label: str = ""
    needs_source: bool = False
    wants_nbest: int = 0
    direction: Direction = "higher"
    additive: bool = True
    sources: Sequence[str] | None = None
    quiet: bool = True
    num_refs: int
    signature_items: SignatureItems

    def __init__(self, label: str, **options: Any) -> None:
        """Store the label, and pass options to sacreBLEU's metric."""
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.label = label
        self.signature_items = {}

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.info |= self.signature_items
        return signature

    def _check_corpus_score_args(self, hyps: Sequence[str], refs: Sequence[Sequence[str]] | None) -> None:
        """Refuse empty input, and lists of different lengths, of which sacreBLEU scores only the first sentences."""
        if len(hyps) == 0 or (refs is not None and (len(refs) == 0 or len(refs[0]) == 0)):
            raise UserError(f"{self.label}: there is nothing to score: give hypotheses and a list of references.")
        lengths = {len(texts) for texts in refs} if refs is not None else {len(self._ref_cache or hyps)}
        if lengths != {len(hyps)}:
            number = next(iter(lengths - {len(hyps)}))
            raise UserError(
                f"{self.label}: there are {len(hyps)} hypotheses but a list of {counted(number, 'reference')}: give "
                "one for each hypothesis, and None for a missing one."
            )
        super()._check_corpus_score_args(hyps, refs)

    def prepare(self, references: Sequence[Sequence[str]]) -> None:
        """Tokenise the references once. The tokenised references are used for all systems."""
        self._ref_cache = self._cache_references(references)

    def forget_references(self) -> None:
        """Free the cache of `prepare`. With a large test set, the n-grams of all metrics would fill the memory."""
        self._ref_cache = None

    def _cache_references(self, references: Sequence[Sequence[str]]) -> list[Any]:
        """Cache the references. Missing references of a sentence are left out."""
        texts: list[Any] = [*self._leading_texts(references), *drop_holes(references)]
        return super()._cache_references(texts)

    def _leading_texts(self, references: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """Return texts that precede the references in the cache."""
        return []

    def rows(self, hypotheses: Sequence[str]) -> FloatArray:
        """Return the statistics of every sentence, shape (sentences, statistics). Call `prepare` first."""
        return np.array(self._extract_corpus_statistics(hypotheses, None), dtype=np.float64)

    def _compute_score_from_stats(self, stats: Any) -> Any:
        """Compute the score with sacreBLEU's metric, and set this metric's label."""
        score = super()._compute_score_from_stats(list(stats))  # type: ignore[safe-super]  # defined by the next class
        score.name = self.label
        return score

    def score_of(self, total: FloatArray) -> float:
        return float(self._compute_score_from_stats(list(total)).score)

    def scores_of(self, totals: FloatArray) -> FloatArray:
        """Return one score for each sum of rows, shape (sums, statistics) -> (sums,)."""
        return np.array([self.score_of(total) for total in totals], dtype=np.float64)

    def sentence_scores(self, rows: FloatArray) -> FloatArray:
        """Return one score for each row returned by `rows`."""
        return self.scores_of(rows)


class OwnMetric(EvaluationMetric):
    """Base class of the metrics defined in this package. BLEU comes from sacreBLEU instead.

    Args:
        label: name of the score in tables.
        tokenize: name of a tokenisation, see `tokenizers`.
        lowercase: whether case is ignored, see `Lowercase`.
        options: further entries of the signature.

    Attributes:
        definition: version of the metric's definition in the signature. It is increased if a change of the metric may
            change scores while all other signature entries stay the same.
    """

    definition = 1

    def __init__(self, label: str, tokenize: str, lowercase: Lowercase, options: SignatureItems | None = None) -> None:
        super().__init__(label)
        self.lowercase = lowercase
        self._tokenizer = get_tokenizer(tokenize)
        self.signature_items = {"case": case_signature(lowercase), "tok": tokenize, **(options or {})}

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.info["wean"] = self.definition
        return signature

    def _preprocess_segment(self, sent: str) -> str:
        return self._tokenizer(fold_case(sent, self.lowercase))

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats(np.array(stats, dtype=np.float64).sum(axis=0))

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        totals = np.asarray(stats, dtype=np.float64).reshape(1, -1)
        return Score(self.label, float(self.scores_of(totals)[0]))

    @abstractmethod
    def scores_of(self, totals: FloatArray) -> FloatArray:
        """Apply the metric's formula to many sums, shape (sums, statistics) -> (sums,)."""

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": list(refs)}


class SourceMixin(EvaluationMetric):
    """Mixin for metrics that use the source. The source precedes the references in the cache.

    Set `sources` before scoring, or pass ``source`` to `sentence_score`.
    """

    needs_source = True

    def _leading_texts(self, references: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """Return the sources, which precede the references."""
        if self.sources is None:
            raise UserError(f"{self.label} compares with the source; give the source sentences (--src).")
        if len(self.sources) != len(references[0]):  # sacreBLEU would ignore the end of the longer text
            raise UserError(
                f"{self.label}: there are {len(self.sources)} sources but {len(references[0])} references; "
                "give one source for each."
            )
        return [self.sources]

    def _cache_references(self, references: Sequence[Sequence[str]]) -> list[Any]:
        """Cache the source and the references, but do not count the source as a reference.

        sacreBLEU uses -1 references for a variable number of references.
        """
        cache = super()._cache_references(references)
        self.num_refs = self.num_refs - 1 if self.num_refs > 0 else self.num_refs
        return cache

    def sentence_score(self, hypothesis: str, references: Sequence[str], source: str | None = None) -> Any:
        """Score one sentence, given its references and its source."""
        sources = self.sources
        self.sources = [source] if source is not None else sources
        try:
            return super().sentence_score(hypothesis, references)
        finally:
            self.sources = sources


class SourceOnlyMixin(SourceMixin):
    """Mixin for metrics that compare the output with the source instead of the references."""

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        info: dict[str, Any] = super()._extract_reference_info(refs[:1])  # type: ignore[safe-super]  # of the next class
        return info


class RatioMetric(OwnMetric):
    """A metric whose score is the ratio of two sums over the corpus.

    The row of a sentence contains its contributions to both sums.

    Attributes:
        scale: factor by which the ratio is multiplied, for example 100 for a percentage.
    """

    scale = 100.0

    def scores_of(self, totals: FloatArray) -> FloatArray:
        return self.scale * ratio(totals[:, 0], totals[:, 1])


class MeanMetric(RatioMetric):
    """A metric whose corpus score is the arithmetic mean of sentence scores. The row of a sentence is (score, 1)."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [self.segment_value(hypothesis, ref_kwargs["references"]), 1.0]

    @abstractmethod
    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        """Return the score of one sentence, usually between 0 and 1.

        Args:
            hypothesis: tokens of the hypothesis, joined by spaces.
            references: tokens of each reference, joined by spaces. With `SourceMixin` the first reference is the
                source.
        """


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide two arrays element by element. The result is 0 if the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)
