"""``query_embedding``: exact cross entropy over the candidate words, never building the tokens x vocabulary matrix.

Two kinds of model can be trained with it:

* those whose decoder holds a ``QueryEmbedding`` (all of this package that offer it): the target goes into the model's
  forward, which returns the summed losses, so that distributed training sees every parameter in use;
* fairseq's own decoders that take ``features_only`` and end in ``output_projection`` (``--arch transformer`` and its
  kin): their projection is a matrix product with the candidates' rows. With ``--share-decoder-input-output-embed`` it
  is the paper's score ``dot``. An untied projection is used outside the model's forward, so do not train that one
  with --find-unused-parameters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor

from ..errors import UserError
from ..modules import LossSums, QueryEmbedding, product_cross_entropy


@dataclass
class QueryEmbeddingCriterionConfig(FairseqDataclass):
    """WEAN trains without label smoothing."""

    label_smoothing: float = field(
        default=0.0,
        metadata={
            "help": "probability mass spread over the other candidates, 0 = none (as label_smoothed_cross_entropy)"
        },
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("query_embedding", dataclass=QueryEmbeddingCriterionConfig)
class QueryEmbeddingCriterion(FairseqCriterion):
    """Sums over tokens come out; the division happens once, in ``reduce_metrics``.

    Args:
        task: gives the padding index.
        label_smoothing: in [0, 1).
        sentence_avg: divide gradients by sentences instead of tokens.

    Raises:
        UserError: if ``label_smoothing`` is out of range.
    """

    def __init__(self, task: FairseqTask, label_smoothing: float, sentence_avg: bool) -> None:
        super().__init__(task)
        if not 0.0 <= label_smoothing < 1.0:
            raise UserError(f"--label-smoothing must be at least 0 and below 1, but is {label_smoothing}.")
        self.label_smoothing = label_smoothing
        self.sentence_avg = sentence_avg

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Loss of one batch.

        Args:
            model: see the module docstring.
            sample: fairseq's batch: ``net_input``, ``target`` (B, T), ``ntokens``.
            reduce: must be true; single tokens' losses are never kept.

        Returns:
            The summed loss, the number it is to be divided by, and the sums to log.

        Raises:
            UserError: if the model has no output layer that this criterion knows.
        """
        if not reduce:
            raise NotImplementedError("query_embedding keeps no per-token losses: use cross_entropy for reduce=False.")
        sums = self._sums(model, sample)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.detach(),
            "nll_loss": sums.nll_loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return sums.loss, sample_size, logging_output

    def _sums(self, model: BaseFairseqModel, sample: dict[str, Any]) -> LossSums:
        decoder = getattr(model, "decoder", None)
        if isinstance(getattr(decoder, "query_embedding", None), QueryEmbedding):
            sums = model(**sample["net_input"], target=sample["target"], label_smoothing=self.label_smoothing)
            return LossSums(*sums)  # a wrapper for distributed training may return a plain tuple
        projection = getattr(decoder, "output_projection", None)
        if getattr(projection, "weight", None) is None:
            raise UserError(
                f"criterion query_embedding needs a decoder with a query-embedding output layer, or one of fairseq's "
                f"with an output projection; {type(decoder).__name__} has neither: use --criterion cross_entropy."
            )
        features, _ = model(**sample["net_input"], features_only=True)  # (B, T, C)
        target = sample["target"]
        keep = target.ne(self.padding_idx)
        bias = getattr(projection, "bias", None)
        return product_cross_entropy(features[keep], projection.weight, bias, target[keep], self.label_smoothing)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Divide the sums of all workers once; reported in base 2, as fairseq does."""

        def total(key: str) -> Any:
            return sum(log.get(key, 0) for log in logging_outputs)

        ntokens, sample_size = total("ntokens"), total("sample_size")
        metrics.log_scalar("loss", total("loss") / sample_size / math.log(2), sample_size, round=3)
        metrics.log_scalar("nll_loss", total("nll_loss") / ntokens / math.log(2), ntokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """All of them are sums."""
        return True
