"""The encoder of NTS (Nisioi et al., ACL 2017, section 2): a stacked LSTM in one direction.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``L`` layers.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import run_over_words
from ..base import SourceEncoder


class NtsEncoder(SourceEncoder):
    """An LSTM over the words of each sentence, so that padding on either side is never read.

    Args:
        dictionary: of the source.
        embed_tokens: (V, E).
        lstm: ``batch_first``, E -> H.
        dropout: on the words.
        reverse: read from the end of the sentence to its start.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: nn.LSTM, dropout: float, reverse: bool
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.dropout = nn.Dropout(dropout)
        self.reverse = reverse

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, H), zero at padding, in the order of ``src_tokens``; ``encoder_padding_mask`` (B, S);
            ``final_hidden`` and ``final_cell`` of every layer, each (L, B, H).
        """
        tokens = src_tokens.flip(1) if self.reverse else src_tokens
        embedded = self.dropout(self.embed_tokens(tokens))
        outputs, (hidden, cell) = run_over_words(self.lstm, embedded, tokens.eq(self.padding_idx))
        return {
            "encoder_out": outputs.flip(1) if self.reverse else outputs,
            "encoder_padding_mask": src_tokens.eq(self.padding_idx),
            "final_hidden": hidden,
            "final_cell": cell,
        }
