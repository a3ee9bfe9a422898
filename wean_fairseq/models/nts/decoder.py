"""The decoder of NTS (Nisioi et al., ACL 2017, section 2): global attention with input feeding.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``H`` hidden width.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import QueryEmbedding
from ...modules.global_attention import AttentionMemory
from ...modules.input_feeding import FedState, InputFeedingLstm
from ..base import FeatureDecoder, State
from ..copying import follow_sentences


class NtsDecoder(FeatureDecoder):
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
        super().__init__(dictionary, embed_tokens, output)
        self.stack = stack
        self.dropout = nn.Dropout(dropout)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """The attentional states, (B, T, H), and ``{"attn": [weights (B, T, S)]}``; arguments as ``forward``."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        words = self.dropout(self.embed_tokens(prev_output_tokens))  # (B, T, E)
        memory, state = self._resume(incremental_state) or self._start(encoder_out)
        source = AttentionMemory(**{name: memory[name] for name in AttentionMemory._fields})
        outputs, weights, state = self.stack(words, source, state)
        self._keep(incremental_state, memory, state)
        return outputs, {"attn": [weights]}

    def _start(self, encoder_out: dict[str, Tensor]) -> tuple[dict[str, Any], FedState]:
        """The source with its ``sentence_numbers``, and the state before the first step."""
        source = self.stack.attention.remember(encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])
        state = self.stack.start(encoder_out["final_hidden"], encoder_out["final_cell"])
        return {**source._asdict(), "sentence": encoder_out["sentence"]}, state

    def _resume(self, incremental_state: State | None) -> tuple[dict[str, Any], FedState] | None:
        """The same after the last step of generation; ``None`` at the first one, and in training."""
        if incremental_state is None:
            return None
        memory = self.get_incremental_state(incremental_state, "memory")
        state = self.get_incremental_state(incremental_state, "state")
        return None if memory is None or state is None else (memory, FedState(**state))

    def _keep(self, incremental_state: State | None, memory: dict[str, Any], state: FedState) -> None:
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "memory", memory)
            self.set_incremental_state(incremental_state, "state", state._asdict())

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let everything follow the hypotheses ``new_order`` (B',) that beam search kept."""
        kept = self._resume(incremental_state)
        if kept is not None:
            memory, state = kept
            moved = FedState(
                state.hidden.index_select(1, new_order),
                state.cell.index_select(1, new_order),
                state.fed.index_select(0, new_order),
            )
            self._keep(incremental_state, follow_sentences(memory, new_order), moved)
