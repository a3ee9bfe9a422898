"""``adagrad_accumulator``: Adagrad whose accumulators do not start at zero, as See et al. (ACL 2017) train.

fairseq's ``adagrad`` starts them at zero, and then the first update moves every weight by the whole learning rate.
"""

from dataclasses import dataclass
from typing import Any, List  # noqa: UP035 - fairseq's parser knows `List`

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from ..fields import check_values, option


@dataclass
class AccumulatorAdagradConfig(FairseqDataclass):
    """The default is the paper's."""

    initial_accumulator_value: float = option(0.1, "where the sum of squared gradients starts (sec. 5)", least=0)
    weight_decay: float = option(0.0, "weight decay")
    lr: List[float] = II("optimization.lr")  # noqa: RUF009, UP006 - a string


@register_optimizer("adagrad_accumulator", dataclass=AccumulatorAdagradConfig)
class AccumulatorAdagrad(FairseqOptimizer):
    """``torch.optim.Adagrad`` with an initial accumulator; raises ``UserError`` if that is below zero."""

    def __init__(self, cfg: AccumulatorAdagradConfig, params: Any) -> None:
        super().__init__(cfg)
        check_values(AccumulatorAdagradConfig, cfg)
        self._optimizer = torch.optim.Adagrad(
            params, initial_accumulator_value=cfg.initial_accumulator_value, **self.optimizer_config
        )

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Arguments of torch's optimiser; a training that goes on keeps those of its checkpoint."""
        return {"lr": self.cfg.lr[0], "weight_decay": self.cfg.weight_decay}

    @property
    def supports_flat_params(self) -> bool:
        """Every number is updated alike, so ``--fp16`` may lay all parameters out as one vector."""
        return True
