"""Distraction (Chen et al., IJCAI 2016) makes contents and hypotheses different from previous steps.

Legend: ``N`` hypotheses, ``P`` previous steps, ``S`` source length, ``D`` any width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity


class ContentDistraction(nn.Module):
    """c_t = tanh(u * c'_t + w * sum_{j<t} c_j), element by element, as in the authors' code."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.now = nn.Parameter(torch.ones(width))  # u
        self.before = nn.Parameter(torch.zeros(width))  # w

    def forward(self, content: Tensor, summed: Tensor) -> Tensor:
        """Return c_t (N, D), given c'_t (N, D) and the sum of the previous contents (N, D)."""
        return torch.tanh(self.now * content + self.before * summed)


def least_divergence(weights: Tensor, before: Tensor) -> Tensor:
    """Return min_j KL(alpha_j || alpha_t) (N,): weights (N, S), and the weights (N, P, S) of P >= 1 previous steps."""
    tiny = torch.finfo(torch.float32).tiny
    ratio = (before.float() + tiny).log() - (weights.float() + tiny).log().unsqueeze(1)
    return (before.float() * ratio).sum(dim=-1).amin(dim=1)


def greatest_likeness(vectors: Tensor, before: Tensor) -> Tensor:
    """Return max_j cos(v_j, v_t) (N,), for vectors (N, D) and the vectors (N, P, D) of P >= 1 previous steps."""
    return cosine_similarity(vectors.float().unsqueeze(1), before.float(), dim=-1).amax(dim=1)
