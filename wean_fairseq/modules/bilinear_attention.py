"""Bilinear ("general") attention (Luong et al., EMNLP 2015, eq. 8), as used by WEAN (NAACL 2018, eqs. 1 and 2).

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``Q`` query width, ``K`` key width.
"""

import torch
from torch import Tensor, nn

from .masking import masked_softmax


class BilinearAttention(nn.Module):
    """g(s_t, h_i) = h_i . act(W_a s_t + b_a); alpha_t = softmax_i g; c_t = sum_i alpha_ti h_i.

    Args:
        tanh: apply tanh to the projected query, as in the LCSTS setting of the authors' code.
        project_keys: compare with tanh(W_h h_i + b_h) instead of h_i, as SRB does (Ma et al., ACL 2017).
    """

    def __init__(self, query_dim: int, key_dim: int, *, tanh: bool = False, project_keys: bool = False) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, key_dim)  # W_a, b_a
        self.key_proj = nn.Linear(key_dim, key_dim) if project_keys else None  # W_h, b_h
        self.tanh = tanh

    def forward(self, query: Tensor, keys: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend from every query to every key of the same sentence.

        Args:
            query: decoder states, (B, T, Q).
            keys: encoder outputs, (B, S, K).
            padding_mask: ``True`` at source padding, (B, S). ``None`` = padding receives weight, too.

        Returns:
            Context vectors, (B, T, K), and attention weights, (B, T, S).
        """
        projected = self.query_proj(query)  # (B, T, K)
        if self.tanh:
            projected = torch.tanh(projected)
        scored = keys if self.key_proj is None else torch.tanh(self.key_proj(keys))
        scores = torch.bmm(projected, scored.transpose(1, 2))  # (B, T, S), eq. 2
        weights = masked_softmax(scores, padding_mask)
        context = torch.bmm(weights, keys)  # (B, T, K), eq. 1
        return context, weights
