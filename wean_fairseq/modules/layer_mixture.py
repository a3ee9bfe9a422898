"""The topics that a decoder layer of PC-SAN reads (section 3.2): a mixture of BERT's layers, and word vectors.

B_j = sum_l alpha_jl h^l (eq. 2), where h^1 to h^L are the outputs of BERT's layers without its embeddings, and j is a
layer of the decoder. The paper does not say whether the alphas are free or sum to 1, so both are implemented. The mean
over positions can be exchanged with the mixture, so h may be the mean over the pieces of a word.

H_j = [G ; B_j] (eq. 3). The paper does not say along which dimension the two are joined. If they are joined along the
features, a map is required, because the paper's decoder has the width of only one of them. Three interpretations are
implemented.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``N`` mixtures, ``E`` width of the word
vectors G.
"""

import torch
from torch import Tensor, nn

MIXTURES = ("softmax", "free")


class LayerMixture(nn.Module):
    """sum_l alpha_jl h^l (eq. 2). Initially, all weights are equal.

    The name of the parameter in a checkpoint shows its meaning: ``logits`` of a softmax, or free ``weights``.

    Args:
        kind: ``softmax``: alpha_j is the softmax of free parameters that start at 0; ``free``: the alphas are free
            parameters that start at 1 / L.
        num_layers: ``L``.
        num_mixtures: ``N``. 1 if all layers of the decoder share one mixture.
    """

    def __init__(self, kind: str, num_layers: int, num_mixtures: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "softmax":
            self.logits = nn.Parameter(torch.zeros(num_mixtures, num_layers))
        else:
            self.weights = nn.Parameter(torch.full((num_mixtures, num_layers), 1.0 / num_layers))  # alpha

    def alphas(self) -> Tensor:
        """Return the weights of all mixtures: (N, L)."""
        return mixture_weights(self.logits) if self.kind == "softmax" else self.weights

    def forward(self, layers: Tensor) -> Tensor:
        """Mix the layers: (B, S, L, H) -> (B, N, S, H)."""
        return torch.einsum("bslh,nl->bnsh", layers, self.alphas())  # Eq. (2)


class LastLayer(nn.Module):
    """B_j = h^L for every j: the ablation "-Last" of the paper. The module has no parameters."""

    def forward(self, layers: Tensor) -> Tensor:
        """Return the last layer: (B, S, L, H) -> (B, 1, S, H)."""
        return layers[:, :, -1].unsqueeze(1)


def mixture_weights(logits: Tensor) -> Tensor:
    """Return the alphas (N, L) of a ``softmax`` mixture, in the dtype of its logits (N, L). Rows sum to 1."""
    return torch.softmax(logits, dim=-1, dtype=torch.float32).to(logits.dtype)


FUSIONS = ("feature", "kv1536", "sequence")


class TopicFusion(nn.Module):
    """H_j = [G ; B_j] (eq. 3).

    Args:
        kind: ``feature``: concatenate the features, and apply one linear map to width ``E`` for all j; ``kv1536``:
            concatenate the features, for keys and values that read both widths (1536 in the paper's sizes);
            ``sequence``: concatenate the positions, 2 S in total.
        word_dim: ``E``.
        bert_dim: ``H``.

    Raises:
        ValueError: for ``sequence`` with E != H.
    """

    def __init__(self, kind: str, word_dim: int, bert_dim: int) -> None:
        super().__init__()
        if kind == "sequence" and word_dim != bert_dim:
            raise ValueError(
                f"fusion 'sequence' puts word vectors and BERT's states into one sequence, so both must be equally "
                f"wide, but they have {word_dim} and {bert_dim} units: use 'feature', or a model as wide as BERT."
            )
        self.kind = kind
        self.output_dim = word_dim + bert_dim if kind == "kv1536" else word_dim
        self.proj = nn.Linear(word_dim + bert_dim, word_dim) if kind == "feature" else None

    def forward(self, words: Tensor, mixed: Tensor) -> Tensor:
        """Return all H_j (B, N, S or 2 S, ``output_dim``), for G (B, S, E) and all B_j (B, N, S, H)."""
        words = words.unsqueeze(1).expand(-1, mixed.size(1), -1, -1)  # (B, N, S, E)
        joined = torch.cat([words, mixed], dim=2 if self.kind == "sequence" else 3)  # Eq. (3)
        return joined if self.proj is None else self.proj(joined)

    def positions(self, topic_values: Tensor) -> Tensor:
        """Repeat a value of each topic for its positions in the result of ``forward``: (B, S) -> (B, S or 2 S)."""
        return torch.cat([topic_values, topic_values], dim=1) if self.kind == "sequence" else topic_values
