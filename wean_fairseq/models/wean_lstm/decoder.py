"""The LSTM decoder of WEAN (Ma et al., NAACL 2018, sections 2.2-2.3): state, context, query, scores.

There is no input feeding, so in training one fused LSTM call runs over the whole target and the attention works on all
steps at once; in generation the same calls run over one step.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` layers, ``H`` hidden width, ``V`` dictionary size.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ...modules import BilinearAttention, LossSums, QueryEmbedding, StateBridge

State = dict[str, dict[str, Tensor | None]]


class WeanLstmDecoder(FairseqIncrementalDecoder):
    """LSTM, attention, and the query that is put to the word embeddings.

    Args:
        dictionary: of the target (the same as of the source).
        embed_tokens: the shared embedding, (V, E).
        lstm: ``batch_first``, E -> H.
        bridge: from the encoder's final states to the first state here.
        attention: over the encoder outputs.
        query_embedding: the output layer.
        dropout: on the query.
        attn_pad_leak: do not mask source padding in the attention.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        lstm: nn.LSTM,
        bridge: StateBridge,
        attention: BilinearAttention,
        query_embedding: QueryEmbedding,
        dropout: float,
        attn_pad_leak: bool,
    ) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.bridge = bridge
        self.attention = attention
        self.combine = nn.Linear(2 * lstm.hidden_size, lstm.hidden_size)  # W_c, b_c of eq. 4
        self.dropout = nn.Dropout(dropout)
        self.query_embedding = query_embedding
        self.attn_pad_leak = attn_pad_leak

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Scores of the next word at every step.

        Args:
            prev_output_tokens: shape (B, T); with ``incremental_state`` only the last step is computed.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            Logits (B, T, V), and ``{"attn": [weights (B, T, S)]}``.
        """
        query, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output_layer(query), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """The queries: arguments as ``forward``; returns (B, T, H), and ``{"attn": [weights (B, T, S)]}``."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        hidden, cell = self._start_state(encoder_out, incremental_state)
        embedded = self.embed_tokens(prev_output_tokens)  # (B, T, E)
        states, (hidden, cell) = self.lstm(embedded, (hidden, cell))  # (B, T, H)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "lstm", {"hidden": hidden, "cell": cell})
        padding_mask = None if self.attn_pad_leak else encoder_out["encoder_padding_mask"]
        context, weights = self.attention(states, encoder_out["encoder_out"], padding_mask)
        query = torch.tanh(self.combine(torch.cat([context, states], dim=-1)))  # (B, T, H), eq. 4
        return self.dropout(query), {"attn": [weights]}

    def output_layer(self, query: Tensor) -> Tensor:
        """Logits of queries (B, T, H): shape (B, T, V)."""
        return self.query_embedding.scores(query, self.embed_tokens.weight)

    def loss(self, query: Tensor, target: Tensor, label_smoothing: float) -> LossSums:
        """Loss sums of queries (B, T, H) against ``target`` (B, T), without building the logits."""
        return self.query_embedding.loss(
            query, self.embed_tokens.weight, target, self.padding_idx, label_smoothing=label_smoothing
        )

    def _start_state(self, encoder_out: dict[str, Tensor], incremental_state: State | None) -> tuple[Tensor, Tensor]:
        """The state before this call's first step: (D, B, H) twice."""
        if incremental_state is not None:
            cached = self.get_incremental_state(incremental_state, "lstm")
            if cached is not None:
                return cached["hidden"], cached["cell"]
        hidden, cell = self.bridge(encoder_out["final_hidden"], encoder_out["final_cell"])
        return hidden, cell

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        cached = self.get_incremental_state(incremental_state, "lstm")
        if cached is not None:
            moved = {name: state.index_select(1, new_order) for name, state in cached.items()}
            self.set_incremental_state(incremental_state, "lstm", moved)

    def max_positions(self) -> int:
        """An LSTM has no longest output; the task sets the limits."""
        return int(1e5)
