"""Recurrent encoders over padded batches. Padding on either side is never read.

Legend: ``B`` batch, ``S`` source length, ``E`` input width, ``H`` hidden width, ``L`` layers, ``D`` directions.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .gates import EarlyResetCell


def stacked_lstm(
    input_dim: int, hidden_size: int, layers: int, dropout: float, *, bidirectional: bool = False
) -> nn.LSTM:
    """Return a ``batch_first`` LSTM with dropout between its layers.

    For a single layer the dropout is set to 0, because PyTorch would print a warning.
    """
    between = dropout if layers > 1 else 0.0
    return nn.LSTM(input_dim, hidden_size, layers, batch_first=True, dropout=between, bidirectional=bidirectional)


class EarlyResetGru(nn.GRU):
    """A ``batch_first`` GRU with one layer that resets the state before the linear map, see ``EarlyResetCell``."""

    def forward(  # type: ignore[override]
        self, inputs: Tensor, state: Tensor | None = None, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Read inputs (B, S, E), starting from ``state`` (D, B, H), which is 0 by default.

        Return the outputs (B, S, D * H) and the final state. Where ``padding_mask`` (B, S) is ``True``, the state does
        not change and the outputs are 0.
        """
        outputs, finals = [], []
        for direction in range(2 if self.bidirectional else 1):
            cell, steps = EarlyResetCell(self, "_l0_reverse" if direction else "_l0"), []
            hidden = inputs.new_zeros(len(inputs), self.hidden_size) if state is None else state[direction]
            for place in range(inputs.size(1))[:: -1 if direction else 1]:
                new_hidden, _ = cell.advance(inputs[:, place], hidden, hidden)
                hidden = (
                    new_hidden
                    if padding_mask is None
                    else torch.where(padding_mask[:, place : place + 1], hidden, new_hidden)
                )
                steps.append(hidden)
            outputs.append(torch.stack(steps[:: -1 if direction else 1], dim=1))
            finals.append(hidden)
        joined = torch.cat(outputs, dim=-1)
        return joined if padding_mask is None else joined.masked_fill(padding_mask.unsqueeze(2), 0.0), torch.stack(
            finals
        )


def run_over_words(rnn: nn.LSTM | nn.GRU, inputs: Tensor, padding_mask: Tensor) -> tuple[Tensor, Any]:
    """Run ``rnn`` over the words of each sentence, independently of its padding.

    Args:
        rnn: ``batch_first``, of any depth, in one direction or both.
        inputs: (B, S, E).
        padding_mask: ``True`` at padding, which is all on the left or all on the right of a sentence, (B, S).

    Returns:
        The outputs at the words' positions, zero at padding, (B, S, D * H). The second value is the final state after a
        sentence's last word (backwards: after its first word), (L * D, B, H). For an LSTM it is the pair (h, c).
    """
    length = padding_mask.size(1)
    # Packing requires that the words are on the left. The outputs are moved back to the positions of the words, so that
    # attention weights match the original source.
    position = torch.arange(length, device=padding_mask.device)
    # number of padding tokens before the first word, (B, 1)
    shift = padding_mask.long().cumprod(dim=1).sum(dim=1, keepdim=True)
    words = padding_mask.logical_not().sum(dim=1).clamp(min=1).cpu()
    on_the_left = _gather_positions(inputs, (position + shift) % length)  # (B, S, E)
    packed = pack_padded_sequence(on_the_left, words, batch_first=True, enforce_sorted=False)
    packed_outputs, state = rnn(packed)
    # The outputs are still sorted by length here. They are reordered below, so that PyTorch need not copy the order
    # from a GPU.
    by_length = packed_outputs._replace(unsorted_indices=None)
    outputs, _ = pad_packed_sequence(by_length, batch_first=True, total_length=length)  # (B, S, D * H)
    assert packed.unsorted_indices is not None  # pack_padded_sequence has sorted them
    return _gather_positions(outputs.index_select(0, packed.unsorted_indices), (position - shift) % length), state


def _gather_positions(values: Tensor, position: Tensor) -> Tensor:
    """Return the ``values`` (B, S, C) at the ``position`` (B, S) of each sentence."""
    batch, length = position.shape
    row = position + length * torch.arange(batch, device=position.device).unsqueeze(1)  # row in (B * S, C)
    return values.flatten(0, 1).index_select(0, row.flatten()).view_as(values)
