"""The topic encoder of PC-SAN (section 3.2): it has no layers of its own, and BERT is none of its parts.

The states of the frozen BERT come with the batch, so that they can be computed once for every set of topics. Only the
digest of the BERT that made them is kept in checkpoints.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``N`` mixtures, ``D`` width of the
model, ``M`` width of what the decoder reads, ``P`` its positions: S, or 2 S.
"""

from typing import Any, Protocol

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...data.topics import topic_positions
from ...errors import UserError
from ...modules import LastLayer, LayerMixture, TopicFusion
from ..topics import TopicEncoder


class Bert(Protocol):
    """The BERT whose states are in the batches, as the task knows it."""

    num_layers: int
    dim: int
    digest: str  # SHA-256 of the weights, hexadecimal
    path: str


class BertStates(nn.Module):
    """B_j joined with G to H_j for all j (eq. 2, 3).

    Args:
        mixture: of the layers.
        fusion: with the topic vectors.
        bert: whose states they are.
    """

    digest: Tensor

    def __init__(self, mixture: LayerMixture | LastLayer, fusion: TopicFusion, bert: Bert) -> None:
        super().__init__()
        self.mixture = mixture
        self.fusion = fusion
        self.path = bert.path
        # 64 bits a byte, because fairseq sums the buffers of the checkpoints that it averages.
        self.register_buffer("digest", torch.tensor(list(bytes.fromhex(bert.digest))))

    def forward(self, words: Tensor, states: Tensor) -> Tensor:
        """Topic vectors (B, S, D) and BERT's states (B, S, L, H) -> (B, N, P, M)."""
        fused: Tensor = self.fusion(words, self.mixture(states))
        return fused

    def check_digest(self, trained: Tensor) -> None:
        """Refuse a checkpoint whose BERT had the digest ``trained`` (32,) if that is not the present one.

        Raises:
            UserError: naming both.
        """
        if not torch.equal(trained.cpu(), self.digest.cpu()):
            raise UserError(
                f"this checkpoint was trained with the BERT of SHA-256 {_hex_prefix(trained)}, but that of {self.path} "
                f"is {_hex_prefix(self.digest)}: give --bert the directory that was used in training."
            )


class PcSanEncoder(TopicEncoder):
    """Topic vectors G, and BERT's states of the same topics.

    Args:
        dictionary: of the topics.
        words: G, (V, D).
        bert_states: ``None`` for topic vectors alone.
        dropout: on what the decoder reads.
    """

    def __init__(
        self, dictionary: Dictionary, words: nn.Embedding, bert_states: BertStates | None, dropout: float
    ) -> None:
        super().__init__(dictionary)
        self.words = words
        self.bert_states = bert_states
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        topic_features: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Gather what the decoder layers read.

        Args:
            topic_features: outputs of BERT's layers for each topic, the mean over its pieces, shape (B, S, L, H).

        Returns:
            ``encoder_out`` (B, N, P, M); ``encoder_padding_mask`` (B, P), ``True`` at padding and at the end symbol,
            which is no topic; ``src_tokens`` as given.

        Raises:
            UserError: if the batch lacks BERT's states.
        """
        no_topic = ~topic_positions(src_tokens, self.dictionary)
        words = self.words(src_tokens)  # (B, S, D)
        if self.bert_states is None:
            memory = words.unsqueeze(1)
        else:
            if topic_features is None:
                raise UserError("this model reads BERT's states of the topics, but the data has none: give --bert.")
            memory = self.bert_states(words, topic_features.to(words.dtype))
            no_topic = self.bert_states.fusion.positions(no_topic)
        return {
            "encoder_out": self.dropout(memory),
            "encoder_padding_mask": no_topic,
            "src_tokens": src_tokens,
        }


def _hex_prefix(digest: Tensor) -> str:
    return bytes(digest.tolist()).hex()[:12]
