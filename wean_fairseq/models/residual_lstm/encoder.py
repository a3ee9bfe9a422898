"""The encoder of Residual LSTM (Prakash et al., COLING 2016): only its last states are used.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``L`` layers.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import ResidualLstm
from ..base import SourceEncoder


class ResidualLstmEncoder(SourceEncoder):
    """A residual LSTM over the words of the source.

    Args:
        dictionary: of the source.
        embed_tokens: (V, E).
        stack: the layers, E -> H.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, stack: ResidualLstm) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.stack = stack

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``final_hidden`` and ``final_cell`` of every layer, each (L, B, H).
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        _, (hidden, cell) = self.stack(self.embed_tokens(src_tokens), padding_mask=padding_mask)
        return {"final_hidden": hidden, "final_cell": cell}
