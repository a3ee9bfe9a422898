"""Programs that say what parts of the Triton kernels give; to be imported where Triton is."""
# In Triton's dialect.
# ruff: noqa: N803
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from wean_fairseq.modules.additive_kernel import _reciprocal, _row


@triton.jit
def offset(found, number, width):
    """The place where a row begins."""
    tl.store(found, _row(number, width))


@triton.jit
def reciprocals(values, WIDTH: tl.constexpr):
    """Those of all values, in their place."""
    places = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(values + places, _reciprocal(tl.load(values + places)))
