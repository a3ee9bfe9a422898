"""Metrics as sacreBLEU `Metric` subclasses: sufficient statistics -> score, each with a signature."""

from .base import EvaluationMetric, MeanMetric, OwnMetric, SourceMixin
from .bert_score import BertScore
from .bleu import Bleu, IBleu, NltkBleu, SelfBleu
from .characters import Chrf, Ter
from .copying import CopyRate, ExactMatch, LengthRatio, Novelty, SourceLengthRatio
from .diversity import Distinct, Diversity
from .meteor import Meteor
from .method7 import Method7Bleu, Method7IBleu, Method7SelfBleu, method7_bleu
from .registry import METRICS, MetricEntry, MetricSettings, build_metric
from .rouge import Rouge
from .sari import Sari, SentenceSari
from .simplification import CharacterRatio, Fkgl, SentenceSplits, WordChanges
from .topics import TopicCoverage
