"""Embeddings of the original Transformer: scaled words plus sinusoidal positions (AIAYN, 3.4 and 3.5).

A position may be a fraction, as in DNPG (Li et al., ACL 2019, section 2.2). In DNPG, the sentence level does not see
the words inside phrases, so these words should not occupy positions at this level. Therefore the position of a word is
the sum, over the words up to it, of their probabilities of being sentence-level words.

Legend: ``B`` batch, ``T`` length, ``D`` width, ``V`` words.
"""

import math

import torch
from torch import Tensor, nn

from .dropout import Dropout
from .words_read import WordsRead

LONGEST_WAVE = 10000.0


def check_length(length: int, most: int) -> None:
    """Raise ``ValueError`` if a sentence has more tokens than there are positions."""
    if length > most:
        raise ValueError(
            f"a sentence has {length} tokens, the end symbol among them, but the model was made for at most {most} "
            "(max_positions): split or truncate it, or train with more."
        )


class SinusoidalEmbedding(nn.Module):
    """The embedding sqrt(D) e(word) + PE(position), followed by dropout.

    A model can use it instead of ``PositionedEmbedding``.

    Positions are counted from the first column, so padding must be on the right.
    """

    positions: Tensor

    def __init__(self, words: nn.Embedding, max_positions: int, dropout: float) -> None:
        super().__init__()
        self.words = words
        self.max_positions = max_positions
        self.padding_idx = -1 if words.padding_idx is None else words.padding_idx
        self.scale = math.sqrt(words.embedding_dim)
        # The positions are constants, so they are not stored in checkpoints.
        self.register_buffer("positions", sinusoid(torch.arange(max_positions), words.embedding_dim), persistent=False)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, read: WordsRead | None = None) -> Tensor:
        """Embed the tokens (N, T) of N hypotheses, which follow the words of ``read``: (N, T, D).

        Raises:
            ValueError: if a sentence has more tokens than there are positions.
        """
        start = 0 if read is None else read.length
        length = start + tokens.size(1)
        check_length(length, len(self.positions))
        embedded: Tensor = self.dropout(self.scale * self.words(tokens) + self.positions[start:length])
        return embedded


def sinusoid(positions: Tensor, dim: int) -> Tensor:
    """Return sin(p / 10000^(2k / D)) in dimension 2k, and the cosine in 2k + 1 (AIAYN, 3.5): (...) -> (..., D)."""
    twice_k = torch.arange(0, dim, 2, device=positions.device)
    angles = positions.float().unsqueeze(-1) * LONGEST_WAVE ** (-twice_k / dim)  # (..., D / 2, rounded up)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :dim]


class FractionalEmbedding(nn.Module):
    """The embedding sqrt(D) e(word) + sinusoid(position), followed by dropout (AIAYN, sections 3.4 and 5.4).

    Args:
        words: word embeddings (V, D), which this module initialises.
        dropout: dropout on the sum.

    Raises:
        ValueError: if D is odd.
    """

    def __init__(self, words: nn.Embedding, dropout: float) -> None:
        super().__init__()
        if words.embedding_dim % 2:
            raise ValueError(f"sinusoidal positions need an even width, but it is {words.embedding_dim}.")
        self.words = words
        self.scale = math.sqrt(words.embedding_dim)
        self.dropout = Dropout(dropout)
        nn.init.normal_(words.weight, std=1 / self.scale)
        if words.padding_idx is not None:
            nn.init.zeros_(words.weight[words.padding_idx].detach())

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens (B, T) at positions (B, T): (B, T, D)."""
        return self.place(self.words(tokens), positions)

    def place(self, words: Tensor, positions: Tensor) -> Tensor:
        """Do the same as ``forward`` for words (B, T, D) that are already embedded."""
        words = words * self.scale
        embedded: Tensor = self.dropout(words + sinusoid(positions, words.size(-1)).to(words.dtype))
        return embedded
