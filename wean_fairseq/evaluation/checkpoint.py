"""Parameters of a trained model, read as everything here reads checkpoints: checked, and with torch's safe loader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.errors import EvaluationError

if TYPE_CHECKING:
    from torch import Tensor


def load_parameters(path: str) -> dict[str, Tensor]:
    """The parameters and buffers in a checkpoint of fairseq-train, or in a folder of wean-export, by name.

    Raises:
        EvaluationError: if the file cannot be read, is damaged or no checkpoint, or would run code.
    """
    from wean_fairseq.checkpoints.export import read_model

    try:
        parameters: dict[str, Tensor] = read_model(path)["model"]
    except UserError as error:
        raise EvaluationError(str(error)) from error
    return parameters
