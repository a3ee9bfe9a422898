"""One step of an LSTM or a GRU from gates whose parts were summed up outside, where a fused call cannot be used.

The gates have PyTorch's order, so that the weights can be those of ``nn.LSTM`` and ``nn.GRUCell``.

Legend: ``B`` batch, ``H`` hidden width.
"""

import torch
from torch import Tensor


def lstm_update(gates: Tensor, cell: Tensor, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """c_t = f * c_{t-1} + i * g (+ added); h_t = o * tanh(c_t).

    Args:
        gates: what goes into i, f, g and o, in this order, shape (B, 4H).
        cell: c_{t-1}, shape (B, H).
        added: another part of c_t (SC-LSTM), shape (B, H).

    Returns:
        h_t and c_t, each of shape (B, H).
    """
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
    new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    if added is not None:
        new_cell = new_cell + added
    return torch.sigmoid(output_gate) * torch.tanh(new_cell), new_cell


def gru_update(input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor) -> Tensor:
    """h_t = (1 - z) * n + z * h_{t-1}, n = tanh(input part + r * hidden part).

    Args:
        input_gates: the input's part of r, z and n, in this order, shape (B, 3H).
        hidden_gates: the part of h_{t-1}, likewise.
        hidden: h_{t-1}, shape (B, H).

    Returns:
        h_t, shape (B, H).
    """
    input_reset, input_update, input_candidate = input_gates.chunk(3, dim=-1)
    hidden_reset, hidden_update, hidden_candidate = hidden_gates.chunk(3, dim=-1)
    update = torch.sigmoid(input_update + hidden_update)
    candidate = torch.tanh(input_candidate + torch.sigmoid(input_reset + hidden_reset) * hidden_candidate)
    return candidate + update * (hidden - candidate)
