"""The LSTM decoder of WEAN (Ma et al., NAACL 2018, sections 2.2-2.3) and of SRB, with attention and word queries.

There is no input feeding. Therefore, in training, one fused LSTM call runs over the whole target, and the attention of
all steps is computed at once. In generation, the same code runs with a single step.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``D`` layers, ``H`` hidden width, ``V``
dictionary size.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..modules import BilinearAttention, LstmStart, LstmState, QueryEmbedding, StateBridge, Step, fold_hypotheses
from .base import StepDecoder


@dataclass(frozen=True)
class AttentiveMemory(LstmStart):
    """The encoder's output in the form that decoder steps read."""

    keys: Tensor  # (B, S, H)
    padding_mask: Tensor | None  # True at padding, (B, S). None = no position is masked


class AttentiveLstmDecoder(StepDecoder[AttentiveMemory, LstmState]):
    """An LSTM, its attention, and the query that is compared with the words.

    Args:
        lstm: an LSTM with ``batch_first`` that maps embeddings (width E) to states (width H).
        bridge: layer that maps the final states of the encoder to the initial state of the decoder. ``None`` = the
            final states are the initial state.
        dropout: dropout on the query.
        dropout_input: dropout on the embeddings.
        attn_pad_leak: whether attention includes the padding of the source.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        lstm: nn.LSTM,
        bridge: StateBridge | None,
        attention: BilinearAttention,
        output: QueryEmbedding,
        dropout: float,
        dropout_input: float = 0.0,
        attn_pad_leak: bool = False,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.bridge = bridge
        self.attention = attention
        self.combine = nn.Linear(2 * lstm.hidden_size, lstm.hidden_size)  # W_c, b_c of eq. 4
        self.dropout = nn.Dropout(dropout)
        self.dropout_input = nn.Dropout(dropout_input)
        self.output = output
        self.attn_pad_leak = attn_pad_leak

    def remember(self, encoder_out: dict[str, Tensor]) -> AttentiveMemory:
        final = (encoder_out["final_hidden"], encoder_out["final_cell"])
        start = LstmState(*(final if self.bridge is None else self.bridge(*final)))
        padding_mask = None if self.attn_pad_leak else encoder_out["encoder_padding_mask"]
        return AttentiveMemory(start, encoder_out["encoder_out"], padding_mask)

    def begin(self, memory: AttentiveMemory) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: AttentiveMemory, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``. The features of the steps are the queries, (N, T, H)."""
        embedded = self.dropout_input(self.embed_tokens(words))
        states, last = self.lstm(embedded, (state.hidden, state.cell))  # (N, T, H)
        return self.attend(states, memory), LstmState(*last)

    def attend(self, states: Tensor, memory: AttentiveMemory) -> Step:
        """Return the steps for the LSTM's states (N, T, H)."""
        context, weights = self.attention(fold_hypotheses(states, len(memory.keys)), memory.keys, memory.padding_mask)
        query = torch.tanh(self.combine(torch.cat([context.view_as(states), states], dim=-1)))  # (N, T, H), eq. 4
        return Step(self.dropout(query), weights.reshape(*states.shape[:2], -1))
