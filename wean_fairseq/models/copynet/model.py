"""``copynet``: generating and copying in one softmax (Gu et al., ACL 2016, arXiv 1603.06393).

Legend: ``B`` batch, ``S`` source length, ``V`` base vocabulary, ``E`` embedding width, ``H`` hidden width, ``M`` width
of the source memory.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import AdditiveAttention, base_ids, run_over_words
from ..base import SourceEncoder
from ..copying import CopyingModel
from ..presets import register_family
from ..word_layers import build_output_layer, num_base_words, word_embedding
from .config import PRESETS, CopyNetConfig
from .decoder import CopyNetDecoder


class CopyNetEncoder(SourceEncoder):
    """A bidirectional GRU (sec. 3.1): h_i = [forward; backward], and the position of the word.

    Args:
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


@register_family("copynet", CopyNetConfig, PRESETS)
class CopyNetModel(CopyingModel):
    """Bidirectional GRU encoder; a decoder with attentive and selective read that generates and copies."""

    encoder: CopyNetEncoder
    decoder: CopyNetDecoder

    @classmethod
    def build(cls, cfg: CopyNetConfig, task: FairseqTask) -> "CopyNetModel":
        system = str(cfg.system)
        if system == "enc_dec" and (cfg.attention_coverage or cfg.location_width):
            raise UserError("enc_dec has no attention: leave --attention-coverage and --location-width out.")
        dictionary, hidden = task.source_dictionary, cfg.hidden_size
        copies, attends = str(cfg.system) == "copynet", str(cfg.system) != "enc_dec"
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        encoder = CopyNetEncoder(dictionary, embed_tokens, hidden, cfg.location_width, cfg.dropout)
        memory_dim = encoder.memory_dim if attends else hidden
        input_dim = cfg.embed_dim + memory_dim * (2 if copies else 1)
        full = str(cfg.readout) == "full"
        cell = nn.LSTMCell if str(cfg.cell) == "lstm" else nn.GRUCell
        decoder = CopyNetDecoder(
            dictionary,
            embed_tokens,
            cell=cell(input_dim, hidden),
            attention=AdditiveAttention(hidden, memory_dim, cfg.attention_dim or hidden) if attends else None,
            copy_proj=nn.Linear(memory_dim, hidden, bias=False) if copies else None,
            output=build_output_layer(cfg, hidden + input_dim if full else hidden, cfg.embed_dim, dictionary),
            full_readout=full,
            coverage_weight=nn.Parameter(torch.zeros(1)) if cfg.attention_coverage else None,
            oov_embedding=nn.Parameter(torch.randn(cfg.embed_dim)) if copies and str(cfg.oov_input) == "copy" else None,
            dropout=cfg.dropout,
        )
        return cls(encoder, decoder)
