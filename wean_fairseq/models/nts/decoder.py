"""The decoder of NTS (Nisioi et al., ACL 2017, section 2): global attention with input feeding.

Legend: ``N`` hypotheses, ``T`` target length, ``E`` embedding width, ``H`` hidden width.
"""

from dataclasses import dataclass

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import Memory, QueryEmbedding, Step
from ...modules.global_attention import AttentionMemory
from ...modules.input_feeding import FedState, InputFeedingLstm
from ..base import StepDecoder


@dataclass(frozen=True)
class NtsMemory(Memory):
    """The source as every step sees it."""

    source: AttentionMemory
    start: FedState


class NtsDecoder(StepDecoder[NtsMemory, FedState]):
    """An LSTM that is fed its last attentional state; words are scored from the attentional states.

    Args:
        dictionary: of the target.
        embed_tokens: (V, E).
        stack: the layers and the attention.
        output: scores words from the attentional states.
        dropout: on the words read.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        stack: InputFeedingLstm,
        output: QueryEmbedding,
        dropout: float,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.output = output
        self.stack = stack
        self.dropout = nn.Dropout(dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> NtsMemory:
        source = self.stack.attention.remember(encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])
        return NtsMemory(source, self.stack.start(encoder_out["final_hidden"], encoder_out["final_cell"]))

    def step(self, words: Tensor, memory: NtsMemory, state: FedState) -> tuple[Step, FedState]:
        """See ``StepDecoder``; the features are the attentional states, (N, T, H)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        outputs, weights, state = self.stack(embedded, memory.source, state)
        return Step(outputs, weights), state
