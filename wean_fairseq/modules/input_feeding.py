"""A stacked LSTM with attention and input feeding (Luong et al., EMNLP 2015, section 3.3).

Each step reads the attentional state of the step before it beside the word, so there is no fused call over all steps:
training walks over the words as generation does. Outside of the loop stand the words' part of the first layer's gates
and all that attention can compute beforehand; scoring the vocabulary comes after it.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``E`` embedding width, ``H`` hidden width, ``L`` layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .gates import LstmLayers
from .global_attention import AttentionMemory, GlobalAttention
from .steps import LstmState, State


@dataclass(frozen=True)
class FedState(State):
    """State after a step, which the next one reads."""

    layers: LstmState
    fed: Tensor  # the attentional state, (N, H)


class InputFeedingLstm(nn.Module):
    """h_t = LSTM([e(y_{t-1}); a_{t-1}], h_{t-1}), where a_t is the attentional state of the top layer's h_t.

    Dropout falls on the output of every layer that another one reads, and on a_t where words are scored from it. The
    next step is fed the same a_t (OpenNMT, and so NTS); with ``dropout_input``, dropout falls on all that the first
    layer reads instead, each time anew (the release of EncDecA).

    Args:
        embed_dim: ``E``.
        hidden_size: ``H``.
        num_layers: ``L``.
        attention: over the encoder outputs.
        dropout: probability.
        dropout_input: see above; the words given are to have had dropout already.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        num_layers: int,
        attention: GlobalAttention,
        dropout: float,
        *,
        dropout_input: bool = False,
    ) -> None:
        super().__init__()
        self.lstm = nn.LSTM(embed_dim + hidden_size, hidden_size, num_layers, batch_first=True)  # holds the weights
        self.attention = attention
        self.dropout = nn.Dropout(dropout)
        self.dropout_input = dropout_input

    def start(self, hidden: Tensor, cell: Tensor) -> FedState:
        """The state before the first step, from h and c of every layer, (L, B, H) each: nothing was attended yet."""
        return FedState(LstmState(hidden, cell), torch.zeros_like(hidden[0]))

    def forward(self, words: Tensor, memory: AttentionMemory, state: FedState) -> tuple[Tensor, Tensor, FedState]:
        """Run over all steps.

        Args:
            words: embeddings of the words before each step, shape (N, T, E).
            memory: of the source of B sentences; N is a multiple of B.
            state: before the first step.

        Returns:
            What words are scored from, (N, T, H), attention weights (N, T, S), and the state after the last step.
        """
        hidden, cell, fed = list(state.layers.hidden.unbind()), list(state.layers.cell.unbind()), state.fed
        layers, maps = LstmLayers(self.lstm, fed.size(-1)), self.attention.maps(memory)
        outputs, weights = [], []
        for gates in layers.given(words).unbind(dim=1):
            layers.advance(gates, self.dropout(fed) if self.dropout_input else fed, (hidden, cell), self.dropout)
            attended, attention = self.attention(hidden[-1].unsqueeze(1), memory, maps)
            output = self.dropout(attended.squeeze(1))
            fed = attended.squeeze(1) if self.dropout_input else output
            outputs.append(output)
            weights.append(attention.squeeze(1))
        after = FedState(LstmState(torch.stack(hidden), torch.stack(cell)), fed)
        return torch.stack(outputs, dim=1), torch.stack(weights, dim=1), after
