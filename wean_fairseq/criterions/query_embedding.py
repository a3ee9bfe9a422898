"""``query_embedding``: exact cross entropy over the candidate words without building the matrix of tokens x vocabulary.

It can train two kinds of models:

* Models whose decoder has a ``QueryEmbedding`` (all models of this package that offer it). The model's forward gets the
  target and returns the summed losses, so that distributed training sees that every parameter is used.
* fairseq's own decoders that accept ``features_only`` and have an ``output_projection`` (such as ``--arch
  transformer``). The projection is used as a matrix with one row per candidate word. With
  ``--share-decoder-input-output-embed``, the scores equal the paper's score function ``dot``. An untied projection is
  used outside the model's forward, so do not train such a model with --find-unused-parameters.
"""

from typing import Any

from fairseq.criterions import register_criterion
from fairseq.models import BaseFairseqModel

from ..capabilities import capabilities_of
from ..errors import UserError
from ..modules import LossSums, product_cross_entropy
from .model_loss import ModelLossConfig, ModelLossCriterion


@register_criterion("query_embedding", dataclass=ModelLossConfig)
class QueryEmbeddingCriterion(ModelLossCriterion):
    """``model_loss``, extended by the same loss for fairseq's own decoders."""

    def _sums(self, model: BaseFairseqModel, sample: dict[str, Any]) -> LossSums:
        if capabilities_of(model).computes_loss:
            return super()._sums(model, sample)
        decoder = getattr(model, "decoder", None)
        projection: Any = getattr(decoder, "output_projection", None)
        if getattr(projection, "weight", None) is None:
            raise UserError(
                f"criterion query_embedding needs a decoder with a query-embedding output layer, or one of fairseq's "
                f"with an output projection; {type(decoder).__name__} has neither: use --criterion cross_entropy."
            )
        features, _ = model(**sample["net_input"], features_only=True)  # (B, T, C)
        target = sample["target"]
        keep = target.ne(self.padding_idx)
        bias = getattr(projection, "bias", None)
        smoothing = self.options.label_smoothing
        return product_cross_entropy(features[keep], projection.weight, bias, target[keep], smoothing)
