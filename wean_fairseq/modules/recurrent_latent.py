"""One latent variable per step, which the next step reads: the generative part of DRGD (Li et al., EMNLP 2017).

Legend: ``N`` rows, ``T`` steps, ``I`` input width, ``H`` hidden width, ``Z`` latent width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .looped_linear import LoopedLinear


class Latents(NamedTuple):
    """The latent variables and their distributions for all steps, each of shape (N, T, Z)."""

    values: Tensor  # z_t
    mean: Tensor  # mu_t
    log_variance: Tensor  # log sigma_t^2


class RecurrentLatent(nn.Module):
    """z_t = mu_t + sigma_t * eps, eps ~ N(0, I), in training; z_t = mu_t otherwise.

    h_t = sigmoid(W x_t + U z_{t-1} + b); mu_t and log sigma_t^2 are linear maps of h_t.
    """

    def __init__(self, input_dim: int, hidden_size: int, latent_dim: int) -> None:
        super().__init__()
        self.input_proj = nn.Linear(input_dim, hidden_size)  # W, b
        self.latent_proj = nn.Linear(latent_dim, hidden_size, bias=False)  # U
        self.gaussian_proj = nn.Linear(hidden_size, 2 * latent_dim)  # mu_t, log sigma_t^2

    def forward(self, inputs: Tensor, latent: Tensor) -> Latents:
        """Run over all steps, given their inputs x_t, (N, T, I), and the z before the first step, (N, Z)."""
        latent_proj = LoopedLinear(self.latent_proj.weight)
        gaussian_proj = LoopedLinear(self.gaussian_proj.weight, self.gaussian_proj.bias)
        steps = []
        for projected in self.input_proj(inputs).unbind(dim=1):
            mean, log_variance = gaussian_proj(torch.sigmoid(projected + latent_proj(latent))).chunk(2, dim=-1)
            latent = mean
            if self.training:  # the exponential is computed in float32, because half precision overflows
                noise = torch.randn_like(mean, dtype=torch.float32)
                latent = mean + (torch.exp(0.5 * log_variance.float()) * noise).to(mean.dtype)
            steps.append((latent, mean, log_variance))
        return Latents(*(torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)))


def divergence_from_prior(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, I)) = -1/2 sum(1 + log sigma^2 - mu^2 - sigma^2): (..., Z) -> (...), float32."""
    mean, log_variance = mean.float(), log_variance.float()
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=-1)
