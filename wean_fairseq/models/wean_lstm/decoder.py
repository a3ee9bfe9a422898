"""The LSTM decoder of WEAN (Ma et al., NAACL 2018, sections 2.2-2.3): state, context, query, scores.

There is no input feeding, so in training one fused LSTM call runs over the whole target and the attention works on all
steps at once; in generation the same calls run over one step.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``D`` layers, ``H`` hidden width, ``V``
dictionary size.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import BilinearAttention, LstmStart, LstmState, QueryEmbedding, StateBridge, Step, fold_hypotheses
from ..base import StepDecoder


@dataclass(frozen=True)
class WeanMemory(LstmStart):
    """The source as every step sees it."""

    keys: Tensor  # (B, S, H)
    padding_mask: Tensor | None  # (B, S); None = padding may be attended to


class WeanLstmDecoder(StepDecoder[WeanMemory, LstmState]):
    """LSTM, attention, and the query that is put to the word embeddings.

    Args:
        dictionary: of the target (the same as of the source).
        embed_tokens: the shared embedding, (V, E).
        lstm: ``batch_first``, E -> H.
        bridge: from the encoder's final states to the first state here.
        attention: over the encoder outputs.
        output: scores words by querying their embeddings.
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
        output: QueryEmbedding,
        dropout: float,
        attn_pad_leak: bool,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.bridge = bridge
        self.attention = attention
        self.combine = nn.Linear(2 * lstm.hidden_size, lstm.hidden_size)  # W_c, b_c of eq. 4
        self.dropout = nn.Dropout(dropout)
        self.output = output
        self.attn_pad_leak = attn_pad_leak

    def remember(self, encoder_out: dict[str, Tensor]) -> WeanMemory:
        start = LstmState(*self.bridge(encoder_out["final_hidden"], encoder_out["final_cell"]))
        padding_mask = None if self.attn_pad_leak else encoder_out["encoder_padding_mask"]
        return WeanMemory(start, encoder_out["encoder_out"], padding_mask)

    def begin(self, memory: WeanMemory) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: WeanMemory, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``; the features are the queries, (N, T, H)."""
        states, last = self.lstm(self.embed_tokens(words), (state.hidden, state.cell))  # (N, T, H)
        context, weights = self.attention(fold_hypotheses(states, len(memory.keys)), memory.keys, memory.padding_mask)
        query = torch.tanh(self.combine(torch.cat([context.view_as(states), states], dim=-1)))  # (N, T, H), eq. 4
        return Step(self.dropout(query), weights.reshape(*words.shape, -1)), LstmState(*last)
