"""Sinusoidal positions that need not be whole numbers (DNPG, Li et al., ACL 2019, section 2.2).

Words of phrases are invisible to the sentence level, so they should take no place there: a word's position is the
number of sentence-level words up to it, each counted with its probability.

Legend: ``B`` batch, ``T`` words, ``D`` width, ``V`` dictionary size.
"""

import math

from torch import Tensor, nn

from .dropout import Dropout
from .sinusoidal_positions import sinusoid


class FractionalEmbedding(nn.Module):
    """sqrt(D) word + sinusoid(position), with dropout (Vaswani et al., sections 3.4 and 5.4).

    Args:
        words: (V, D); initialised here.
        dropout: on the sum.

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
        """As ``forward``, of words that were looked up before, (B, T, D)."""
        words = words * self.scale
        embedded: Tensor = self.dropout(words + sinusoid(positions, words.size(-1)).to(words.dtype))
        return embedded
