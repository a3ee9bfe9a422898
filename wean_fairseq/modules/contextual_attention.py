"""Decoder layers whose self-attention queries include a context (PC-SAN, section 3.3, after Yang et al., AAAI 2019).

In the self-attention over the inputs h_1..h_T:

    C_i = U (1 / (i - 1)) sum_{j < i} h_j, C_1 = 0                       (eq. 8, 9)
    lambda_i = sigmoid(V_Q Q_i + V_C C_i), one number per position        (eq. 11)
    Q^_i = (1 - lambda_i) Q_i + lambda_i C_i, before the split into heads (eq. 10)

Keys and values are unchanged. If rows are positions, the upper triangular mask in the paper would sum the future. If
columns are positions, the mask sums only the past, as the text of the paper requires. The mean is computed over the
summed positions instead of all positions. Otherwise, the value would depend on the final length of the essay. Eq. 10,
as printed, mixes a symbol with itself. Here Q and C are mixed, as in Yang et al.

Legend: ``B`` batch, ``R`` hypotheses, ``T`` target length, ``Q`` queries of a sentence, ``S`` source length, ``N``
memories, ``D`` width, ``M`` width of the memories, ``X`` width of the vectors whose mean is the context.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .transformer import Keyed
from .transformer_decoder import DecoderLayer


class TargetContext(nn.Module):
    """The mean of the states before each position (eqs. 8 and 9, without U). It is 0 at the first position.

    The module has no parameters.

    Args:
        inclusive: include the position itself, whose input is the previous word.
    """

    def __init__(self, *, inclusive: bool = False) -> None:
        super().__init__()
        self.inclusive = inclusive

    def forward(self, states: Tensor, sums: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the means of the states up to each position.

        Args:
            states: (R, T, D).
            sums: sums over the previous words: ``context_sum`` (R, 1, D) and ``context_count`` (R, 1, 1), both float32.
                It is empty at the first word.

        Returns:
            The means (R, T, D), in the dtype of ``states``, and the sums including these words.
        """
        rows, length, width = states.shape
        previous = sums or {
            "context_sum": states.new_zeros((rows, 1, width), dtype=torch.float32),
            "context_count": states.new_zeros((rows, 1, 1), dtype=torch.float32),
        }
        steps = torch.arange(1, length + 1, device=states.device).view(1, -1, 1)
        total = previous["context_sum"] + states.float().cumsum(dim=1)  # (R, T, D), up to each position
        count = previous["context_count"] + steps  # (R, T, 1)
        new_sums = {"context_sum": total[:, -1:], "context_count": count[:, -1:]}
        # the sums are shifted; subtracting the states instead would let the rounding error of a later state reach this
        # mean
        if not self.inclusive:
            total = torch.cat([previous["context_sum"], total[:, :-1]], dim=1)
            count = (count - 1).clamp(min=1)
        return (total / count).to(states.dtype), new_sums


class SourceContext(nn.Module):
    """The mean of the layer's source memory, which is the same at every step (the ablation "-Source-context")."""

    def forward(self, memory: Tensor, memory_bias: Tensor) -> Tensor:
        """Return the mean (B, 1, M) of a memory (B, S, M).

        Its bias (B, 1, 1, S) is -inf at positions that are not read.
        """
        # each position has the share 1 / number of positions: (B, 1, S)
        shares = torch.softmax(memory_bias[:, 0], dim=-1).to(memory.dtype)
        return shares @ memory


class ContextualQuery(nn.Linear):
    """Q^ = (1 - lambda) Q + lambda C (eq. 10). This map replaces W_Q, the attention's map from states to queries."""

    def __init__(self, dim: int, context_dim: int) -> None:
        super().__init__(dim, dim)
        self.context_proj = nn.Linear(context_dim, dim, bias=False)  # U
        self.query_gate = nn.Linear(dim, 1, bias=False)  # V_Q
        self.context_gate = nn.Linear(dim, 1, bias=False)  # V_C

    def forward(self, states_and_context: Tensor) -> Tensor:
        """Return the queries for states (B, T, D), each concatenated with its context input, (B, T, D + X)."""
        query = super().forward(states_and_context[..., : self.in_features])  # (B, T, D)
        context = self.context_proj(states_and_context[..., self.in_features :])  # (B, T, D)
        share = torch.sigmoid(self.query_gate(query) + self.context_gate(context))  # (B, T, 1), eq. (11)
        return torch.lerp(query, context, share)  # Eq. (10)


class ContextualDecoderLayer(DecoderLayer):
    """A layer of PC-SAN's decoder. It has ReLU, its own memory, and queries that include a context.

    Args:
        sizes: the other arguments of ``DecoderLayer``.
        memory_index: index (below ``N``) of the memory that this layer reads.
        memory_dim: ``M``.
        context: computes the mean that is the context of the queries. ``None`` = plain self-attention.
    """

    def __init__(
        self,
        dim: int,
        *sizes: Any,
        memory_index: int,
        memory_dim: int,
        context: TargetContext | SourceContext | None,
    ) -> None:
        super().__init__(dim, *sizes)
        self.memory_index = memory_index
        self.feed_forward[1] = nn.ReLU()  # "Attention Is All You Need", eq. 2
        self.cross_attention.with_source_widths(memory_dim, memory_dim)
        self.context = context
        if context is not None:
            self.self_attention.query_proj = ContextualQuery(
                dim, memory_dim if isinstance(context, SourceContext) else dim
            )

    def remember(self, source: Tensor, bias: Tensor) -> Keyed:
        """See ``DecoderLayer``. The source contains the memories of all layers, shape (B, N, S, M).

        The result includes the context if it comes from the source.
        """
        memory = source[:, self.memory_index]
        projected = super().remember(memory, bias)
        if isinstance(self.context, SourceContext):
            projected["context"] = self.context(memory, bias)
        return projected

    def query_input(self, states: Tensor, source: Keyed, sums: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the states, each concatenated with the vector from which its context is computed: (B, Q, D + X)."""
        if self.context is None:
            return states, sums
        if "context" in source:
            context = source["context"].expand(-1, states.size(1), -1)
        else:
            rows = len(next(iter(sums.values()), states))  # R, or B at the first words
            context, sums = self.context(states.reshape(rows, -1, states.size(2)), sums)
        return torch.cat([states, context.reshape(*states.shape[:2], -1)], dim=-1), sums
