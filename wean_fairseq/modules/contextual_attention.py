"""Decoder layers whose queries know the context (PC-SAN, section 3.3, after Yang et al., AAAI 2019).

In the self-attention, with input h_1..h_T:

    C_i = U (1 / (i - 1)) sum_{j < i} h_j, C_1 = 0                       (eq. 8, 9)
    lambda_i = sigmoid(V_Q Q_i + V_C C_i), one number a position          (eq. 11)
    Q^_i = (1 - lambda_i) Q_i + lambda_i C_i, before the split into heads (eq. 10)

Keys and values stay as they are. Read with positions as rows, the paper's upper triangular mask would sum the future;
with positions as columns it sums the strict past, which is what the text around it asks for. The mean is over the
positions that are summed, not over all: that would let the value depend on how long the essay becomes. In eq. 10 as
printed a symbol is mixed with itself; here Q and C are mixed, as in Yang et al.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``N`` memories, ``D`` width, ``M`` width of the memories,
``X`` width of what the context is the mean of.
"""

import torch
from torch import Tensor, nn

from .transformer import Cache, Decoded, DecoderLayer


class TargetContext(nn.Module):
    """The mean of the states before each position (eq. 8, 9, without U), 0 at the first; no parameters.

    Args:
        inclusive: count the position itself, which holds the word before the one to be written.
    """

    def __init__(self, *, inclusive: bool = False) -> None:
        super().__init__()
        self.inclusive = inclusive

    def forward(self, states: Tensor, memory: Tensor, memory_bias: Tensor, cache: Cache | None) -> Tensor:
        """Means.

        Args:
            states: shape (B, T, D).
            memory: not read.
            memory_bias: not read.
            cache: what earlier steps left: ``context_sum`` (B, 1, D) and ``context_count`` (B, 1, 1), both float32;
                written here.

        Returns:
            Shape (B, T, D), in the dtype of ``states``.
        """
        batch, length, width = states.shape
        past = {"context_sum": states.new_zeros((batch, 1, width), dtype=torch.float32)}
        past["context_count"] = past["context_sum"].new_zeros((batch, 1, 1))
        past |= cache or {}
        steps = torch.arange(1, length + 1, device=states.device).view(1, -1, 1)
        sums = past["context_sum"] + states.float().cumsum(dim=1)  # (B, T, D), up to each position
        counts = past["context_count"] + steps  # (B, T, 1)
        if cache is not None:
            cache["context_sum"], cache["context_count"] = sums[:, -1:], counts[:, -1:]
        if not self.inclusive:  # shifted, not subtracted: no rounding error of a later state may reach this mean
            sums = torch.cat([past["context_sum"], sums[:, :-1]], dim=1)
            counts = (counts - 1).clamp(min=1)
        return (sums / counts).to(states.dtype)


class SourceContext(nn.Module):
    """The mean of what the layer reads about the source, the same at every step: the ablation "-Source-context"."""

    def forward(self, states: Tensor, memory: Tensor, memory_bias: Tensor, cache: Cache | None) -> Tensor:
        """Means.

        Args:
            states: shape (B, T, D); only T is read.
            memory: shape (B, S, M).
            memory_bias: 0 where there is something to read and -inf elsewhere, shape (B, 1, 1, S).
            cache: not read.

        Returns:
            Shape (B, T, M).
        """
        shares = torch.softmax(memory_bias[:, 0], dim=-1).to(memory.dtype)  # 1 / number of positions each: (B, 1, S)
        return (shares @ memory).expand(-1, states.size(1), -1)


class ContextualQuery(nn.Linear):
    """Q^ = (1 - lambda) Q + lambda C (eq. 10): stands where attention has the map from states to queries, W_Q.

    Args:
        dim: ``D``.
        context_dim: ``X``.
    """

    def __init__(self, dim: int, context_dim: int) -> None:
        super().__init__(dim, dim)
        self.context_proj = nn.Linear(context_dim, dim, bias=False)  # U
        self.query_gate = nn.Linear(dim, 1, bias=False)  # V_Q
        self.context_gate = nn.Linear(dim, 1, bias=False)  # V_C

    def forward(self, states_and_context: Tensor) -> Tensor:
        """Queries.

        Args:
            states_and_context: states (B, T, D), and beside each what the context is the mean of: (B, T, D + X).
        """
        query = super().forward(states_and_context[..., : self.in_features])  # (B, T, D)
        context = self.context_proj(states_and_context[..., self.in_features :])  # (B, T, D)
        share = torch.sigmoid(self.query_gate(query) + self.context_gate(context))  # (B, T, 1), eq. (11)
        return torch.lerp(query, context, share)  # Eq. (10)


class ContextualDecoderLayer(DecoderLayer):
    """A layer of PC-SAN's decoder: with ReLU, a memory of its own, and queries that know the context.

    Args:
        dim: ``D``.
        heads: as the base class.
        inner_dim: as the base class.
        dropout: as the base class.
        attention_dropout: as the base class.
        memory_index: which of the ``N`` memories this layer reads.
        memory_dim: ``M``.
        context: what the queries' context is the mean of; ``None`` for plain self-attention.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        inner_dim: int,
        dropout: float,
        attention_dropout: float,
        *,
        memory_index: int,
        memory_dim: int,
        context: TargetContext | SourceContext | None,
    ) -> None:
        super().__init__(dim, heads, inner_dim, dropout, attention_dropout)
        self.memory_index = memory_index
        self.feed_forward[1] = nn.ReLU()  # AIAYN, eq. 2
        self.cross_attention.key_proj = nn.Linear(memory_dim, dim)
        self.cross_attention.value_proj = nn.Linear(memory_dim, dim)
        self.context = context
        if context is not None:
            self.self_attention.query_proj = ContextualQuery(
                dim, memory_dim if isinstance(context, SourceContext) else dim
            )

    def forward(
        self,
        states: Tensor,
        source: Tensor,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        cache: Cache | None = None,
        *,
        with_weights: bool = False,
    ) -> Decoded:
        """One layer.

        Args:
            states: shape (B, T, D).
            source: the memories of all layers, shape (B, N, S, M).
            self_bias: as ``DecoderLayer``.
            cross_bias: 0 where there is something to read and -inf elsewhere, shape (B, 1, 1, S).
            cache: as ``DecoderLayer``.
            with_weights: as ``DecoderLayer``.
        """
        memory = source[:, self.memory_index]
        return super().forward(states, memory, self_bias, cross_bias, cache, with_weights=with_weights)

    def asking(self, states: Tensor, source: Tensor, cross_bias: Tensor | None, cache: Cache | None) -> Tensor:
        """The states, and beside each what its context is the mean of: (B, T, D + X)."""
        if self.context is None:
            return states
        assert cross_bias is not None
        return torch.cat([states, self.context(states, source, cross_bias, cache)], dim=-1)
