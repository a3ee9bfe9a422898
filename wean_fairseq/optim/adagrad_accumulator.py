"""``adagrad_accumulator``: Adagrad with non-zero initial accumulators, as in See et al. (ACL 2017).

fairseq's ``adagrad`` initialises them with zero. With zero accumulators, the first update changes every weight by the
whole learning rate.
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
    """Options of the optimiser. The default is the value in the paper."""

    initial_accumulator_value: float = option(0.1, "initial value of the sum of squared gradients (sec. 5)", least=0)
    weight_decay: float = option(0.0, "weight decay")
    lr: List[float] = II("optimization.lr")  # noqa: RUF009, UP006 - a string


@register_optimizer("adagrad_accumulator", dataclass=AccumulatorAdagradConfig)
class AccumulatorAdagrad(FairseqOptimizer):
    """``torch.optim.Adagrad`` with an initial accumulator. Raise ``UserError`` if it is below zero."""

    def __init__(self, cfg: AccumulatorAdagradConfig, params: Any) -> None:
        super().__init__(cfg)
        check_values(AccumulatorAdagradConfig, cfg)
        self._optimizer = torch.optim.Adagrad(
            params, initial_accumulator_value=cfg.initial_accumulator_value, **self.optimizer_config
        )

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Arguments for torch's optimiser. A resumed training uses the values in its checkpoint instead."""
        return {"lr": self.cfg.lr[0], "weight_decay": self.cfg.weight_decay}

    @property
    def supports_flat_params(self) -> bool:
        """Return True. Every number is updated in the same way, so ``--fp16`` may flatten all parameters."""
        return True
