"""Metrics as subclasses of sacreBLEU's `Metric`.

Each metric computes a score from sufficient statistics and has a signature.
"""

from .base import EvaluationMetric, MeanMetric, OwnMetric, SourceMixin
from .bleu import Bleu, Chrf, IBleu, NltkBleu, SelfBleu, Ter
from .embeddings import BertScore
from .meteor import Meteor
from .method7 import Method7Bleu, Method7IBleu, Method7SelfBleu, method7_bleu
from .registry import METRICS, MetricEntry, MetricSettings, build_metric
from .rouge import Rouge
from .sari import Sari, SentenceSari
from .simplification import CharacterRatio, Fkgl, SentenceSplits, WordChanges
from .words import CopyRate, Distinct, Diversity, ExactMatch, LengthRatio, Novelty, SourceLengthRatio, TopicCoverage
