"""``drgd``: a deep recurrent generative decoder for summaries (Li et al., EMNLP 2017, arXiv 1708.00625)."""

from fairseq.tasks import FairseqTask

from ...modules import AdditiveAttention
from ..base import LossModel
from ..gru_attention import GruEncoder
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import DrgdConfig
from .decoder import DrgdDecoder


@register_family("drgd", DrgdConfig)
class DrgdModel(LossModel):
    """Bidirectional GRU encoder; a decoder of two GRUs and latent variables, whose divergence is in the loss."""

    adds_losses = True
    encoder: GruEncoder
    decoder: DrgdDecoder

    @classmethod
    def build(cls, cfg: DrgdConfig, task: FairseqTask) -> "DrgdModel":
        dictionary, hidden = task.source_dictionary, cfg.hidden_size
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = DrgdDecoder(
            dictionary,
            embed_tokens,
            hidden,
            cfg.latent_dim or hidden,
            attention=AdditiveAttention(hidden, 2 * hidden, cfg.attention_dim or hidden, query_bias=True),
            output=build_output_layer(cfg, hidden, cfg.embed_dim, dictionary),
            dropout=cfg.dropout,
            kl_weight=cfg.kl_weight,
            kl_anneal_updates=cfg.kl_anneal_updates,
        )
        return cls(GruEncoder(dictionary, embed_tokens, hidden, cfg.dropout), decoder)
