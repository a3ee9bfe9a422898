"""A stack of LSTM layers with residual connections between them (Prakash et al., COLING 2016, section 2.3).

After every n layers, the input of these n layers is added to their output. Only the next layer reads the sum. Within a
layer, the recurrence uses the layer's own output, as in figure 3 of the paper. Therefore the n layers between two sums
run as one fused LSTM. The paper can also be read differently (``recurrent``): the residual is added to h_t itself, and
the recurrence uses the sum at every step.

Legend: ``B`` batch, ``T`` steps, ``E`` input width, ``H`` hidden width, ``L`` layers.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from .recurrent import run_over_words, stacked_lstm

HiddenCells = tuple[Tensor, Tensor]


class ResidualLstm(nn.Module):
    """h^(l) = LSTM_l(h^(l-1)) + x_(l-n) for l = n, 2n, ..., where x_l is the input of layer l + 1.

    If E and H differ, only the first min(E, H) units are added, as in the paper. Layers above the last multiple of n
    have no residual connection.

    Args:
        residual_every: the number n. 0 = no residual connections.
        dropout: dropout after every layer, before the sum.
        recurrent: whether the recurrence uses the sum.
    """

    def __init__(
        self,
        input_dim: int,
        hidden_size: int,
        num_layers: int,
        residual_every: int,
        dropout: float,
        *,
        recurrent: bool = False,
    ) -> None:
        super().__init__()
        self.residual_every = residual_every
        self.block_sizes = _block_sizes(num_layers, residual_every)
        widths = [input_dim] + [hidden_size] * (len(self.block_sizes) - 1)
        self.blocks = nn.ModuleList(
            stacked_lstm(width, hidden_size, layers, dropout)
            for width, layers in zip(widths, self.block_sizes, strict=True)
        )
        self.dropout = nn.Dropout(dropout)
        self.recurrent = recurrent

    def forward(
        self, inputs: Tensor, start: HiddenCells | None = None, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, HiddenCells]:
        """Run over all steps of the inputs (B, T, E).

        Args:
            inputs: inputs of the first layer.
            start: h and c of every layer before the first step, each of shape (L, B, H). ``None`` = zero.
            padding_mask: ``True`` at padding on either side, which is skipped, (B, T). Sentences with padding start
                from zero.

        Returns:
            The outputs (B, T, H), undefined at padding, and h and c of every layer after the last step, (L, B, H).
        """
        hidden, cell = [], []
        states = _split_state(start, self.block_sizes)
        for block, layers, state in zip(self.blocks, self.block_sizes, states, strict=True):
            assert isinstance(block, nn.LSTM)
            residual = None
            if layers == self.residual_every:
                # Padding by a negative number truncates. A wider input loses its last units, and a narrower input gets
                # zeros.
                residual = functional.pad(inputs, (0, block.hidden_size - inputs.size(-1)))  # (B, T, H)
            if residual is not None and self.recurrent:
                outputs, final = _run_with_sums(block, inputs, residual, state, padding_mask)
            elif padding_mask is None:
                outputs, final = block(inputs, state)
            else:
                outputs, final = run_over_words(block, inputs, padding_mask)
            inputs = self.dropout(outputs) if residual is None else self.dropout(outputs) + residual
            hidden.append(final[0])
            cell.append(final[1])
        return inputs, (torch.cat(hidden), torch.cat(cell))


def _run_with_sums(
    block: nn.LSTM, inputs: Tensor, residual: Tensor, start: HiddenCells | None, padding_mask: Tensor | None
) -> tuple[Tensor, HiddenCells]:
    """Run a block whose top layer recurs on the sum of output and ``residual`` (B, T, H). Return outputs without it."""
    if start is None:
        zeros = residual.new_zeros(block.num_layers, inputs.size(0), block.hidden_size)
        start = (zeros, zeros)
    hidden, cell = list(start[0]), list(start[1])
    outputs = []
    for step, step_input in enumerate(inputs.unbind(dim=1)):
        layer_input = step_input
        for layer in range(block.num_layers):
            weights = block.all_weights[layer]
            new_hidden, new_cell = torch.lstm_cell(layer_input, (hidden[layer], cell[layer]), *weights)
            if layer < block.num_layers - 1:
                layer_input = functional.dropout(new_hidden, block.dropout, block.training)
            else:
                outputs.append(new_hidden)
                new_hidden = new_hidden + residual[:, step]
            if padding_mask is not None:
                skip = padding_mask[:, step, None]
                new_hidden = torch.where(skip, hidden[layer], new_hidden)
                new_cell = torch.where(skip, cell[layer], new_cell)
            hidden[layer], cell[layer] = new_hidden, new_cell
    return torch.stack(outputs, dim=1), (torch.stack(hidden), torch.stack(cell))


def _block_sizes(num_layers: int, residual_every: int) -> list[int]:
    """Return the number of layers of each block: n layers each, and a block for the remaining layers."""
    if residual_every == 0:
        return [num_layers]
    full, rest = divmod(num_layers, residual_every)
    return [residual_every] * full + [rest] * (rest > 0)


def _split_state(state: HiddenCells | None, sizes: list[int]) -> list[HiddenCells | None]:
    if state is None:
        return [None] * len(sizes)
    split_tensors = (torch.split(tensor, sizes) for tensor in state)  # (L, B, H) -> (n, B, H) each
    return [(hidden.contiguous(), cell.contiguous()) for hidden, cell in zip(*split_tensors, strict=True)]
