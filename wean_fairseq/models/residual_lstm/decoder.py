"""The decoder of Residual LSTM (Prakash et al., COLING 2016): it starts where the encoder ended, without attention.

Legend: ``B`` batch, ``T`` target length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``V`` words.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import QueryEmbedding, ResidualLstm
from ..base import FeatureDecoder, LstmStates, State


class ResidualLstmDecoder(LstmStates, FeatureDecoder):
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
        super().__init__(dictionary, embed_tokens, output)
        self.stack = stack

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Outputs of the top layer, (B, T, H), and ``{"attn": [None]}``, as there is no attention."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        start = self.kept_states(incremental_state) or (encoder_out["final_hidden"], encoder_out["final_cell"])
        outputs, (hidden, cell) = self.stack(self.embed_tokens(prev_output_tokens), start)
        self.keep_states(incremental_state, hidden, cell)
        return outputs, {"attn": [None]}
