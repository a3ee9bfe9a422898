"""One step of an LSTM or a GRU, for loops that cannot call a fused layer.

The caller computes the inputs of the gates. The gates have PyTorch's order, so that the weights of ``nn.LSTM`` and
``nn.GRUCell`` can be used. On a GPU, each step calls the kernel that PyTorch's cells use. On a CPU, there is no such
kernel.

Legend: ``B`` batch, ``T`` steps, ``E`` width of words, ``H`` hidden width.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .looped_linear import LoopedLinear


def lstm_update(
    gates: Tensor, cell: Tensor, added: Tensor | None = None, hidden_gates: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """c_t = f * c_{t-1} + i * g (+ added); h_t = o * tanh(c_t).

    Args:
        gates: pre-activations of i, f, g and o, in this order, (B, 4H).
        cell: c_{t-1}, (B, H).
        added: another summand of c_t (SC-LSTM), (B, H).
        hidden_gates: another summand of the pre-activations, (B, 4H).

    Returns:
        h_t and c_t, each of shape (B, H).
    """
    if gates.is_cuda and hidden_gates is not None:
        if added is not None:  # the output gate is needed after the kernel, so the kernel gets the sum of the gates
            gates, hidden_gates = gates + hidden_gates, gates.new_zeros(1, 1).expand_as(gates)
        hidden, new_cell, _ = torch.ops.aten._thnn_fused_lstm_cell(gates, hidden_gates, cell)
        if added is None:
            return hidden, new_cell
        new_cell = new_cell + added
        return torch.sigmoid(gates[:, -cell.size(1) :]) * torch.tanh(new_cell), new_cell
    if hidden_gates is not None:
        gates = gates + hidden_gates
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
    new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    if added is not None:
        new_cell = new_cell + added
    return torch.sigmoid(output_gate) * torch.tanh(new_cell), new_cell


def gru_update(input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor) -> Tensor:
    """h_t = (1 - z) * n + z * h_{t-1}, n = tanh(input term + r * hidden term).

    Args:
        input_gates: terms of the input in r, z and n, in this order, (B, 3H).
        hidden_gates: terms of h_{t-1}, in the same order, (B, 3H).
        hidden: h_{t-1}, (B, H).
    """
    if hidden.is_cuda:
        return torch.ops.aten._thnn_fused_gru_cell(input_gates, hidden_gates, hidden)[0]  # type: ignore[no-any-return]
    input_reset, input_update, input_candidate = input_gates.chunk(3, dim=-1)
    hidden_reset, hidden_update, hidden_candidate = hidden_gates.chunk(3, dim=-1)
    update = torch.sigmoid(input_update + hidden_update)
    candidate = torch.tanh(input_candidate + torch.sigmoid(input_reset + hidden_reset) * hidden_candidate)
    return candidate + update * (hidden - candidate)


class LoopedCell:
    """An LSTM or GRU cell for a loop over steps. ``cell`` contains the weights."""

    def __init__(self, cell: nn.LSTMCell | nn.GRUCell) -> None:
        self.of_input = LoopedLinear(cell.weight_ih, cell.bias_ih)
        self.of_hidden = LoopedLinear(cell.weight_hh, cell.bias_hh)
        self.is_lstm = isinstance(cell, nn.LSTMCell)

    def advance(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Advance one step: inputs (B, I), h and c (B, H) -> the next h and c. A GRU returns c unchanged."""
        gates, hidden_gates = self.of_input(inputs), self.of_hidden(hidden)
        if self.is_lstm:
            return lstm_update(gates, cell, hidden_gates=hidden_gates)
        return gru_update(gates, hidden_gates, hidden), cell


class EarlyResetCell:
    """A GRU cell for a loop over steps, with n = tanh(W x + U (r * h_{t-1}) + b): it resets before the linear map.

    PyTorch's GRU and ``gru_update`` reset after the map: n = tanh(W x + r * (U h_{t-1})). ``gru`` contains the weights.
    """

    def __init__(self, gru: nn.Module, suffix: str = "") -> None:
        of_gru = {name.removesuffix(suffix): values for name, values in gru.named_parameters() if name.endswith(suffix)}
        weight, bias = of_gru["weight_hh"], of_gru["bias_hh"]
        rows = 2 * weight.size(1)
        self.of_input = LoopedLinear(of_gru["weight_ih"], of_gru["bias_ih"])
        self.of_hidden = LoopedLinear(weight[:rows], bias[:rows])
        self.of_reset = LoopedLinear(weight[rows:], bias[rows:])

    def advance(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Advance one step, see ``LoopedCell``."""
        gates = self.of_input(inputs)
        rows = 2 * hidden.size(-1)
        reset, update = torch.sigmoid(gates[:, :rows] + self.of_hidden(hidden)).chunk(2, dim=-1)
        candidate = torch.tanh(gates[:, rows:] + self.of_reset(reset * hidden))
        return candidate + update * (hidden - candidate), cell


class LstmLayers:
    """The layers of an LSTM, for a loop over steps in which part of the input is known only inside the loop.

    ``lstm`` contains the weights.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        self.first, *upper = lstm.all_weights
        self.of_below = [LoopedLinear(layer_weights[0], layer_weights[2] + layer_weights[3]) for layer_weights in upper]
        self.of_hidden = [LoopedLinear(layer_weights[1]) for layer_weights in lstm.all_weights]

    def given(self, words: Tensor) -> Tensor:
        """Return the words' contribution to the first layer's gates, including biases: (B, T, E) -> (B, T, 4H)."""
        weight, _, *biases = self.first
        return linear(words, weight[:, : words.size(-1)], biases[0] + biases[1])

    def advance(
        self,
        given: Tensor,
        state: tuple[list[Tensor], list[Tensor]],
        dropout: Callable[[Tensor], Tensor],
        added: Sequence[Tensor | None] | None = None,
    ) -> list[Tensor]:
        """Advance one step, and return the inputs of all layers above the first, each of shape (B, H).

        Args:
            given: pre-activations of the first layer's gates, (B, 4H): one step of the result of the method ``given``,
                plus the contribution of the layer's other inputs.
            state: h and c of each layer, each of shape (B, H). The lists are updated in place.
            dropout: dropout on the outputs that another layer reads.
            added: summand of the cells of each layer, each of shape (B, H).
        """
        hidden, cell = state
        outputs: list[Tensor] = []
        for layer, of_hidden in enumerate(self.of_hidden):
            gates = given
            if layer:
                outputs.append(dropout(hidden[layer - 1]))
                gates = self.of_below[layer - 1](outputs[-1])
            more = None if added is None else added[layer]
            hidden[layer], cell[layer] = lstm_update(gates, cell[layer], more, of_hidden(hidden[layer]))
        return outputs
