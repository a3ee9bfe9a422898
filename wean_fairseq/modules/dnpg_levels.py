"""The two levels of DNPG (Li et al., ACL 2019, section 2.2): what each of them sees, and their layers.

A Transformer for the phrase level reads neighbouring words only; one for the sentence level reads all words, each by
its probability of belonging to the sentence level. Renormalising attention by P(z_l = k) is adding log P(z_l = k) to
the scores before their softmax.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from .transformer import EncoderLayer, padding_bias
from .transformer_decoder import Decoded, DecoderLayer, LayerState, SourceMemory, decode, remember
from .words_read import WordsRead


class EncoderLevel(nn.Module):
    """The encoder layers of a level, from the bottom."""

    def __init__(self, layers: Iterable[EncoderLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        """Embedded words (B, S, D), and the bias of the self-attention, broadcast to (B, A, S, S) -> (B, S, D)."""
        for layer in self.layers:
            states = layer(states, bias)
        return states


class DecoderLevel(nn.Module):
    """The decoder layers of a level, from the bottom."""

    def __init__(self, layers: Iterable[DecoderLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def remember(self, source: Tensor, bias: Tensor) -> SourceMemory:
        """The memory of this level's encoder states: see ``transformer_decoder.remember``."""
        return remember(self.layers, source, bias)

    def forward(
        self,
        states: Tensor,
        memory: SourceMemory,
        kept: Sequence[LayerState],
        read: WordsRead,
        self_bias: Tensor | None,
        *,
        with_weights: bool = False,
    ) -> tuple[Decoded, tuple[LayerState, ...]]:
        """Read words, and this level's encoder states: see ``decode``."""
        return decode(self.layers, states, memory, kept, read, self_bias, with_weights=with_weights)


def label_bias(log_probs: Tensor) -> Tensor:
    """Log-probabilities (B, S) of the keys' level as a bias, which renormalises attention by them: (B, 1, 1, S)."""
    return log_probs[:, None, None, :]


def source_bias(log_probs: Tensor, padding_mask: Tensor) -> Tensor:
    """``label_bias`` with -inf at padding: (B, S), both -> (B, 1, 1, S)."""
    return padding_bias(padding_mask) + label_bias(log_probs.masked_fill(padding_mask, 0.0))


def neighbour_bias(padding_mask: Tensor, window: int) -> Tensor:
    """0 where |i - j| < window and j is no padding, else -inf; (B, S) -> (B, 1, S, S).

    Padding reads itself, because a row must read something; no word reads it.
    """
    place = torch.arange(padding_mask.size(1), device=padding_mask.device)
    near = (place.unsqueeze(1) - place).abs() < window  # (S, S)
    visible = near & ~padding_mask.unsqueeze(1) | place.unsqueeze(1).eq(place)  # (B, S, S)
    return _bias(visible).unsqueeze(1)


def past_neighbour_bias(place: Tensor, queries: int, window: int) -> Tensor:
    """0 where 0 <= i - j < window, else -inf: places (W,), of which the last T are the queries' -> (T, W)."""
    distance = place[-queries:].unsqueeze(1) - place
    return _bias((distance >= 0) & (distance < window))


def _bias(visible: Tensor) -> Tensor:
    return torch.zeros(visible.shape, device=visible.device).masked_fill(~visible, float("-inf"))
