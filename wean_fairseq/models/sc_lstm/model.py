"""``sc_lstm``: semantically conditioned LSTM (Wen et al., EMNLP 2015, arXiv 1508.01745), keywords for dialogue acts.

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots.
"""

from typing import Any

from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...modules import KeywordGate, first_keywords, topic_words
from ..base import LossModel
from ..presets import register_family
from ..topics import TopicEncoder, initialise
from ..word_layers import word_embedding
from .config import PRESETS, ScLstmConfig
from .decoder import ScLstmDecoder


class ScLstmEncoder(TopicEncoder):
    """Finds the topic words; it has no weights."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Find the topics of a batch, see ``TopicEncoder``.

        Returns:
            ``topic_tokens`` (B, k), ``first_keywords`` d_0 (B, k), float32.
        """
        words = topic_words(src_tokens, self.padding_idx, self.eos_idx)
        return {
            "topic_tokens": words.tokens,
            "first_keywords": first_keywords(words.tokens, words.padding_mask),
        }


@register_family("sc_lstm", ScLstmConfig, PRESETS)
class ScLstmModel(LossModel):
    """An LSTM language model with a vector of keywords that its cells are told of until they are read out."""

    adds_losses = True

    @classmethod
    def build(cls, cfg: ScLstmConfig, task: FairseqTask) -> "ScLstmModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = ScLstmDecoder(
            dictionary,
            embed_tokens,
            lstm=nn.LSTM(cfg.embed_dim, cfg.hidden_size, cfg.num_layers, batch_first=True),
            gate=KeywordGate(embed_tokens.num_embeddings, cfg.embed_dim, cfg.num_layers, cfg.hidden_size),
            control_loss_weight=cfg.control_loss_weight,
            dropout=cfg.dropout,
        )
        model = cls(ScLstmEncoder(dictionary), decoder)
        initialise(model, cfg)
        return model
