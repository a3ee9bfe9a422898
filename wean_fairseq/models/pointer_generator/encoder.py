"""The encoder of Pointer-generator (See et al., ACL 2017, section 2.1): a bidirectional LSTM.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width of the decoder and each direction.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import base_ids, run_over_words
from ..base import SourceEncoder
from ..copying import no_copy_mask
from ..word_layers import num_base_words


class PointerGeneratorEncoder(SourceEncoder):
    """A bidirectional LSTM of one layer, and the bridge from its final states to the decoder's first.

    Args:
        dictionary: of the source, with its slots.
        embed_tokens: the shared embedding of the base words, (V, E).
        hidden_size: ``H``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        super().__init__(dictionary)
        self.num_base = num_base_words(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = nn.LSTM(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        self.hidden_bridge = nn.Linear(2 * hidden_size, hidden_size)
        self.cell_bridge = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch. The end symbol is read like a word, but neither attended to nor copied.

        The paper's sources have no end symbol; here attention and copying leave it out alike, as padding.

        Args:

        Returns:
            ``encoder_out`` (B, S, 2H), zero at padding; ``no_copy_mask`` (B, S), ``True`` where nothing is attended to
            or copied; ``src_tokens`` as given; ``start_hidden`` and
            ``start_cell`` of the decoder, each (B, H).
        """
        embedded = self.embed_tokens(base_ids(src_tokens, self.num_base, self.dictionary.unk()))  # (B, S, E)
        outputs, (hidden, cell) = run_over_words(self.lstm, embedded, src_tokens.eq(self.padding_idx))
        return {
            "encoder_out": outputs,
            "no_copy_mask": no_copy_mask(src_tokens, self.dictionary),
            "src_tokens": src_tokens,
            "start_hidden": torch.relu(self.hidden_bridge(torch.cat(tuple(hidden), dim=-1))),  # (2, B, H) -> (B, H)
            "start_cell": torch.relu(self.cell_bridge(torch.cat(tuple(cell), dim=-1))),
        }
