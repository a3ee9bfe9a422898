"""The bridge from the final LSTM states of an encoder to a decoder, whose number of layers may differ.

Legend: ``B`` batch, ``L`` encoder layers, ``D`` decoder layers, ``H`` hidden width.
"""

import torch
from torch import Tensor, nn

BRIDGES = ("bottom", "top", "linear")


class StateBridge(nn.Module):
    """Map the encoder's final (h, c) of ``L`` layers to the initial (h, c) of ``D`` decoder layers.

    ``bottom`` uses the first D layers (as in all code released by the WEAN authors), ``top`` uses the last D layers,
    and ``linear`` uses a learned projection of all L layers concatenated.

    Args:
        kind: one of ``BRIDGES``.
        encoder_layers: ``L``.
        decoder_layers: ``D``. At most ``L`` unless ``kind`` is ``linear``.
        hidden_size: ``H``.

    Raises:
        ValueError: if ``kind`` selects layers that the encoder does not have.
    """

    def __init__(self, kind: str, encoder_layers: int, decoder_layers: int, hidden_size: int) -> None:
        super().__init__()
        if kind != "linear" and decoder_layers > encoder_layers:
            raise ValueError(
                f"bridge {kind!r} needs no fewer encoder layers than decoder layers, but there are "
                f"{encoder_layers} and {decoder_layers}: use the bridge 'linear'."
            )
        self.kind = kind
        self.decoder_layers = decoder_layers
        if kind == "linear":
            self.hidden_proj = nn.Linear(encoder_layers * hidden_size, decoder_layers * hidden_size)
            self.cell_proj = nn.Linear(encoder_layers * hidden_size, decoder_layers * hidden_size)

    def forward(self, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decoder's initial (h, c) (D, B, H), given the encoder's final (h, c) (L, B, H)."""
        if self.kind == "bottom":
            return hidden[: self.decoder_layers].contiguous(), cell[: self.decoder_layers].contiguous()
        if self.kind == "top":
            return hidden[-self.decoder_layers :].contiguous(), cell[-self.decoder_layers :].contiguous()
        return self._project(self.hidden_proj, hidden), self._project(self.cell_proj, cell)

    def _project(self, proj: nn.Linear, state: Tensor) -> Tensor:
        batch = state.size(1)
        flat = torch.cat(tuple(state), dim=-1)  # (B, L * H)
        projected: Tensor = proj(flat)  # (B, D * H)
        return projected.view(batch, self.decoder_layers, -1).transpose(0, 1).contiguous()  # (D, B, H)
