"""Soft labels: a choice between classes that a gradient can pass (Jang et al., ICLR 2017, Gumbel softmax).

DNPG (Li et al., ACL 2019, "DN-P") labels every word so: class 0 = phrase level, class 1 = sentence level. Labels are
float32 logarithms throughout, because they weigh attention, where a weight that rounds to 0 would stay there.

Legend: ``C`` classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

PHRASE, SENTENCE = 0, 1
LEVELS = 2


class Labels(NamedTuple):
    """Log-probabilities of both levels, float32.

    Attributes:
        used: with the noise of training; what all that follows reads, (..., 2).
        expected: without it; what weak labels are compared with, (..., 2).
    """

    used: Tensor
    expected: Tensor


def both_labels(logits: Tensor, temperature: Tensor | float, *, noisy: bool) -> Labels:
    """``soft_labels`` of logits (..., 2) with and without noise."""
    expected = soft_labels(logits, temperature, noisy=False)
    return Labels(soft_labels(logits, temperature, noisy=True) if noisy else expected, expected)


def soft_labels(logits: Tensor, temperature: Tensor | float, *, noisy: bool) -> Tensor:
    """Log of softmax((logits + g) / temperature), g being Gumbel noise or nothing.

    Args:
        logits: shape (..., C).
        temperature: above 0; the lower, the closer to one class a label with noise is.
        noisy: draw the class (training) instead of weighing all (inference).

    Returns:
        Shape (..., C), float32.
    """
    logits = logits.float()
    if noisy:
        logits = logits - torch.empty_like(logits).exponential_().log()
    return torch.log_softmax(logits / temperature, dim=-1)


def even_labels(batch: int, device: torch.device) -> Tensor:
    """z_0 = (1/2, 1/2), the label before the first word, as ``soft_labels`` gives it: (B, 2)."""
    return torch.full((batch, LEVELS), 1.0 / LEVELS, device=device).log()
