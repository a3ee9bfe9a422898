"""The LSTM decoder of WEAN (Ma et al., NAACL 2018, sections 2.2-2.3): state, context, query, scores.

There is no input feeding, so in training one fused LSTM call runs over the whole target and the attention works on all
steps at once; in generation the same calls run over one step.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` layers, ``H`` hidden width, ``V`` dictionary size.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import BilinearAttention, LossSums, QueryEmbedding, StateBridge
from ..base import LstmStates, State


class WeanLstmDecoder(LstmStates):
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
            encoder_out: what the encoder returned; in generation it may have one row for all hypotheses of a sentence,
                which then lie side by side in ``prev_output_tokens``.
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
        start = self.kept_states(incremental_state) or self.bridge(
            encoder_out["final_hidden"], encoder_out["final_cell"]
        )
        embedded = self.embed_tokens(prev_output_tokens)  # (B, T, E)
        states, (hidden, cell) = self.lstm(embedded, start)  # (B, T, H)
        self.keep_states(incremental_state, hidden, cell)
        padding_mask = None if self.attn_pad_leak else encoder_out["encoder_padding_mask"]
        keys = encoder_out["encoder_out"]  # (B, S, H), or of fewer rows, whose hypotheses are attended from together
        context, weights = self.attention(states.reshape(keys.size(0), -1, states.size(2)), keys, padding_mask)
        query = torch.tanh(self.combine(torch.cat([context.reshape_as(states), states], dim=-1)))  # (B, T, H), eq. 4
        return self.dropout(query), {"attn": [weights.reshape(*states.shape[:2], -1)]}

    def output_layer(self, query: Tensor) -> Tensor:
        """Logits of queries (B, T, H): shape (B, T, V)."""
        return self.query_embedding.scores(query, self.embed_tokens.weight)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Loss sums against ``target`` (B, T), without building the logits."""
        query, _ = self.extract_features(prev_output_tokens, encoder_out)
        return self.query_embedding.loss(
            query, self.embed_tokens.weight, target, self.padding_idx, label_smoothing=label_smoothing
        )

    def max_positions(self) -> int:
        """An LSTM has no longest output; the task sets the limits."""
        return int(1e5)
