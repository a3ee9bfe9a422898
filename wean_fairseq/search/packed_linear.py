"""Linear maps whose weights are packed once for many products, in floating point or in 8-bit integers.

On a CPU, PyTorch multiplies float32 matrices with MKL, which rearranges the weights at every call and does not use all
instructions of some processors. oneDNN's product with prepacked weights, which PyTorch's own compiler uses, is two to
four times as fast on such machines. oneDNN's operators have no public names in PyTorch. Exact scores therefore fall
back to an ordinary product if these operators are missing. Products of integers have no fallback, because no other
operator is fast.

Legend: ``N`` rows, ``D`` inputs, ``V`` outputs.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

FEW_ROWS = 10  # up to this number of rows, MKL is faster if the weights are the left factor
LARGEST_CODE = 127  # largest code of a number that is rounded to an integer. The smallest code is its negative
ZERO_CODE = 128  # code of the input 0. Codes are shifted because oneDNN's fast kernels read unsigned inputs


class PackedLinear:
    """The map x -> x W^T + b, with W (V, D) and b (V,), for products with at most about ``rows`` rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int) -> None:
        self.packed = pack(weight, rows)
        self.weight = weight if self.packed is None else None  # the weights, possibly converted to another precision
        self.bias = bias
        self.dtype = weight.dtype

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map (N, D) -> (N, V), in float32 or in the dtype of the weights."""
        inputs = inputs.to(self.dtype)
        if self.weight is None:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
            return product
        if len(inputs) <= FEW_ROWS and inputs.device.type == "cpu" and self.weight.dtype == torch.float:
            product = torch.mm(self.weight, inputs.t()).t().contiguous()
            return product if self.bias is None else product.add_(self.bias)
        return linear(inputs, self.weight, self.bias)


class Int8Linear:
    """A ``PackedLinear`` that rounds every row of x and W to 255 steps between plus and minus its largest magnitude.

    If two rows have the steps s and t, the error of their product is at most (t |x|_1 + s |w|_1) / 2 + D s t / 4. Each
    row is rounded independently of the others. ``int8_is_exact`` checks whether the integer products of this machine
    are correct.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int) -> None:
        weight = weight.detach().float()
        step = _steps(weight)
        codes = (weight / step).round_().to(torch.int8)
        self.steps = step.squeeze(1)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.packed = torch.ops.onednn.qlinear_prepack(codes, [rows, weight.size(1)])
        self.bias = None if bias is None else bias.detach().float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map (N, D) -> (N, V), float32."""
        inputs = inputs.float()
        step = _steps(inputs)
        # The conversion to integers truncates, so 0.5 is added to round to the nearest code. A conversion via 16-bit
        # integers takes a third of the time of a direct conversion.
        codes = (inputs / step).add_(ZERO_CODE + 0.5).to(torch.int16).to(torch.uint8)
        weights = (self.packed, self.steps, self.zeros)
        # Arguments that describe the output, and operations that the kernel could fuse.
        output_arguments: tuple[Any, ...] = (1.0, 0, torch.float32, "none", [], "")
        product: Tensor = torch.ops.onednn.qlinear_pointwise(codes, 1.0, ZERO_CODE, *weights, None, *output_arguments)
        return product.mul_(step) if self.bias is None else torch.addcmul(self.bias, product, step, out=product)


def _steps(rows: Tensor) -> Tensor:
    """Return the rounding step of each row of a matrix (N, D), as (N, 1)."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(rows.dtype).tiny) / LARGEST_CODE


def pack(weight: Tensor, rows: int) -> Tensor | None:
    """Pack weights (V, D) for oneDNN products of about ``rows`` rows. Return ``None`` if this is not possible."""
    supported = weight.device.type == "cpu" and weight.dtype in (torch.float, torch.bfloat16)
    if not supported or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
        torch.ops.mkldnn._linear_pointwise(weight.new_zeros(1, weight.size(1)), packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return packed


@cache
def int8_is_exact() -> bool:
    """Return True if this PyTorch and this processor multiply the largest 8-bit integers without overflow."""
    rows, width, words = 3, 64, 33
    weight = torch.full((words, width), float(LARGEST_CODE), device="cpu")
    try:
        product = Int8Linear(weight, None, rows)(weight[:rows])
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.equal(product, torch.full_like(product, float(width * LARGEST_CODE**2)))
