"""chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU under labels of their own."""

from typing import Any

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from .base import EvaluationMetric


class Chrf(CHRF, EvaluationMetric):
    """sacreBLEU's chrF: F2 of character 6-grams, spaces left out."""

    def __init__(self, label: str = "chrF", lowercase: bool = False) -> None:
        """Set sacreBLEU's defaults, but for the case."""
        super().__init__(lowercase=lowercase)
        self.label = label

    def _compute_score_from_stats(self, stats: Any) -> Any:
        """Compute chrF and file it under this metric's label."""
        score = super()._compute_score_from_stats(stats)
        score.name = self.label
        return score


class Ter(TER, EvaluationMetric):
    """sacreBLEU's TER: edits and shifts of words in percent of the reference's length; less is better."""

    higher_is_better = None

    def __init__(self, label: str = "TER") -> None:
        """Set sacreBLEU's defaults: words between spaces, case ignored."""
        super().__init__()
        self.label = label

    def _compute_score_from_stats(self, stats: Any) -> Any:
        """Compute TER and file it under this metric's label."""
        score = super()._compute_score_from_stats(stats)
        score.name = self.label
        return score
