"""The LSTM encoder of WEAN (Ma et al., NAACL 2018, section 2.2).

Legend: ``B`` batch, ``S`` source length, ``L`` layers, ``H`` hidden width, ``E`` embedding width.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import run_over_words
from ..base import SourceEncoder


class WeanLstmEncoder(SourceEncoder):
    """An LSTM over packed sentences, so that padding on either side is never read.

    Args:
        dictionary: of the source.
        embed_tokens: the shared embedding, (V, E).
        hidden_size: ``H``.
        num_layers: ``L``.
        dropout: between layers.
        bidirectional: sum a forward and a backward LSTM, outputs and final states alike.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        hidden_size: int,
        num_layers: int,
        dropout: float,
        bidirectional: bool,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.directions = 2 if bidirectional else 1
        self.lstm = nn.LSTM(
            embed_tokens.embedding_dim,
            hidden_size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=bidirectional,
        )

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, H), zero at padding, in the order of ``src_tokens``; ``encoder_padding_mask`` (B, S);
            ``final_hidden`` and ``final_cell``, each (L, B, H).
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        outputs, (hidden, cell) = run_over_words(self.lstm, self.embed_tokens(src_tokens), padding_mask)
        outputs = outputs.unflatten(2, (self.directions, -1)).sum(dim=2)  # type: ignore[no-untyped-call]  # (B, S, directions * H) -> (B, S, H)
        return {
            "encoder_out": outputs,
            "encoder_padding_mask": padding_mask,
            "final_hidden": self._sum_directions(hidden),
            "final_cell": self._sum_directions(cell),
        }

    def _sum_directions(self, state: Tensor) -> Tensor:
        return state.view(-1, self.directions, *state.shape[1:]).sum(dim=1)  # (L * directions, B, H) -> (L, B, H)
