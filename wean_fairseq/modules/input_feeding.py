"""Global attention, and a stacked LSTM with input feeding (Luong et al., EMNLP 2015, 3.1 and 3.3), as in NTS.

Terms that do not depend on the decoder are projected once per batch. W_a and the context's half of W_c are applied to
the encoder outputs, because the projection of a mean is the mean of the projections.

Each step reads the previous attentional state in addition to the word, so no fused call can run all steps. Training
loops over the words, like generation. The words' part of the first layer's gates and the projections of the attention
are computed before the loop. The vocabulary is scored after the loop.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``E`` embedding width, ``H`` width of
decoder states and encoder outputs, ``L`` layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .gates import LstmLayers
from .looped_linear import LoopedLinear
from .masking import masked_softmax
from .steps import LstmState, Memory, State, fold_hypotheses

GLOBAL_SCORES = ("dot", "general")


@dataclass(frozen=True)
class AttentionMemory(Memory):
    """The encoder's output in the form that decoder steps read."""

    keys: Tensor  # W_a h_i, or h_i for the score dot, (B, S, H)
    values: Tensor  # contribution of h_i to W_c [c_t; h_t] if its attention weight is 1, (B, S, H)
    padding_mask: Tensor  # (B, S)


class GlobalAttention(nn.Module):
    """a_ti = softmax_i score(h_t, h_i); c_t = sum_i a_ti h_i; attentional state = tanh(W_c [c_t; h_t]).

    The score is h_t . W_a h_i (``general``) or h_t . h_i (``dot``). There are no biases, as in the papers.
    """

    def __init__(self, score: str, hidden_size: int) -> None:
        super().__init__()
        self.key_proj = nn.Linear(hidden_size, hidden_size, bias=False) if score == "general" else None  # W_a
        self.combine = nn.Linear(2 * hidden_size, hidden_size, bias=False)  # W_c

    def remember(self, states: Tensor, padding_mask: Tensor) -> AttentionMemory:
        """Prepare the encoder outputs (B, S, H) for ``over``. ``padding_mask`` (B, S) is ``True`` at padding."""
        keys = states if self.key_proj is None else self.key_proj(states)
        of_context = self.combine.weight[:, : states.size(-1)]
        return AttentionMemory(keys, linear(states, of_context), padding_mask)

    def over(self, memory: AttentionMemory) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return the attention to the source as a function.

        Create the function before a loop over steps, and call it inside the loop.

        Returns:
            A function that maps decoder states h_t, (N, T, H), to attentional states, (N, T, H), and attention weights,
            (N, T, S). N is a multiple of B.
        """
        of_keys, of_values = LoopedLinear(memory.keys), LoopedLinear(memory.values.transpose(1, 2))
        # the half of W_c for the decoder state
        of_state = LoopedLinear(self.combine.weight[:, self.combine.out_features :])

        def attend(query: Tensor) -> tuple[Tensor, Tensor]:
            queries = fold_hypotheses(query, len(memory.keys))  # (B, K * T, H)
            weights = masked_softmax(of_keys(queries), memory.padding_mask)
            context = of_values(weights).view_as(query)
            return torch.tanh(context + of_state(query)), weights.view(*query.shape[:2], -1)

        return attend


@dataclass(frozen=True)
class FedState(State):
    """State after a step, which the next step reads."""

    layers: LstmState
    fed: Tensor  # the attentional state, (N, H)


class InputFeedingLstm(nn.Module):
    """h_t = LSTM([e(y_{t-1}); a_{t-1}], h_{t-1}), where a_t is the attentional state for the top layer's h_t.

    Dropout is applied to the outputs that another layer reads, and to a_t before words are scored. The next step reads
    the same a_t, as in OpenNMT and therefore in NTS. With ``dropout_input``, new dropout is applied to the whole input
    of the first layer instead (the released code of EncDecA). In that case the caller has already applied dropout to
    the words.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        num_layers: int,
        attention: GlobalAttention,
        dropout: float,
        *,
        dropout_input: bool,
    ) -> None:
        super().__init__()
        # only its weights are used
        self.lstm = nn.LSTM(embed_dim + hidden_size, hidden_size, num_layers, batch_first=True)
        self.attention = attention
        self.dropout = nn.Dropout(dropout)
        self.dropout_input = dropout_input

    def start(self, hidden: Tensor, cell: Tensor) -> FedState:
        """Return the state before the first step, from h and c of every layer, (L, B, H) each.

        The attentional state is 0.
        """
        return FedState(LstmState(hidden, cell), torch.zeros_like(hidden[0]))

    def forward(self, words: Tensor, memory: AttentionMemory, state: FedState) -> tuple[Tensor, Tensor, FedState]:
        """Run the decoder over all steps.

        Args:
            words: embeddings of the words before each step, (N, T, E).
            memory: attention memory of the B source sentences. N is a multiple of B.
            state: state before the first step.

        Returns:
            Features for scoring words, (N, T, H), attention weights (N, T, S), and the state after the last step.
        """
        hidden, cell, fed = list(state.layers.hidden.unbind()), list(state.layers.cell.unbind()), state.fed
        layers, attend = LstmLayers(self.lstm), self.attention.over(memory)
        of_fed = LoopedLinear(layers.first[0][:, words.size(-1) :])  # (4H, E + H) -> (4H, H)
        outputs, weights = [], []
        # Each step adds the previous attentional state to the gates, advances the LSTM layers, and attends with the
        # state of the top layer. The features of a step are the attentional state after dropout.
        for gates in layers.given(words).unbind(dim=1):
            first_gates = gates + of_fed(self.dropout(fed) if self.dropout_input else fed)
            layers.advance(first_gates, (hidden, cell), self.dropout)
            attended, attention = attend(hidden[-1].unsqueeze(1))
            output = self.dropout(attended.squeeze(1))
            fed = attended.squeeze(1) if self.dropout_input else output
            outputs.append(output)
            weights.append(attention.squeeze(1))
        final_state = FedState(LstmState(torch.stack(hidden), torch.stack(cell)), fed)
        return torch.stack(outputs, dim=1), torch.stack(weights, dim=1), final_state
