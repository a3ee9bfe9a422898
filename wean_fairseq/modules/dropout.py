"""Dropout that costs a CPU little: 16 random bits a number, and masks of a byte.

PyTorch draws a float32 mask there, number by number, which took six times as long and four times the memory; it was 4%
of a Transformer's training step. On other devices, and for probabilities of 0 and 1, this is PyTorch's.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

LEVELS = 2**16  # probabilities are rounded to a multiple of 1 / LEVELS


class Dropout(nn.Dropout):
    """As PyTorch's, but for what is drawn."""

    def forward(self, values: Tensor) -> Tensor:
        """Any shape."""
        return dropout(values, self.p, self.training)


def dropout(values: Tensor, probability: float, training: bool) -> Tensor:
    """Zero numbers of any shape with a probability, and divide the others by that of being kept."""
    dropped = round(probability * LEVELS)
    if not training or not dropped:
        return values
    if values.device.type != "cpu" or dropped == LEVELS:
        return functional.dropout(values, probability)
    result: Tensor = _Dropout.apply(values, dropped)  # type: ignore[no-untyped-call]
    return result


class _Dropout(torch.autograd.Function):
    """Zero a number whose 16 bits are among the first ``dropped`` of all there are."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dropped: int) -> Tensor:
        quarter = -(-values.numel() // 4)
        drawn = torch.empty(quarter, dtype=torch.int64).random_(-(2**63), None)
        bits = drawn.view(torch.int16)[: values.numel()].view(values.shape)
        keep = bits >= dropped - LEVELS // 2
        ctx.save_for_backward(keep)
        ctx.scale = LEVELS / (LEVELS - dropped)
        return (values * keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None
