"""The decoder of PC-SAN (section 3.3): a Transformer's that copies nothing.

Legend: ``N`` hypotheses, ``T`` target length, ``S`` source length.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from ...modules import Step
from ...modules.transformer_decoder import DecoderState
from ..transformer import TransformerMemory, TransformerTargetDecoder


class PcSanDecoder(TransformerTargetDecoder):
    """A decoder that copies nothing, and reads every topic from one or two positions.

    Args:
        parts: those of ``TransformerTargetDecoder``.
        positions_a_topic: 2 where a topic's vector and its BERT states are one after the other.
    """

    def __init__(self, *parts: Any, positions_a_topic: int) -> None:
        super().__init__(*parts)
        self.positions_a_topic = positions_a_topic

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        """See ``StepDecoder``; ``attention`` (N, T, S) is a topic's share of it, wherever it was read."""
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        shares = step.attention.unflatten(2, (self.positions_a_topic, -1)).sum(dim=2)  # type: ignore[no-untyped-call]
        return replace(step, attention=shares), state
