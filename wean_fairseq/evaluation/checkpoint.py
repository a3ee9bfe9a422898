"""Parameters of a trained model, read as everything here reads checkpoints: checked, and with torch's safe loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def load_parameters(path: str) -> dict[str, Tensor]:
    """The parameters and buffers in a checkpoint of fairseq-train, or in a folder of wean-export, by name.

    Raises:
        UserError: if the file cannot be read, is damaged or no checkpoint, or would run code.
    """
    from ..checkpoints.export import read_model

    parameters: dict[str, Tensor] = read_model(path)["model"]
    return parameters
