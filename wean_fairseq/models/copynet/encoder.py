"""The encoder of CopyNet (Gu et al., ACL 2016, section 3.1): a bidirectional GRU whose outputs are the memory M.

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``M`` memory width.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import base_ids, run_over_words
from ..base import SourceEncoder
from ..word_layers import num_base_words


class CopyNetEncoder(SourceEncoder):
    """h_i = [forward; backward], with the position of the word appended where ``location_width`` asks for it.

    Args:
        dictionary: of source and target.
        embed_tokens: the shared embedding of the base words, (V, E).
        hidden_size: ``H`` of each direction, and of the decoder that the last states start.
        location_width: positions that are told apart; 0 = none appended.
        dropout: on the embeddings.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int, location_width: int, dropout: float
    ) -> None:
        super().__init__(dictionary)
        self.num_base = num_base_words(dictionary)
        self.unk_index = dictionary.unk()
        self.embed_tokens = embed_tokens
        self.gru = nn.GRU(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        self.start_proj = nn.Linear(2 * hidden_size, hidden_size)
        self.location_width = location_width
        self.memory_dim = 2 * hidden_size + location_width
        self.dropout = nn.Dropout(dropout)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, M), in the order of ``src_tokens``; ``encoder_padding_mask`` (B, S);
            ``start_state`` tanh(W [forward h_S; backward h_1]), (B, H); ``src_tokens`` as given.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        embedded = self.dropout(self.embed_tokens(base_ids(src_tokens, self.num_base, self.unk_index)))
        outputs, final = run_over_words(self.gru, embedded, padding_mask)  # (B, S, 2H), (2, B, H)
        if self.location_width:
            position = (padding_mask.logical_not().cumsum(dim=1) - 1).clamp(0, self.location_width - 1)
            location = nn.functional.one_hot(position, self.location_width).to(outputs.dtype)
            outputs = torch.cat([outputs, location], dim=-1)
        start = torch.tanh(self.start_proj(torch.cat([final[0], final[1]], dim=-1)))
        return {
            "encoder_out": outputs,
            "encoder_padding_mask": padding_mask,
            "start_state": start,
            "src_tokens": src_tokens,
        }
