"""``adamw``: AdamW (Loshchilov and Hutter, ICLR 2019), as used for BERT and C-DNPG, in torch's fused implementation.

fairseq's ``adam`` applies weight decay to every parameter, and updates the parameters one by one in Python.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, List  # noqa: UP035 - fairseq's parser knows `List`

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from ..fields import check_values, option


@dataclass
class AdamWConfig(FairseqDataclass):
    """Options of the optimiser. The defaults are the values of C-DNPG (Gu et al., COLING 2022)."""

    beta1: float = option(0.9, "decay of the mean of gradients", is_share=True)
    beta2: float = option(0.999, "decay of the mean of squared gradients", is_share=True)
    eps: float = option(1e-8, "added to the root of the mean of squared gradients", least=0)
    weight_decay: float = option(0.01, "weight decay, for matrices only, not for biases and layer norms", least=0)
    lr: List[float] = II("optimization.lr")  # noqa: RUF009, UP006 - a string


@register_optimizer("adamw", dataclass=AdamWConfig)
class AdamW(FairseqOptimizer):
    """``torch.optim.AdamW`` in its fused version. Weight decay is not applied to parameters with one dimension.

    Raises:
        UserError: if an option is out of range.
    """

    def __init__(self, cfg: AdamWConfig, params: Iterable[torch.nn.Parameter]) -> None:
        super().__init__(cfg)
        check_values(AdamWConfig, cfg)
        params = list(params)
        both = [
            {"params": [p for p in params if p.ndim > 1], "weight_decay": cfg.weight_decay},
            {"params": [p for p in params if p.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in both if group["params"]]
        self._decays = [group["weight_decay"] for group in groups]
        self._optimizer = torch.optim.AdamW(groups, fused=True, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Arguments for torch's optimiser, which apply to all parameter groups.

        A resumed training uses the values in its checkpoint instead.
        """
        return {
            "lr": self.cfg.lr[0],
            "betas": (self.cfg.beta1, self.cfg.beta2),
            "eps": self.cfg.eps,
        }

    def load_state_dict(self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None) -> None:
        """Load the state, but use the weight decay of the command line.

        ``optimizer_overrides`` cannot set it, because it would also change the weight decay of the biases.
        """
        super().load_state_dict(state_dict, optimizer_overrides)
        for group, decay in zip(self.param_groups, self._decays, strict=True):
            group["weight_decay"] = decay

    @property
    def supports_flat_params(self) -> bool:
        """Return False. A flat vector hides which parameters are matrices. --fp16 needs --fp16-no-flatten-grads."""
        return False
