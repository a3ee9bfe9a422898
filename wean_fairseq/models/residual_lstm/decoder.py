"""The decoder of Residual LSTM (Prakash et al., COLING 2016): it starts where the encoder ended, without attention.

Legend: ``N`` hypotheses, ``T`` target length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``V`` words.
"""

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import LstmStart, LstmState, QueryEmbedding, ResidualLstm, Step
from ..base import StepDecoder


class ResidualLstmDecoder(StepDecoder[LstmStart, LstmState]):
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

    def remember(self, encoder_out: dict[str, Tensor]) -> LstmStart:
        return LstmStart(LstmState(encoder_out["final_hidden"], encoder_out["final_cell"]))

    def begin(self, memory: LstmStart) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: LstmStart, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``; the features are the outputs of the top layer, (N, T, H)."""
        outputs, last = self.stack(self.embed_tokens(words), (state.hidden, state.cell))
        return Step(outputs, None), LstmState(*last)
