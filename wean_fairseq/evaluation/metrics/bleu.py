"""BLEU (Papineni et al., 2002), chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU (Post, 2018).

Two further scores are based on BLEU:

* self-BLEU: BLEU of the hypotheses against their sources, which measures how much was copied. A lower score means more
  paraphrasing.
* iBLEU (Sun and Zhou, 2012): ``alpha * BLEU(hyp, ref) - (1 - alpha) * BLEU(hyp, src)`` from two corpus scores.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from ...errors import UserError, name_some
from ..tokenizers import Lowercase, case_signature, fold_case, get_tokenizer
from .base import EvaluationMetric, FloatArray, OwnMetric, SourceMixin, SourceOnlyMixin

logger = logging.getLogger(__name__)
#: Number of length statistics (of hypothesis and reference) that precede the n-gram counts in sacreBLEU's row.
_LENGTHS = 2
_LONGEST = 1000  # maximum number of words in a line that is scored with TER
_SLOW = 200  # longer lines cause a warning, in words
_MOST_MINUTES = 60  # a test set that takes longer is refused
_SECONDS = 0.04  # seconds per word of a line in shuffled order. sacreBLEU tries at most 1,000 shifts per line


class Bleu(EvaluationMetric, BLEU):
    """sacreBLEU's corpus BLEU with a configurable label.

    Args:
        tokenize: ``13a``, ``none``, ``zh`` or ``char``.
        max_ngram_order: maximum length of n-grams, 4 or, for BLEU-2, 2.
    """

    def __init__(
        self, label: str = "BLEU", tokenize: str = "13a", lowercase: Lowercase = False, max_ngram_order: int = 4
    ) -> None:
        """Configure sacreBLEU. ``force`` only turns off sacreBLEU's warning about tokenised text."""
        options: dict[str, Any] = {"tokenize": tokenize, "max_ngram_order": max_ngram_order}
        super().__init__(label, lowercase=bool(lowercase), force=True, **options)
        self._case = lowercase
        self.signature_items["case"] = case_signature(lowercase)
        if max_ngram_order != 4:
            self.signature_items["order"] = max_ngram_order

    def _preprocess_segment(self, sent: str) -> str:
        return str(self.tokenizer(fold_case(sent, self._case).rstrip()))

    def sentence_scores(self, rows: FloatArray) -> FloatArray:
        """Return sentence BLEU with effective order, which sacreBLEU recommends for single sentences."""
        self.effective_order = True
        try:
            return self.scores_of(rows)
        finally:
            self.effective_order = False


class NltkBleu(Bleu):
    """NLTK's ``corpus_bleu`` on NLTK's words, with smoothing method 3 (``exp`` in sacreBLEU).

    If an output has fewer than n words, NLTK counts one wrong n-gram, so the score differs from sacreBLEU's score.
    """

    def __init__(self, label: str = "NLTK-BLEU", lowercase: Lowercase = False) -> None:
        super().__init__(label, "none", lowercase)
        self.tokenizer, self.tokenizer_signature = get_tokenizer("nltk"), "nltk"
        self.signature_items["smooth"] = "nltk-method3"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        """Return sacreBLEU's row, but count at least one n-gram of every order."""
        row: list[int] = super()._compute_segment_statistics(hypothesis, ref_kwargs)
        totals = _LENGTHS + self.max_ngram_order
        return row[:totals] + [max(count, 1) for count in row[totals:]]


class SelfBleu(SourceOnlyMixin, Bleu):
    """BLEU of the outputs against their sources. The references are not used."""

    direction = None

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.info |= {"nrefs": None, "against": "source"}
        return signature


class IBleu(SourceMixin, OwnMetric):
    """Corpus iBLEU (Sun and Zhou, 2012), from sacreBLEU's statistics against reference and source.

    Args:
        alpha: weight of the reference score. The DNPG paper's Table 4 is consistent with 0.9. The C-DNPG code uses 0.8.
    """

    def __init__(
        self, label: str = "iBLEU", tokenize: str = "13a", lowercase: Lowercase = False, alpha: float = 0.9
    ) -> None:
        super().__init__(label, tokenize, lowercase, {"smooth": "exp", "alpha": alpha})
        self.alpha = alpha
        self._bleu = Bleu("BLEU", tokenize, lowercase)

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        """Count the n-grams of the source (first entry) and of the references separately."""
        return {
            "reference": self._bleu._extract_reference_info(refs[1:]),
            "source": self._bleu._extract_reference_info(refs[:1]),
        }

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        """Return BLEU's row against the references, followed by BLEU's row against the source."""
        against_reference = self._bleu._compute_segment_statistics(hypothesis, ref_kwargs["reference"])
        return against_reference + self._bleu._compute_segment_statistics(hypothesis, ref_kwargs["source"])

    def scores_of(self, totals: FloatArray) -> FloatArray:
        return self._combine(self._bleu.scores_of, totals)

    def sentence_scores(self, rows: FloatArray) -> FloatArray:
        return self._combine(self._bleu.sentence_scores, rows)

    def _combine(self, bleu: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
        width = _LENGTHS + 2 * self._bleu.max_ngram_order
        return np.asarray(self.alpha * bleu(rows[:, :width]) - (1.0 - self.alpha) * bleu(rows[:, width:]))


class Chrf(EvaluationMetric, CHRF):
    """sacreBLEU's chrF: F2 of character 6-grams without spaces."""


class Ter(EvaluationMetric, TER):
    """sacreBLEU's TER: word edits and shifts in percent of the reference length. A lower TER is better.

    Words are separated by spaces, and case is ignored.
    """

    direction = "lower"

    def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> Any:
        """Return the edits and the reference length of every line. Warn about slow lines first.

        Raises:
            UserError: if scoring a line would take hours.
        """
        cache = self._cache_references(references) if references else self._ref_cache
        slow: dict[int, int] = {}  # line number -> number of words that are compared
        for number, (hypothesis, reference) in enumerate(zip(hypotheses, cache or [], strict=False), start=1):
            lengths = len(hypothesis.split()), max(map(len, reference["ref_words"]))
            if max(lengths) > _LONGEST:
                raise UserError(
                    f"line {number} has {max(lengths):,} words, and TER compares at most {_LONGEST:,}: leave --metric "
                    "ter out."
                )
            if min(lengths) > _SLOW:
                slow[number] = min(lengths) * len(reference["ref_words"])
        minutes = math.ceil(sum(slow.values()) * _SECONDS / 60)
        where = f"{minutes} min for sentences of more than {_SLOW} words with many shifts (line {name_some([*slow])})"
        if minutes > _MOST_MINUTES:
            raise UserError(f"TER may take {where}: leave --metric ter out, or give shorter sentences.")
        if slow:
            logger.warning(f"TER may take {where}")
        return super()._extract_corpus_statistics(hypotheses, references)
