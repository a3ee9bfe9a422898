"""``rnn_distract``: distraction over contents, attention and hypotheses (Chen et al., IJCAI 2016, arXiv 1610.08462)."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...modules import AdditiveAttention, run_over_words
from ..base import LossModel, SourceEncoder
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import RnnDistractConfig
from .decoder import RnnDistractDecoder, SearchWeights


class RnnDistractEncoder(SourceEncoder):
    """A bidirectional GRU, h_i = [forward; backward].

    Args:
        dictionary: of the source.
        embed_tokens: the shared embedding, (V, E).
        hidden_size: ``H`` of each direction.
        dropout: on the embeddings.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int, dropout: float) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.gru = nn.GRU(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch (B, S): ``encoder_out`` (B, S, 2 H), zero at padding, and ``encoder_padding_mask`` (B, S)."""
        padding_mask = src_tokens.eq(self.padding_idx)
        outputs, _ = run_over_words(self.gru, self.dropout(self.embed_tokens(src_tokens)), padding_mask)
        return {"encoder_out": outputs, "encoder_padding_mask": padding_mask}


@register_family("rnn_distract", RnnDistractConfig)
class RnnDistractModel(LossModel):
    """Bidirectional GRU encoder; a decoder that is distracted from what it has read."""

    encoder: RnnDistractEncoder
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
        return cls(RnnDistractEncoder(dictionary, embed_tokens, hidden, cfg.dropout), decoder)
