"""An LSTM whose inputs are weighted by a gate that depends on the previous words: SRB's encoder (Ma et al., ACL 2017).

Legend: ``B`` batch, ``S`` source length, ``E`` embedding width, ``H`` hidden width.
"""

import torch
from torch import Tensor, nn


class GatedLstm(nn.Module):
    """h_t = LSTM(beta_t e_t, h_(t-1)); beta_t = sigmoid(v . relu(W [h_(t-1); e_t] + b) + a), the importance of a word.

    Args:
        input_dim: ``E``.
        hidden_size: ``H``.
        gate_input: ``state-and-word`` selects the equation above. ``state`` selects beta_t = sigmoid(v . h_(t-1) + a).
            ``release`` is like ``state``, but beta_1 = 1, as in the authors' code, which computes the gate for the next
            word after each step.
    """

    def __init__(self, input_dim: int, hidden_size: int, gate_input: str) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(input_dim, hidden_size)
        self.gate_hidden = nn.Linear(hidden_size + input_dim, hidden_size) if gate_input == "state-and-word" else None
        self.gate = nn.Linear(hidden_size, 1)
        self.gates_first_word = gate_input != "release"

    def forward(self, embedded: Tensor, padding_mask: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Read a batch of sentences, whose padding has no effect on the results.

        Args:
            embedded: e_t, (B, S, E).
            padding_mask: ``True`` at padding, on either side, (B, S).

        Returns:
            The outputs h_t (B, S, H), zero at padding, and the state (h, c) after the last word, (1, B, H) each, as for
            ``nn.LSTM``.
        """
        hidden = cell = embedded.new_zeros(len(embedded), self.cell.hidden_size)
        outputs = []
        is_first = None if self.gates_first_word else ~padding_mask & (~padding_mask).cumsum(dim=1).eq(1)  # (B, S)
        for place, (word, is_padding) in enumerate(
            zip(embedded.unbind(dim=1), padding_mask.unsqueeze(2).unbind(dim=1), strict=True)
        ):
            importance = self._importance(hidden, word)  # (B, 1)
            if is_first is not None:
                importance = importance.masked_fill(is_first[:, place : place + 1], 1.0)
            new_hidden, new_cell = self.cell(importance * word, (hidden, cell))
            hidden, cell = torch.where(is_padding, hidden, new_hidden), torch.where(is_padding, cell, new_cell)
            outputs.append(hidden)
        final = hidden.unsqueeze(0), cell.unsqueeze(0)  # (1, B, H)
        return torch.stack(outputs, dim=1).masked_fill(padding_mask.unsqueeze(2), 0.0), final

    def _importance(self, hidden: Tensor, word: Tensor) -> Tensor:
        """Return beta_t (B, 1) for states (B, H) and words (B, E)."""
        if self.gate_hidden is not None:
            hidden = torch.relu(self.gate_hidden(torch.cat([hidden, word], dim=-1)))
        return torch.sigmoid(self.gate(hidden))
