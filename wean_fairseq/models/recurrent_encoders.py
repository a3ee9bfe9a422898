"""Encoders that look the words of a source up and let a recurrent network read them.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``D`` directions.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ..modules import GatedLstm, run_over_words
from .base import SourceEncoder


class WordEncoder(SourceEncoder):
    """An encoder with word embeddings, on which dropout falls."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, dropout: float = 0.0) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(dropout)

    def embed(self, tokens: Tensor) -> Tensor:
        """Look words up, slots as ``<unk>``: (B, S) -> (B, S, E)."""
        dropped: Tensor = self.dropout(self.embed_tokens(self.known_words(tokens)))
        return dropped


class GruEncoder(WordEncoder):
    """A bidirectional GRU, h_i = [forward; backward]."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int, dropout: float) -> None:
        super().__init__(dictionary, embed_tokens, dropout)
        self.gru = nn.GRU(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch (B, S): ``encoder_out`` (B, S, 2 H), zero at padding, and ``encoder_padding_mask`` (B, S)."""
        padding_mask = src_tokens.eq(self.padding_idx)
        outputs, _ = run_over_words(self.gru, self.embed(src_tokens), padding_mask)
        return {"encoder_out": outputs, "encoder_padding_mask": padding_mask}


class LstmEncoder(WordEncoder):
    """An LSTM over the words of each sentence, so that padding on either side is never read.

    Args:
        lstm: ``batch_first``, E -> H.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: nn.LSTM | GatedLstm, dropout: float = 0.0
    ) -> None:
        super().__init__(dictionary, embed_tokens, dropout)
        self.lstm = lstm

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, D * H), zero at padding, in the order of ``src_tokens``; ``encoder_padding_mask``
            (B, S); ``final_hidden`` and ``final_cell`` of every layer, each (L * D, B, H).
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        if isinstance(self.lstm, GatedLstm):
            outputs, (hidden, cell) = self.lstm(self.embed(src_tokens), padding_mask)
        else:
            outputs, (hidden, cell) = run_over_words(self.lstm, self.embed(src_tokens), padding_mask)
        return {
            "encoder_out": outputs,
            "encoder_padding_mask": padding_mask,
            "final_hidden": hidden,
            "final_cell": cell,
        }
