"""chrF (Popovic, 2015) and TER (Snover et al., 2006), computed by sacreBLEU with other labels."""

from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from .base import EvaluationMetric


class Chrf(EvaluationMetric, CHRF):
    """sacreBLEU's chrF: F2 of character 6-grams without spaces."""


class Ter(EvaluationMetric, TER):
    """sacreBLEU's TER: edits and shifts of words in percent of the reference's length. Lower is better.

    Words are separated by spaces, and case is ignored.
    """

    higher_is_better = False
