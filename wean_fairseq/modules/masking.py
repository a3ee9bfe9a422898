"""Masks and masked normalisation shared by every attention here.

Legend: ``B`` batch, ``T`` target length, ``S`` source length. A mask named ``*_padding_mask`` is ``True`` at padding.
"""

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Softmax over the last dimension, in float32, giving masked positions exactly no weight.

    Args:
        scores: unnormalised scores, shape (B, T, S).
        padding_mask: ``True`` at padding, shape (B, S); ``None`` if nothing is to be masked.

    Returns:
        Weights in the dtype of ``scores``, shape (B, T, S). A row whose positions are all masked is all zero.
    """
    if padding_mask is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
    masked = scores.float().masked_fill(padding_mask.unsqueeze(1), float("-inf"))
    # A fully masked row is -inf throughout, whose softmax is NaN; its weights are defined as 0.
    weights = torch.softmax(masked, dim=-1).masked_fill(padding_mask.unsqueeze(1), 0.0)
    return weights.to(scores.dtype)


def left_padding(padding_mask: Tensor) -> Tensor:
    """Count the padding before the first real token of each row: shape (B, S) -> (B,)."""
    return padding_mask.long().cumprod(dim=1).sum(dim=1)
