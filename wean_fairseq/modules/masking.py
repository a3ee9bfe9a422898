"""Masks and masked normalisation for all attention modules.

Legend: ``B`` batch, ``T`` target length, ``S`` source length. A mask named ``*_padding_mask`` is ``True`` at padding.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def masked_softmax(scores: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Compute a softmax over the last dimension in float32. Masked positions get exactly zero weight.

    Args:
        scores: unnormalised scores, (B, T, S).
        padding_mask: ``True`` at padding, (B, S). ``None`` = no mask.

    Returns:
        Weights in the dtype of ``scores``, (B, T, S). A row in which all positions are masked is zero.
    """
    if padding_mask is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
    weights: Tensor = _MaskedSoftmax.apply(scores.float(), padding_mask.unsqueeze(1))  # type: ignore[no-untyped-call]
    return weights.to(scores.dtype)


class _MaskedSoftmax(torch.autograd.Function):
    """The softmax over unmasked positions.

    Its gradient is 0 where a weight is 0, so backward does not need the mask.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
        # A fully masked row contains only -inf. Its softmax would be NaN, so its weights are set to 0.
        weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1).masked_fill_(mask, 0.0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad, weights, -1, weights.dtype), None
