"""Mixtures of the layers of a frozen network, one for each layer that reads them (PC-SAN, section 3.2, eq. 2).

B_j = sum_l alpha_jl h^l: h^1 to h^L are the outputs of BERT's layers, its embeddings not among them, and j is a layer
of the decoder. The paper does not say whether the alphas are free or sum to 1; both are here. Taking means over
positions commutes with mixing, so h may be the mean over the pieces of a word.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``N`` mixtures.
"""

import torch
from torch import Tensor, nn

MIXTURES = ("softmax", "free")


class LayerMixture(nn.Module):
    """sum_l alpha_jl h^l (eq. 2), even at the start.

    The parameter is called by what it is, so that a checkpoint says how to read it: ``logits`` of a softmax, or free
    ``weights``.

    Args:
        kind: ``softmax``: alpha_j = softmax of free parameters that start at 0; ``free``: the alphas themselves, which
            start at 1 / L.
        num_layers: ``L``.
        num_mixtures: ``N``; 1 where all layers of the decoder share one mixture.

    Raises:
        ValueError: for an unknown kind.
    """

    def __init__(self, kind: str, num_layers: int, num_mixtures: int) -> None:
        super().__init__()
        if kind not in MIXTURES:
            raise ValueError(f"`kind` must be one of {', '.join(MIXTURES)}, but is {kind!r} instead.")
        self.kind = kind
        self.num_mixtures = num_mixtures
        if kind == "softmax":
            self.logits = nn.Parameter(torch.zeros(num_mixtures, num_layers))
        else:
            self.weights = nn.Parameter(torch.full((num_mixtures, num_layers), 1.0 / num_layers))  # alpha

    def alphas(self) -> Tensor:
        """The weights of all mixtures: (N, L)."""
        return mixture_weights(self.logits) if self.kind == "softmax" else self.weights

    def forward(self, layers: Tensor) -> Tensor:
        """Mix: (B, S, L, H) -> (B, N, S, H)."""
        return torch.einsum("bslh,nl->bnsh", layers, self.alphas())  # Eq. (2)


class LastLayer(nn.Module):
    """B_j = h^L for every j: the ablation "-Last" of the paper; no parameters."""

    num_mixtures = 1

    def forward(self, layers: Tensor) -> Tensor:
        """Pick: (B, S, L, H) -> (B, 1, S, H)."""
        return layers[:, :, -1].unsqueeze(1)


def mixture_weights(logits: Tensor) -> Tensor:
    """The alphas of a ``softmax`` mixture, in the dtype of its parameters: (N, L) -> (N, L), rows that sum to 1."""
    return torch.softmax(logits, dim=-1, dtype=torch.float32).to(logits.dtype)
