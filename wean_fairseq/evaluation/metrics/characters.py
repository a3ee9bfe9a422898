"""chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU with other labels."""

import logging
import math
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from ...errors import UserError, name_some
from .base import EvaluationMetric

logger = logging.getLogger(__name__)
_LONGEST = 1000  # words
_SLOW = 200  # words
_SECONDS = 0.04  # for each word of a shuffled line. sacreBLEU tries at most 1,000 shifts in a line


class Chrf(EvaluationMetric, CHRF):
    """sacreBLEU's chrF: F2 of character 6-grams without spaces."""


class Ter(EvaluationMetric, TER):
    """sacreBLEU's TER: edits and shifts of words in percent of the reference's length. Lower is better.

    Words are separated by spaces, and case is ignored.
    """

    higher_is_better = False

    def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> Any:
        """Return edits and reference length of every line, after a warning of lines that take long.

        Raises:
            UserError: for lines that would take hours.
        """
        cache = self._cache_references(references) if references else self._ref_cache
        slow: dict[int, int] = {}  # number of a line -> words that are compared
        for number, (hypothesis, reference) in enumerate(zip(hypotheses, cache or [], strict=False), start=1):
            lengths = len(hypothesis.split()), max(map(len, reference["ref_words"]))
            if max(lengths) > _LONGEST:
                raise UserError(
                    f"line {number} has {max(lengths):,} words, and TER compares at most {_LONGEST:,}: leave --metric "
                    "ter out."
                )
            if min(lengths) > _SLOW:
                slow[number] = min(lengths) * len(reference["ref_words"])
        if slow:
            logger.warning(
                f"TER may take {math.ceil(sum(slow.values()) * _SECONDS / 60)} min for sentences of more than "
                f"{_SLOW} words with many shifts (line {name_some([*slow])})"
            )
        return super()._extract_corpus_statistics(hypotheses, references)
