"""The topics of MTA-LSTM (Feng et al., IJCAI 2018): their embeddings, and how much of the essay each is to have.

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots, ``E`` embedding width.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...errors import UserError
from ...modules import TopicImportance, topic_words
from ..topics import TopicEncoder


class MtaLstmEncoder(TopicEncoder):
    """Looks up the topics; nothing is computed from their order but phi.

    Args:
        dictionary: of source and target.
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
