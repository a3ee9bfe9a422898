"""Parameters of a trained model, read with torch's safe loader."""

import pickle

import torch
from torch import Tensor

from wean_fairseq.evaluation.errors import EvaluationError


def load_parameters(path: str) -> dict[str, Tensor]:
    """The parameters and buffers in a checkpoint of fairseq-train, by name; none if it holds something else.

    Raises:
        EvaluationError: if the file cannot be read, or is no checkpoint.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise EvaluationError(f"cannot read {path}: {error.strerror}.") from error
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise EvaluationError(f"{path} is not a checkpoint that can be read: it may be cut off.") from error
    parameters: dict[str, Tensor] = content.get("model", {}) if isinstance(content, dict) else {}
    return parameters
