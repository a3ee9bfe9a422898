"""Global attention of Luong et al. (EMNLP 2015, section 3.1), as used by NTS (Nisioi et al., ACL 2017, section 2).

What does not depend on the decoder is projected once a batch: W_a and the context's half of W_c are applied to the
encoder outputs, and a mean of projections is the projection of the mean.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``H`` width of decoder states and
encoder outputs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .looped_linear import LoopedLinear
from .masking import masked_softmax
from .steps import Memory, fold_hypotheses

GLOBAL_SCORES = ("dot", "general")


@dataclass(frozen=True)
class AttentionMemory(Memory):
    """The source as every step sees it."""

    keys: Tensor  # W_a h_i, or h_i for the score dot, (B, S, H)
    values: Tensor  # what h_i adds to W_c [c_t; h_t] with weight 1, (B, S, H)
    padding_mask: Tensor  # (B, S)


class AttentionMaps(NamedTuple):
    """The products of a step of attention, for a loop over the steps."""

    keys: LoopedLinear
    values: LoopedLinear
    of_state: LoopedLinear  # the decoder state's half of W_c


class GlobalAttention(nn.Module):
    """a_ti = softmax_i score(h_t, h_i); c_t = sum_i a_ti h_i; attentional state = tanh(W_c [c_t; h_t]).

    The score is h_t . W_a h_i (``general``) or h_t . h_i (``dot``). There are no biases, as in the papers.

    Args:
        score: one of ``GLOBAL_SCORES``.
        hidden_size: ``H``.

    Raises:
        ValueError: if the score is unknown.
    """

    def __init__(self, score: str, hidden_size: int) -> None:
        super().__init__()
        if score not in GLOBAL_SCORES:
            raise ValueError(f"`score` must be one of {', '.join(GLOBAL_SCORES)}, but is {score!r} instead.")
        self.key_proj = nn.Linear(hidden_size, hidden_size, bias=False) if score == "general" else None  # W_a
        self.combine = nn.Linear(2 * hidden_size, hidden_size, bias=False)  # W_c

    def remember(self, states: Tensor, padding_mask: Tensor) -> AttentionMemory:
        """The keys that ``forward`` attends to, made once a batch.

        Args:
            states: encoder outputs, shape (B, S, H).
            padding_mask: ``True`` at source padding, shape (B, S).
        """
        keys = states if self.key_proj is None else self.key_proj(states)
        of_context = self.combine.weight[:, : states.size(-1)]
        return AttentionMemory(keys, linear(states, of_context), padding_mask)

    def maps(self, memory: AttentionMemory) -> AttentionMaps:
        """The products with the source and W_c, for a loop over the steps."""
        of_state = self.combine.weight[:, self.combine.out_features :]
        parts = (memory.keys, memory.values.transpose(1, 2), of_state)
        return AttentionMaps(*(LoopedLinear(part) for part in parts))

    def forward(
        self, query: Tensor, memory: AttentionMemory, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from every decoder state to the source of the same sentence.

        Args:
            query: decoder states h_t, shape (N, T, H); N is a multiple of B.
            memory: of the source.
            maps: from ``maps``, where there is a loop.

        Returns:
            Attentional states, shape (N, T, H), and attention weights, shape (N, T, S).
        """
        maps = maps or self.maps(memory)
        queries = fold_hypotheses(query, len(memory.keys))  # (B, K * T, H)
        weights = masked_softmax(maps.keys(queries), memory.padding_mask)
        context = maps.values(weights).view_as(query)
        return torch.tanh(context + maps.of_state(query)), weights.view(*query.shape[:2], -1)
