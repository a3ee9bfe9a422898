"""``model_loss``: the loss that a model computes in its forward method, with the auxiliary losses of its paper.

The model's forward method gets the target and returns summed losses. This has two advantages: distributed training sees
that every parameter is used, and a model with a large vocabulary need not compute all scores at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor

from ..capabilities import capabilities_of
from ..errors import UserError
from ..fields import option
from ..modules import LossSums
from ..modules.output_matmul import bf16_products

_PER_TOKEN = "per_token:"  # prefix of a sum that is logged as an average over tokens


@dataclass
class ModelLossConfig(FairseqDataclass):
    """Options of the criterion. The papers use no label smoothing, but the recipes may set it."""

    label_smoothing: float = option(
        0.0, "probability mass spread over the other words, as in label_smoothed_cross_entropy; 0 = none"
    )
    bf16_output: bool = option(
        False,
        "round the factors of the output layer's matrix products to bfloat16: not exact, only for processors with "
        "bfloat16 instructions",
    )
    skip_first_target: bool = option(
        False, "exclude the first word of targets from the loss, as the C-DNPG authors' code does"
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("model_loss", dataclass=ModelLossConfig)
class ModelLossCriterion(FairseqCriterion):
    """Criterion that returns sums of losses over tokens. ``reduce_metrics`` divides the sums of all workers once.

    With ``sentence_avg``, gradients are divided by the number of sentences instead of tokens. ``bf16_output`` (see
    ``modules.output_matmul.bf16_products``) rounds products to bfloat16 in training and in validation. It does not
    affect additive scores, nor the scores of ``dnpg`` with label smoothing. ``skip_first_target`` trains like the code
    of the C-DNPG authors, which removes [CLS] from its targets and therefore never trains P(y_1). Validation also
    excludes P(y_1).
    """

    def __init__(self, task: FairseqTask, cfg: ModelLossConfig) -> None:
        super().__init__(task)
        self.options = cfg

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Compute the loss of one batch.

        Args:
            sample: fairseq's batch with ``net_input``, ``target`` (B, T) and ``ntokens``.
            reduce: must be true, because losses of single tokens are not available.

        Returns:
            The summed loss, the number by which gradients are divided, and the sums to log.

        Raises:
            UserError: if the model does not compute a loss that this criterion can use.
        """
        if not reduce:
            raise NotImplementedError("this criterion keeps no per-token losses: use cross_entropy for reduce=False.")
        if self.options.skip_first_target:
            sample = self._without_first_target(sample)
        with bf16_products(self.options.bf16_output):
            sums = self._sums(model, sample)
        sample_size = sample["target"].size(0) if self.options.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.detach(),
            "nll_loss": sums.nll_loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        logging_output |= {_PER_TOKEN + name: value.detach() for name, value in sums.logged.items()}
        return sums.loss, sample_size, logging_output

    def _without_first_target(self, sample: dict[str, Any]) -> dict[str, Any]:
        target = sample["target"].clone()
        target[:, 0] = self.padding_idx
        return {**sample, "target": target, "ntokens": max(1, int(target.ne(self.padding_idx).sum()))}

    def _sums(self, model: BaseFairseqModel, sample: dict[str, Any]) -> LossSums:
        if not capabilities_of(model).computes_loss:
            raise UserError(
                f"criterion model_loss is for models that compute their own loss, and {type(model).__name__} does not: "
                "use --criterion cross_entropy or label_smoothed_cross_entropy."
            )
        sums = model(**sample["net_input"], target=sample["target"], label_smoothing=self.options.label_smoothing)
        return LossSums(*sums)  # if the model is wrapped for distributed training, it may return a plain tuple

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Add up the sums of all workers first, and divide the totals once.

        Losses are reported in base 2, as in fairseq.
        """

        def total(key: str) -> Any:
            return sum(log.get(key, 0) for log in logging_outputs)

        ntokens, sample_size = total("ntokens"), total("sample_size")
        metrics.log_scalar("loss", total("loss") / sample_size / math.log(2), sample_size, round=3)
        metrics.log_scalar("nll_loss", total("nll_loss") / ntokens / math.log(2), ntokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        for key in sorted({key for log in logging_outputs for key in log if key.startswith(_PER_TOKEN)}):
            metrics.log_scalar(key.removeprefix(_PER_TOKEN), total(key) / ntokens, ntokens, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True, because all logged values are sums."""
        return True
