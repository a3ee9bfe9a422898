"""Metrics as sacreBLEU `Metric` subclasses: sufficient statistics -> score, each with a signature."""

from wean_fairseq.evaluation.metrics.base import EvaluationMetric, MeanMetric, OwnMetric, SourceMixin
from wean_fairseq.evaluation.metrics.bert_score import BertScore
from wean_fairseq.evaluation.metrics.bleu import Bleu, IBleu, NltkBleu, SelfBleu
from wean_fairseq.evaluation.metrics.characters import Chrf, Ter
from wean_fairseq.evaluation.metrics.copying import CopyRate, ExactMatch, LengthRatio, Novelty, SourceLengthRatio
from wean_fairseq.evaluation.metrics.diversity import Distinct, Diversity
from wean_fairseq.evaluation.metrics.meteor import Meteor
from wean_fairseq.evaluation.metrics.method7 import Method7Bleu, Method7IBleu, Method7SelfBleu, method7_bleu
from wean_fairseq.evaluation.metrics.registry import METRICS, MetricEntry, Settings, build_metric
from wean_fairseq.evaluation.metrics.rouge import Rouge
from wean_fairseq.evaluation.metrics.sari import Sari, SentenceSari
from wean_fairseq.evaluation.metrics.simplification import CharacterRatio, Fkgl, SentenceSplits, WordChanges
from wean_fairseq.evaluation.metrics.topics import TopicCoverage

__all__ = [
    "METRICS",
    "BertScore",
    "Bleu",
    "CharacterRatio",
    "Chrf",
    "CopyRate",
    "Distinct",
    "Diversity",
    "EvaluationMetric",
    "ExactMatch",
    "Fkgl",
    "IBleu",
    "LengthRatio",
    "MeanMetric",
    "Meteor",
    "Method7Bleu",
    "Method7IBleu",
    "Method7SelfBleu",
    "MetricEntry",
    "NltkBleu",
    "Novelty",
    "OwnMetric",
    "Rouge",
    "Sari",
    "SelfBleu",
    "SentenceSari",
    "SentenceSplits",
    "Settings",
    "SourceLengthRatio",
    "SourceMixin",
    "Ter",
    "TopicCoverage",
    "WordChanges",
    "build_metric",
    "method7_bleu",
]
