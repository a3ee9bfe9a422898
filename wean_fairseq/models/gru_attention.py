"""Additive attention to a bidirectional GRU, which RNN-distract and DRGD share.

Legend: ``B`` batch, ``S`` source length, ``H`` hidden width, ``A`` attention width.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..fields import option
from ..modules import AdditiveAttention, Memory
from .base import StateT, StepDecoder
from .word_layers import OutputLayerConfig


@dataclass
class GruAttentionConfig(OutputLayerConfig):
    """Options that RNN-distract and DRGD share.

    The sizes follow CopyNet's paper for LCSTS and the code of DRGD's authors.
    """

    embed_dim: int = option(350, "width of the embedding shared by encoder and decoder", least=1)
    hidden_size: int = option(500, "units of the decoder, and of each direction of the encoder", least=1)
    attention_dim: int = option(0, "hidden width of the attention; 0 = --hidden-size", least=0)
    dropout: float = option(0.0, "dropout on the embeddings and on the input of the output layer")


@dataclass(frozen=True)
class GruMemory(Memory):
    """The encoder's output in the form that decoder steps read."""

    states: Tensor  # (B, S, 2 H)
    keys: Tensor  # keys of the attention, (B, S, A)
    padding_mask: Tensor  # (B, S)
    start: Tensor  # s_0, (B, H)


class GruAttentionDecoder(StepDecoder[GruMemory, StateT]):
    """A decoder whose initial state is computed from the mean of the encoder's outputs.

    Subclasses create ``attention``.
    """

    attention: AdditiveAttention

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.start = nn.Linear(2 * hidden_size, hidden_size)

    def remember(self, encoder_out: dict[str, Tensor]) -> GruMemory:
        """See ``StepDecoder``. s_0 = tanh(W mean(h) + b)."""
        states, padding_mask = encoder_out["encoder_out"], encoder_out["encoder_padding_mask"]
        mean = states.sum(dim=1) / padding_mask.logical_not().sum(dim=1, keepdim=True).clamp(min=1)
        return GruMemory(states, self.attention.project_keys(states), padding_mask, torch.tanh(self.start(mean)))
