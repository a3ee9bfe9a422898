"""``copynet``: generating and copying in one softmax (Gu et al., ACL 2016, arXiv 1603.06393)."""

import torch
from fairseq.tasks import FairseqTask
from torch import nn

from ...errors import UserError
from ...modules import AdditiveAttention
from ..copying import CopyingModel
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import PRESETS, CopyNetConfig
from .decoder import CopyNetDecoder
from .encoder import CopyNetEncoder


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
