"""Additive attention (Bahdanau et al., ICLR 2015, appendix A.1.2), with the coverage of See et al. (ACL 2017, eq. 11).

One step at a time, for decoders whose query depends on the attention before it. What does not depend on the query is
projected once a batch.

Legend: ``B`` sentences, ``N`` hypotheses, those of a sentence side by side (in training N = B), ``S`` source length,
``Q`` query width, ``K`` key width (and hypotheses of a sentence), ``A`` attention width.
"""

import torch
from torch import Tensor, nn

from .looped_linear import LoopedLinear


class AdditiveAttention(nn.Module):
    """e_i = v . tanh(W_h h_i + W_s s + w_c cov_i + b), from a state s of width ``Q`` and outputs h_i of width ``K``.

    Args:
        coverage: have w_c, and take the attention that each position got so far.
        query_bias: have b.
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
        """The part of the keys, W_h h_i, which is the same at every step: (B, S, K) -> (B, S, A)."""
        projected: Tensor = self.key_proj(keys)
        return projected

    def query_map(self) -> LoopedLinear:
        """The part of the query, W_s s + b, for a loop over the steps."""
        return LoopedLinear(self.query_proj.weight, self.query_proj.bias)

    def scores(
        self,
        query: Tensor,
        projected_keys: Tensor,
        coverage: Tensor | None = None,
        query_map: LoopedLinear | None = None,
    ) -> Tensor:
        """Scores (logits) of all positions, padding included, for a step of each hypothesis: queries (N, Q) -> (N, S).

        Args:
            query: the decoder state.
            projected_keys: from ``project_keys``, (B, S, A).
            coverage: attention so far, summed over the steps, (N, S); only with ``coverage`` set.
            query_map: from ``query_map``, where there is a loop.
        """
        queries = (query_map or self.query_proj)(query).unflatten(0, (len(projected_keys), -1))  # (B, K, A)
        hidden = projected_keys.unsqueeze(1) + queries.unsqueeze(2)  # (B, K, S, A)
        if self.coverage_weight is not None:
            assert coverage is not None, "this attention has coverage and must be given it"
            covered = coverage.to(hidden.dtype).view(*hidden.shape[:3], 1)
            hidden = torch.addcmul(hidden, covered, self.coverage_weight)
        return torch.matmul(hidden.tanh_(), self.vector).flatten(0, 1)  # the sum is needed no more: in place


def coverage_loss(weights: Tensor, coverage: Tensor) -> Tensor:
    """The coverage loss of each step, sum_i min(a_ti, cov_ti) (See et al., eq. 12): (B, T, S) twice -> (B, T)."""
    return torch.minimum(weights, coverage).sum(dim=-1)
