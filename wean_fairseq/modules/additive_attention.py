"""Additive attention (Bahdanau et al., ICLR 2015, appendix A.1.2), with the coverage of See et al. (ACL 2017, eq. 11).

The attention runs one step at a time, because it is meant for decoders whose query depends on the previous attention.
Terms that do not depend on the query are computed once per batch.

Legend: ``B`` sentences, ``N`` hypotheses, grouped by sentence (in training N = B), ``S`` source length, ``Q`` query
width, ``K`` key width (in comments also hypotheses per sentence), ``A`` attention width.
"""

import torch
from torch import Tensor, nn

from .looped_linear import LoopedLinear


class AdditiveAttention(nn.Module):
    """e_i = v . tanh(W_h h_i + W_s s + w_c cov_i + b), for a state s of width ``Q`` and outputs h_i of width ``K``.

    Args:
        coverage: add the term w_c cov_i, which depends on the previous attention to each position.
        query_bias: add the bias b.
    """

    def __init__(
        self, query_dim: int, key_dim: int, attention_dim: int, *, coverage: bool = False, query_bias: bool = False
    ) -> None:
        super().__init__()
        self.key_proj = nn.Linear(key_dim, attention_dim, bias=False)  # W_h
        self.query_proj = nn.Linear(query_dim, attention_dim, bias=query_bias)  # W_s, b
        self.vector = nn.Parameter(torch.empty(attention_dim))  # v
        self.coverage_weight = nn.Parameter(torch.empty(attention_dim)) if coverage else None  # w_c
        for vector in (self.vector, self.coverage_weight):
            if vector is not None:
                nn.init.uniform_(vector, -(attention_dim**-0.5), attention_dim**-0.5)

    def project_keys(self, keys: Tensor) -> Tensor:
        """Return the term W_h h_i, which is the same at every step: (B, S, K) -> (B, S, A)."""
        projected: Tensor = self.key_proj(keys)
        return projected

    def query_map(self) -> LoopedLinear:
        """Return the map W_s s + b of the query, for a loop over the steps."""
        return LoopedLinear(self.query_proj.weight, self.query_proj.bias)

    def scores(
        self,
        query: Tensor,
        projected_keys: Tensor,
        coverage: Tensor | None = None,
        query_map: LoopedLinear | None = None,
    ) -> Tensor:
        """Return the scores (logits) of all positions, including padding, for one step of the queries (N, Q): (N, S).

        Args:
            query: the decoder state.
            projected_keys: result of ``project_keys``, (B, S, A).
            coverage: summed attention of the previous steps, (N, S). Required if the attention has ``coverage``.
            query_map: result of ``query_map``, if the caller loops over the steps.
        """
        queries = (query_map or self.query_proj)(query).unflatten(0, (len(projected_keys), -1))  # (B, K, A)
        hidden = projected_keys.unsqueeze(1) + queries.unsqueeze(2)  # (B, K, S, A)
        if self.coverage_weight is not None:
            assert coverage is not None, "this attention has coverage and must be given it"
            covered = coverage.to(hidden.dtype).view(*hidden.shape[:3], 1)
            hidden = torch.addcmul(hidden, covered, self.coverage_weight)
        return torch.matmul(hidden.tanh_(), self.vector).flatten(0, 1)  # in place, because the sum is not needed again


def coverage_loss(weights: Tensor, coverage: Tensor) -> Tensor:
    """Return the coverage loss of each step, sum_i min(a_ti, cov_ti) (See et al., eq. 12), shape (B, T).

    Args:
        weights: attention weights a, shape (B, T, S).
        coverage: coverage cov before each step, shape (B, T, S).
    """
    return torch.minimum(weights, coverage).sum(dim=-1)
