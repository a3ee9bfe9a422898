"""The decoder of Residual LSTM (Prakash et al., COLING 2016): it starts where the encoder ended, without attention.

Legend: ``B`` batch, ``T`` target length, ``E`` embedding width, ``H`` hidden width, ``L`` layers, ``V`` words.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ...modules import LossSums, QueryEmbedding, ResidualLstm
from ..copying import State


class ResidualLstmDecoder(FairseqIncrementalDecoder):
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
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.stack = stack
        self.output = output

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Scores of the next word at every step.

        Args:
            prev_output_tokens: shape (B, T); with ``incremental_state`` only the last step is computed.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            Logits (B, T, V), and ``{"attn": [None]}``, as there is no attention.
        """
        outputs = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output.scores(outputs, self.embed_tokens.weight), {"attn": [None]}

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> Tensor:
        """Outputs of the top layer, (B, T, H); arguments as ``forward``."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        start = self._start(encoder_out, incremental_state)
        outputs, (hidden, cell) = self.stack(self.embed_tokens(prev_output_tokens), start)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "lstm", {"hidden": hidden, "cell": cell})
        features: Tensor = outputs
        return features

    def loss(self, features: Tensor, target: Tensor, label_smoothing: float) -> LossSums:
        """Loss sums of outputs (B, T, H) against ``target`` (B, T), without building the logits."""
        return self.output.loss(
            features, self.embed_tokens.weight, target, self.padding_idx, label_smoothing=label_smoothing
        )

    def _start(self, encoder_out: dict[str, Tensor], incremental_state: State | None) -> tuple[Tensor, Tensor]:
        """The state before this call's first step: (L, B, H) twice."""
        if incremental_state is not None:
            cached = self.get_incremental_state(incremental_state, "lstm")
            if cached is not None:
                return cached["hidden"], cached["cell"]
        return encoder_out["final_hidden"], encoder_out["final_cell"]

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        cached = self.get_incremental_state(incremental_state, "lstm")
        if cached is not None:
            moved = {name: state.index_select(1, new_order) for name, state in cached.items()}
            self.set_incremental_state(incremental_state, "lstm", moved)

    def max_positions(self) -> int:
        """An LSTM has no longest output; the task sets the limits."""
        return int(1e5)
