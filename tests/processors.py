"""Detect the abilities of this machine's processor.

Not all processors have the instructions that PyTorch's kernels need.
"""

from functools import cache

import pytest
import torch

from wean_fairseq.search.packed_linear import int8_is_exact


@cache
def has_bf16_lstm() -> bool:
    """Return True if oneDNN has a bfloat16 LSTM on this machine.

    The bfloat16 LSTM needs AVX-512 or newer (try ``ONEDNN_MAX_CPU_ISA=AVX2``).
    """
    lstm = torch.nn.LSTM(4, 4)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            lstm(torch.zeros(2, 1, 4))
    except RuntimeError:
        return False
    return True


def needs_bf16_lstm() -> None:
    """Skip a test, with a reason, if autocast cannot run an LSTM on this machine."""
    if not has_bf16_lstm():
        pytest.skip("this processor has no LSTM in bfloat16 (oneDNN needs AVX-512), so autocast cannot be tried")


def needs_int8() -> None:
    """Skip a test, with a reason, if PyTorch does not multiply 8-bit integers exactly on this machine."""
    if not int8_is_exact():
        pytest.skip("no exact products of 8-bit integers on this machine")
