"""chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU under labels of their own."""

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from .base import EvaluationMetric


class Chrf(EvaluationMetric, CHRF):
    """sacreBLEU's chrF: F2 of character 6-grams, spaces left out."""

    def __init__(self, label: str = "chrF", lowercase: bool = False) -> None:
        """Set sacreBLEU's defaults, but for the case."""
        super().__init__(lowercase=lowercase)
        self.label = label


class Ter(EvaluationMetric, TER):
    """sacreBLEU's TER: edits and shifts of words in percent of the reference's length; less is better."""

    higher_is_better = None

    def __init__(self, label: str = "TER") -> None:
        """Set sacreBLEU's defaults: words between spaces, case ignored."""
        super().__init__()
        self.label = label
