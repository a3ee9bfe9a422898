"""``ppg``: planning-based generation (Wang et al., COLING 2016, arXiv 1610.09889), line by line from a topic each.

The paper writes poems. The mapping to essays, a chunk of clauses for a line, is this project's own.

Legend: ``B`` batch, ``S`` source length, ``k`` topic slots, ``V`` words, ``E`` embedding width, ``H`` hidden width.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...modules import topic_words
from ..base import LossModel
from ..presets import register_family
from ..topics import TopicEncoder, initialise
from ..word_layers import required_word, word_embedding
from .config import PRESETS, PpgConfig
from .decoder import PpgDecoder


class PpgEncoder(TopicEncoder):
    """r_i = [forward; backward] over topic i, which is one word.

    Args:
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


@register_family("ppg", PpgConfig, PRESETS)
class PpgModel(LossModel):
    """Encodes each topic and the text so far; writes one chunk from each topic."""

    adds_losses = True

    @classmethod
    def build(cls, cfg: PpgConfig, task: FairseqTask) -> "PpgModel":
        dictionary = task.source_dictionary
        chunk_index = required_word(
            dictionary,
            cfg.chunk_symbol,
            "ppg needs the chunk symbol",
            "write the essays with preprocess/clause_chunks.py, or name another word with --chunk-symbol.",
        )
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        encoder = PpgEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PpgDecoder(dictionary, embed_tokens, cfg.hidden_size, chunk_index, cfg.dropout)
        model = cls(encoder, decoder)
        initialise(model, cfg)
        return model
