"""``rnn_distract``: distraction over contents, attention and hypotheses (Chen et al., IJCAI 2016, arXiv 1610.08462)."""

from fairseq.tasks import FairseqTask

from ...modules import AdditiveAttention
from ..base import LossModel
from ..gru_attention import GruEncoder
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import RnnDistractConfig
from .decoder import RnnDistractDecoder, SearchWeights


@register_family("rnn_distract", RnnDistractConfig)
class RnnDistractModel(LossModel):
    """Bidirectional GRU encoder; a decoder that is distracted from what it has read."""

    encoder: GruEncoder
    decoder: RnnDistractDecoder

    @classmethod
    def build(cls, cfg: RnnDistractConfig, task: FairseqTask) -> "RnnDistractModel":
        dictionary, hidden = task.source_dictionary, cfg.hidden_size
        attention_dim = cfg.attention_dim or hidden
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = RnnDistractDecoder(
            dictionary,
            embed_tokens,
            hidden,
            memory_dim=2 * hidden,
            attention=AdditiveAttention(hidden, 2 * hidden, attention_dim, coverage=True, query_bias=True),
            output=build_output_layer(cfg, cfg.embed_dim, cfg.embed_dim, dictionary),
            dropout=cfg.dropout,
            search_weights=SearchWeights(cfg.distract_attention, cfg.distract_content, cfg.distract_state),
        )
        return cls(GruEncoder(dictionary, embed_tokens, hidden, cfg.dropout), decoder)
