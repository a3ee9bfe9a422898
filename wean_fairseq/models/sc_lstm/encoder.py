"""The keywords of SC-LSTM: d_0, of which only the places of the essay's own topics are kept.

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots.
"""

from typing import Any

from torch import Tensor

from ...modules import first_keywords, topic_words
from ..topics import TopicEncoder


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
