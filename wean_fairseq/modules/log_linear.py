"""An output layer that mixes the logarithms of two models, as DRESS-LS does (Zhang and Lapata, EMNLP 2017).

log P(y_t) = (1 - w_t) log P_base(y_t) + w_t log P_lexical(y_t) - log Z_t, where Z_t makes the probabilities sum to one.
Z_t includes the normalisers of both models. Therefore the mixture is a softmax of mixed scores, which are one matrix
product.

Legend: ``N`` tokens, ``V`` words, ``D`` width of the base model's features, ``L`` width of the lexical model's
features.
"""

import copy
from typing import Self

import torch
from torch import Tensor, nn

from .query_embedding import LinearScore, Product, QueryEmbedding


class LogLinearOutput(QueryEmbedding):
    """Scores words from [h; c; w]: h of the base model (N, D), c of the lexical model (N, L) and its share w (N, 1).

    The parameters of the base model's part have the names that they have in a linear output layer.

    ``share`` is the usual w. A search may round the numbers of a row relative to the largest number in it (int8). With
    the factor w on the side of the weights, the differences of biases are not larger than the weights in the same row.
    """

    _joined: Tensor | None = None

    def __init__(self, query_dim: int, lexical_dim: int, num_embeddings: int, *, share: float, unk_index: int) -> None:
        super().__init__("linear", query_dim, query_dim, num_embeddings, unk_index=unk_index)
        self.usual_share = share or 1.0
        self.lexical = QueryEmbedding("linear", lexical_dim, lexical_dim, num_embeddings, unk_index=unk_index)

    def parts(self, query: Tensor, embeddings: Tensor) -> Product:
        """(1 - w) (h W + b) + w (c U + d) = (1 - w) h W + w c U + w (d - b) + b."""
        base, share = _map(self), query[:, -1:]
        features, lexical_features = query[:, : base.in_features], query[:, base.in_features : -1]
        mixed = torch.cat([(1 - share) * features, share * lexical_features, share / self.usual_share], dim=1)
        return Product(mixed, self._join() if self._joined is None else self._joined, base.bias)

    def prepared(self) -> Self:
        prepared = copy.copy(self)
        prepared._joined = self._join()
        return prepared

    def _join(self) -> Tensor:
        """Return [W; U; w (d - b)] with the usual w, (V, D + L + 1)."""
        base, lexical = _map(self), _map(self.lexical)
        bias_difference = self.usual_share * (lexical.bias - base.bias)
        return torch.cat([base.weight, lexical.weight, bias_difference.unsqueeze(1)], dim=1)


def _map(output: QueryEmbedding) -> nn.Linear:
    assert isinstance(output.score, LinearScore)
    return output.score.out_proj
