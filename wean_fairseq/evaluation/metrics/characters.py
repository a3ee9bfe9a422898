"""chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU with other labels."""

from typing import Any

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from ...errors import UserError
from .base import EvaluationMetric

_LONGEST = 1000  # words; the time of TER grows with the cube of the length


class Chrf(EvaluationMetric, CHRF):
    """sacreBLEU's chrF: F2 of character 6-grams without spaces."""


class Ter(EvaluationMetric, TER):
    """sacreBLEU's TER: edits and shifts of words in percent of the reference's length. Lower is better.

    Words are separated by spaces, and case is ignored.
    """

    higher_is_better = False

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return edits and reference length. Raises ``UserError`` for texts that would take hours."""
        longest = max(map(len, [hypothesis.split(), *ref_kwargs["ref_words"]]))
        if longest > _LONGEST:
            raise UserError(
                f"a sentence has {longest:,} words, and TER compares at most {_LONGEST:,}: leave --metric ter out."
            )
        statistics: list[float] = super()._compute_segment_statistics(hypothesis, ref_kwargs)
        return statistics
