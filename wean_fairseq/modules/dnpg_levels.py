"""The two levels of DNPG (Li et al., ACL 2019, section 2.2): word labels, attention biases, and layers.

Every word has soft labels, a differentiable choice between classes (Jang et al., ICLR 2017, Gumbel softmax): class 0 =
phrase level, class 1 = sentence level. Labels are always float32 logarithms. They weight attention, and a weight that
was rounded to 0 would stay 0.

The Transformer of the phrase level reads only neighbouring words. The Transformer of the sentence level reads all
words, each weighted by its probability of belonging to the sentence level. Renormalising attention by P(z_l = k) is
equivalent to adding log P(z_l = k) to the scores before their softmax.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width, ``C`` classes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .sinusoidal_positions import FractionalEmbedding
from .transformer import EncoderLayer, padding_bias
from .transformer_decoder import DecoderLayer

PHRASE, SENTENCE = 0, 1
LEVELS = 2


class Labels(NamedTuple):
    """Log-probabilities of both levels, float32."""

    used: Tensor  # with the noise of training, used by all later computations, (..., 2)
    expected: Tensor  # without noise, for the comparison with weak labels, (..., 2)


def both_labels(logits: Tensor, temperature: Tensor | float, *, noisy: bool) -> Labels:
    """Return the ``soft_labels`` of logits (..., 2), with and without noise."""
    expected = soft_labels(logits, temperature, noisy=False)
    return Labels(soft_labels(logits, temperature, noisy=True) if noisy else expected, expected)


def soft_labels(logits: Tensor, temperature: Tensor | float, *, noisy: bool) -> Tensor:
    """Return the log of softmax((logits + g) / temperature), where g is Gumbel noise or 0.

    Args:
        logits: logits of the classes, (..., C).
        temperature: number above 0. With noise, labels are closer to a single class at lower temperatures.
        noisy: sample the class (training) instead of weighting all classes (inference).

    Returns:
        Shape (..., C), float32.
    """
    logits = logits.float()
    if noisy:
        logits = logits - torch.empty_like(logits).exponential_().log()
    return torch.log_softmax(logits / temperature, dim=-1)


def stack_labels(step_labels: Sequence[Labels]) -> Labels:
    """Stack the labels of the steps, each of shape (N, 2), to (N, T, 2)."""
    used = torch.stack([labels.used for labels in step_labels], dim=1)
    expected = torch.stack([labels.expected for labels in step_labels], dim=1)
    return Labels(used, expected)


def even_labels(batch: int, device: torch.device) -> Tensor:
    """Return the label before the first word, z_0 = (1/2, 1/2), as logarithms like ``soft_labels``, (B, 2)."""
    return torch.full((batch, LEVELS), 1.0 / LEVELS, device=device).log()


class Level(nn.Module):
    """The layers of a level, from bottom to top."""

    def __init__(self, layers: Iterable[EncoderLayer | DecoderLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        """Encode words (B, S, D). The bias of the self-attention broadcasts to (B, A, S, S)."""
        for layer in self.layers:
            states = layer(states, bias)
        return states


class EmbeddedLevel(NamedTuple):
    """A level, and the embedding of its words."""

    embedding: FractionalEmbedding
    level: Level


def label_bias(log_probs: Tensor) -> Tensor:
    """Return an attention bias (B, 1, 1, S) that renormalises with the log-probabilities (B, S) of the keys' level."""
    return log_probs[:, None, None, :]


def source_bias(log_probs: Tensor, padding_mask: Tensor) -> Tensor:
    """Return ``label_bias`` with -inf at padding: both (B, S) -> (B, 1, 1, S)."""
    return padding_bias(padding_mask) + label_bias(log_probs.masked_fill(padding_mask, 0.0))


def neighbour_bias(padding_mask: Tensor, window: int) -> Tensor:
    """Return a bias that is 0 where |i - j| < window and j is not padding, otherwise -inf: (B, S) -> (B, 1, S, S).

    Padding attends to itself, because every row needs a finite entry. No word attends to padding.
    """
    place = torch.arange(padding_mask.size(1), device=padding_mask.device)
    near = (place.unsqueeze(1) - place).abs() < window  # (S, S)
    visible = near & ~padding_mask.unsqueeze(1) | place.unsqueeze(1).eq(place)  # (B, S, S)
    return _bias(visible).unsqueeze(1)


def past_neighbour_bias(place: Tensor, queries: int, window: int) -> Tensor:
    """Return a bias (T, W) for places (W,) that end with T queries: 0 where 0 <= i - j < window, otherwise -inf."""
    distance = place[-queries:].unsqueeze(1) - place
    return _bias((distance >= 0) & (distance < window))


def _bias(visible: Tensor) -> Tensor:
    return torch.zeros(visible.shape, device=visible.device).masked_fill(~visible, float("-inf"))
