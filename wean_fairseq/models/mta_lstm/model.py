"""``mta_lstm``: topic-to-essay generation with neural networks (Feng et al., IJCAI 2018)."""

from typing import Any

from fairseq.tasks import FairseqTask
from torch import nn

from ...modules import AdditiveAttention, TopicImportance
from ..presets import register_family
from ..topics import TopicDecoder, TopicModel, initialise
from ..word_layers import word_embedding
from .config import PRESETS, MtaLstmConfig
from .decoder import TopicAttentionDecoder, TopicAverageDecoder
from .encoder import MtaLstmEncoder


@register_family("mta_lstm", MtaLstmConfig, PRESETS)
class MtaLstmModel(TopicModel):
    """An LSTM language model that attends to topic words, with a memory of what it has told of each."""

    adds_losses = True

    encoder: MtaLstmEncoder

    @property
    def needs_essay_length(self) -> bool:
        """Whether the task is to put ``essay_lengths`` into the batch: for phi."""
        return self.encoder.importance is not None

    @classmethod
    def build(cls, cfg: MtaLstmConfig, task: FairseqTask) -> "MtaLstmModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        covers = str(cfg.topic_mode) == "mta"
        importance = TopicImportance(cfg.topic_slots, cfg.embed_dim) if covers else None
        encoder = MtaLstmEncoder(dictionary, embed_tokens, cfg.topic_slots if covers else None, importance)
        model = cls(encoder, _build_decoder(cfg, task, embed_tokens))
        initialise(model, cfg)
        return model


def _build_decoder(cfg: MtaLstmConfig, task: FairseqTask, embed_tokens: nn.Embedding) -> TopicDecoder[Any, Any]:
    dictionary, embed_dim, hidden = task.target_dictionary, cfg.embed_dim, cfg.hidden_size
    if str(cfg.topic_mode) == "tav":
        between = cfg.dropout if cfg.num_layers > 1 else 0.0
        lstm = nn.LSTM(embed_dim, hidden, cfg.num_layers, batch_first=True, dropout=between)
        return TopicAverageDecoder(dictionary, embed_tokens, lstm, cfg.dropout)
    return TopicAttentionDecoder(
        dictionary,
        embed_tokens,
        lstm=nn.LSTM(2 * embed_dim, hidden, cfg.num_layers, batch_first=True),
        attention=AdditiveAttention(hidden, embed_dim, cfg.attention_dim or hidden, query_bias=True),
        covers=str(cfg.topic_mode) == "mta",
        coverage_loss_weight=cfg.coverage_loss_weight,
        dropout=cfg.dropout,
    )
