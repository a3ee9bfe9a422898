"""Where Triton's kernels are tested: on a GPU, or on any Linux through Triton's interpreter (``make test-kernels``)."""

import os
from importlib import import_module
from types import ModuleType

import pytest
import torch

# What makes Triton interpret its kernels; who sets it wants no test of them left out.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def module(name: str) -> ModuleType:
    """A module of kernels; skips the test where they do not run, and fails it without Triton if interpreted."""
    if not INTERPRETED:
        pytest.importorskip("triton", reason="Triton is not installed: `make test-kernels` tests its kernels")
        if DEVICE == "cpu":
            pytest.skip("no GPU: `make test-kernels` tests Triton's kernels through its interpreter")
    return import_module(f"wean_fairseq.modules.{name}")
