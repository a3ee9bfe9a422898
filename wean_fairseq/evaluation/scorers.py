"""Our metrics as fairseq scorers: ``fairseq-generate --scoring wean --wean-metrics rouge-l,bleu2``.

fairseq passes only reference and hypothesis to a scorer, so metrics that use the source are refused. In the references
that fairseq passes, words outside the dictionary are ``<unk>``. These scores are good enough to monitor a training.
Scores for a report must come from ``wean-evaluate``.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.scoring import BaseScorer, register_scorer

from ..errors import UserError
from ..fields import option
from .metrics import EvaluationMetric, MetricSettings, build_metric


@dataclass
class WeanScorerConfig(FairseqDataclass):
    """Options for ``--scoring wean``."""

    wean_metrics: str = option("bleu", "metrics of wean-evaluate, separated by commas; the first is the score")
    wean_tokenize: str = option("none", "13a, none, zh or char; none suits tokenised output")
    wean_lowercase: bool = option(False, "ignore case")


@register_scorer("wean", dataclass=WeanScorerConfig)
class WeanScorer(BaseScorer):
    """A fairseq scorer that computes metrics without the source from the strings that fairseq collects."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        settings = MetricSettings(cfg.wean_tokenize, cfg.wean_lowercase)
        names = [name.strip() for name in cfg.wean_metrics.split(",") if name.strip()]
        self.metrics = [build_metric(name, settings) for name in names]
        if not self.metrics:
            raise UserError("--wean-metrics names no metric; give for example bleu,rouge-l.")
        for name, metric in zip(names, self.metrics, strict=True):
            if metric.needs_source:
                raise UserError(f"{name} compares with the source, which fairseq does not show; use wean-evaluate.")

    def score(self) -> float:
        """Return the score of the first metric."""
        return self._score(self.metrics[0])

    def result_string(self) -> str:
        """Return all scores with their signatures."""
        scores = [f"{metric.label} = {self._score(metric):.2f} ({metric.get_signature()})" for metric in self.metrics]
        return "; ".join(scores) + " [fairseq's references hold <unk>: report with wean-evaluate instead]"

    def _score(self, metric: EvaluationMetric) -> float:
        """Score all sentences collected so far."""
        return float(metric.corpus_score(self.pred, [self.ref]).score)
