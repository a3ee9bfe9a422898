"""``mta_lstm``: topic-to-essay generation with neural networks (Feng et al., IJCAI 2018).

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots, ``V`` words, ``E`` embedding width.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import AdditiveAttention, TopicImportance, topic_words
from ..base import LossModel
from ..presets import register_family
from ..topics import TopicDecoder, TopicEncoder, initialise
from ..word_layers import word_embedding
from .config import PRESETS, MtaLstmConfig
from .decoder import TopicAttentionDecoder, TopicAverageDecoder


class MtaLstmEncoder(TopicEncoder):
    """Looks up the topics; nothing is computed from their order but phi.

    Args:
        embed_tokens: (V, E).
        num_slots: ``k``; ``None`` = any number.
        importance: phi; ``None`` where there is no coverage.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        num_slots: int | None,
        importance: TopicImportance | None,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.num_slots = num_slots
        self.importance = importance

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        essay_lengths: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Look up the topics of a batch.

        Args:
            essay_lengths: N, words of each essay with its end symbol, shape (B,); needed with coverage.

        Returns:
            ``topics`` (B, k, E), zero in slots without one; ``topic_padding_mask`` (B, k); ``slot`` (B, S), see
            ``TopicWords``; ``importance`` phi (B, k), with coverage.

        Raises:
            UserError: if there are more topics than slots, or no lengths.
        """
        try:
            words = topic_words(src_tokens, self.padding_idx, self.eos_idx, self.num_slots)
        except ValueError as error:
            raise UserError(f"mta_lstm: {error} Train with more --topic-slots, or give fewer topics.") from error
        topics = self.embed_tokens(words.tokens)
        encoder_out = {
            "topics": topics,
            "topic_padding_mask": words.padding_mask,
            "slot": words.slot,
        }
        if self.importance is not None:
            if essay_lengths is None:
                raise UserError("mta_lstm must know how long an essay is to be: use --task topic_essay.")
            encoder_out["importance"] = self.importance(topics, essay_lengths)
        return encoder_out


@register_family("mta_lstm", MtaLstmConfig, PRESETS)
class MtaLstmModel(LossModel):
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
