"""The decoder of PC-SAN (section 3.3): a Transformer's that copies nothing.

Legend: ``B`` batch, ``T`` target length, ``S`` source length.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor

from ...modules import QueryEmbedding, TransformerDecoder
from ..base import State
from ..transformer import PlainDecoder


class PcSanDecoder(PlainDecoder):
    """``PlainDecoder``, which reads every topic from one or two positions.

    Args:
        dictionary: of the essays.
        network: of ``ContextualDecoderLayer``.
        output_layer: scores words by the embeddings of ``network``.
        max_positions: longest essay.
        positions_a_topic: 2 where a topic's vector and its BERT states are one after the other.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        network: TransformerDecoder,
        output_layer: QueryEmbedding,
        max_positions: int,
        positions_a_topic: int,
    ) -> None:
        super().__init__(dictionary, network, output_layer, max_positions)
        self.positions_a_topic = positions_a_topic

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """See ``CopyingDecoder``; ``attn`` (B, T, S) is a topic's share of the attention, wherever it was read."""
        log_probs, extra = super().forward(prev_output_tokens, encoder_out, incremental_state)
        shares = extra["attn"][0].unflatten(2, (self.positions_a_topic, -1)).sum(dim=2)
        return log_probs, {"attn": [shares]}
