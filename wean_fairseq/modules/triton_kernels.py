"""The way to the Triton kernels of this package, each module of which has a form in PyTorch beside it."""

from functools import cache
from importlib import import_module
from typing import Any

from torch import Tensor


def kernels_for(tensor: Tensor, name: str) -> Any:
    """The module of kernels ``name``; ``None`` where this tensor is on no GPU, or Triton is not installed."""
    return load(name) if tensor.is_cuda else None


@cache
def load(name: str) -> Any:
    """The module of kernels ``name``, or ``None`` where Triton is not installed."""
    try:
        return import_module(f".{name}", __package__)
    except ImportError:
        return None
