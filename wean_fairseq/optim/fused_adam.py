"""``fused_adam``: fairseq's ``adam``, computed by PyTorch's fused kernel. The results are equal up to rounding.

fairseq's ``adam`` loops over the parameters in Python and makes a dozen passes over each of them. The fused kernel
makes a single pass. The two implementations add epsilon at different places in the formula. With v the mean of squared
gradients and c = 1 - beta2^t, fairseq divides by (sqrt(v) + eps) / sqrt(c), and the kernel divides by sqrt(v) / sqrt(c)
+ eps. Both are equal if the epsilon of the kernel is eps / sqrt(c). This value is used here.
"""

import ast
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, List  # noqa: UP035 - fairseq's parser knows `List`

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor
from torch.optim.adamw import adamw

from ..errors import UserError
from ..fields import check_values, option


@dataclass
class FusedAdamConfig(FairseqDataclass):
    """Options and defaults of fairseq's ``adam``."""

    adam_betas: str = option("(0.9, 0.999)", "betas for Adam optimizer")
    adam_eps: float = option(1e-8, "epsilon for Adam optimizer", least=0)
    weight_decay: float = option(0.0, "weight decay", least=0)
    lr: List[float] = II("optimization.lr")  # noqa: RUF009, UP006 - a string


class FairseqRuleAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay and fairseq's epsilon. Its state has the layout of fairseq's ``adam``.

    The parameters are in float32. Epsilon is added before the bias correction of the mean of squared gradients.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, betas: tuple[float, float], eps: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @property
    def supports_flat_params(self) -> bool:
        """Return True. Every number is updated in the same way, so fairseq may flatten all parameters."""
        return True

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            # Parameters have different step counts if some batches did not use all of them.
            groups_by_count = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    groups_by_count[self._state_of(parameter)["step"], parameter.device].append(parameter)
            for (count, device), params in groups_by_count.items():
                self._update(params, count, device, group)
        return loss

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        return state

    def _update(self, params: list[Tensor], count: int, device: torch.device, group: dict[str, Any]) -> None:
        states = [self.state[parameter] for parameter in params]
        beta1, beta2 = group["betas"]
        adamw(
            params,
            [_gradient_of(parameter) for parameter in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            list(torch.full((len(params),), float(count), device=device).unbind()),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"] / math.sqrt(1.0 - beta2 ** (count + 1)),
            maximize=False,
        )
        for state in states:
            state["step"] = count + 1


def _gradient_of(parameter: Tensor) -> Tensor:
    """Return the gradient in the memory layout of the parameter, which the CPU kernel assumes without checking."""
    grad = parameter.grad
    assert grad is not None
    if grad.stride() == parameter.stride():
        return grad
    return torch.empty_like(parameter).copy_(grad)


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FusedAdam(FairseqOptimizer):
    """``FairseqRuleAdam`` with the options of fairseq's ``adam``.

    Raises:
        UserError: if an option is out of range.
    """

    def __init__(self, cfg: FusedAdamConfig, params: Iterable[Tensor]) -> None:
        super().__init__(cfg)
        check_values(FusedAdamConfig, cfg)
        self._optimizer = FairseqRuleAdam(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Arguments for the optimiser. A resumed training uses the values in its checkpoint instead."""
        return {
            "lr": self.cfg.lr[0],
            "betas": read_betas(self.cfg.adam_betas),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }


def read_betas(text: str) -> tuple[float, float]:
    """Return the two numbers of ``--adam-betas``, such as '(0.9, 0.98)'. Raise ``UserError`` for other values."""
    try:
        beta1, beta2 = (float(value) for value in ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError):
        beta1 = beta2 = math.nan
    if not (0.0 <= beta1 < 1.0 and 0.0 <= beta2 < 1.0):
        raise UserError(f"--adam-betas must be two numbers of at least 0 and below 1, '(0.9, 0.999)', but is {text!r}.")
    return beta1, beta2
