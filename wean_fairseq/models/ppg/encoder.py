"""The topics of PPG (Wang et al., COLING 2016): each is encoded by itself, by a bidirectional GRU.

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots, ``E`` embedding width, ``H`` hidden width.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import topic_words
from ..topics import TopicEncoder


class PpgEncoder(TopicEncoder):
    """r_i = [forward; backward] over topic i, which is one word.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        hidden_size: ``H`` of each direction.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.gru = nn.GRU(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        for name, weight in self.gru.named_parameters():
            if name.startswith("weight_hh"):
                # A topic of one word starts and ends from the state 0, which these weights multiply.
                weight.requires_grad_(False)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode the topics of a batch, see ``TopicEncoder``.

        Returns:
            ``topics`` r (B, k, 2H), zero in slots without one; ``num_topics`` (B,); ``slot`` (B, S), see
            ``TopicWords``.
        """
        words = topic_words(src_tokens, self.padding_idx, self.eos_idx)
        embedded = self.embed_tokens(words.tokens)  # (B, k, E)
        encoded, _ = self.gru(embedded.flatten(0, 1).unsqueeze(1))  # (B * k, 1, 2H)
        topics = encoded.view(*words.tokens.shape, -1).masked_fill(words.padding_mask.unsqueeze(-1), 0.0)
        return {
            "topics": topics,
            "num_topics": (~words.padding_mask).sum(dim=1),
            "slot": words.slot,
        }
