"""Encoders that embed the words of a source and run a recurrent network over the embeddings.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``D`` directions.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ..modules import EarlyResetGru, GatedLstm, ResidualLstm, run_over_words
from .base import SourceEncoder


class WordEncoder(SourceEncoder):
    """An encoder that embeds words and applies dropout to the embeddings."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, dropout: float = 0.0) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(dropout)

    def read(
        self, network: nn.LSTM | nn.GRU | GatedLstm | ResidualLstm, src_tokens: Tensor
    ) -> tuple[dict[str, Tensor], Any]:
        """Run a network over the words (B, S) of each sentence. Slots are read as ``<unk>``, and padding is never read.

        Returns:
            ``encoder_out`` (B, S, D * H) in the order of ``src_tokens``, zero at padding except for a ``ResidualLstm``,
            and ``encoder_padding_mask`` (B, S). The second value is the network's final state, (L * D, B, H), which
            is a pair except for a GRU.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        words = self.dropout(self.embed_tokens(self.known_words(src_tokens)))  # (B, S, E)
        if isinstance(network, nn.RNNBase) and not isinstance(network, EarlyResetGru):
            outputs, final = run_over_words(network, words, padding_mask)
        else:
            outputs, final = network(words, padding_mask=padding_mask)
        return {"encoder_out": outputs, "encoder_padding_mask": padding_mask}, final


class GruEncoder(WordEncoder):
    """A bidirectional GRU, h_i = [forward; backward]. ``early_reset`` selects the variant of ``EarlyResetGru``."""

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        hidden_size: int,
        dropout: float,
        early_reset: bool = False,
    ) -> None:
        super().__init__(dictionary, embed_tokens, dropout)
        gru = EarlyResetGru if early_reset else nn.GRU
        self.gru = gru(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch (B, S).

        The result has ``encoder_out`` (B, S, 2 H), zero at padding, and ``encoder_padding_mask``.
        """
        return self.read(self.gru, src_tokens)[0]


class LstmEncoder(WordEncoder):
    """An LSTM over the words of each sentence. ``lstm`` is ``batch_first``, E -> H."""

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: nn.LSTM | GatedLstm, dropout: float = 0.0
    ) -> None:
        super().__init__(dictionary, embed_tokens, dropout)
        self.lstm = lstm

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch like ``read``, with ``final_hidden`` and ``final_cell`` of every layer, (L * D, B, H)."""
        encoded, (hidden, cell) = self.read(self.lstm, src_tokens)
        return encoded | {"final_hidden": hidden, "final_cell": cell}
