"""The decoder of Residual LSTM (Prakash et al., COLING 2016): it starts where the encoder ended, without attention.

Legend: ``N`` hypotheses, ``T`` target length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``V`` words.
"""

from dataclasses import dataclass

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import LstmState, Memory, QueryEmbedding, ResidualLstm, Step
from ..base import StepDecoder


@dataclass(frozen=True)
class ResidualMemory(Memory):
    """The source: no more than where it ended."""

    start: LstmState


class ResidualLstmDecoder(StepDecoder[ResidualMemory, LstmState]):
    """A residual LSTM over the words written so far, whose outputs are scored against the vocabulary.

    Args:
        dictionary: of the target.
        embed_tokens: (V, E).
        stack: the layers, E -> H.
        output: scores words from the top layer's output.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, stack: ResidualLstm, output: QueryEmbedding
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.output = output
        self.stack = stack

    def remember(self, encoder_out: dict[str, Tensor]) -> ResidualMemory:
        """See ``StepDecoder``."""
        return ResidualMemory(LstmState(encoder_out["final_hidden"], encoder_out["final_cell"]))

    def begin(self, memory: ResidualMemory) -> LstmState:
        """See ``StepDecoder``."""
        return memory.start

    def step(self, words: Tensor, memory: ResidualMemory, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``; the features are the outputs of the top layer, (N, T, H)."""
        outputs, last = self.stack(self.embed_tokens(words), (state.hidden, state.cell))
        return Step(outputs, None), LstmState(*last)
