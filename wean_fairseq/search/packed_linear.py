"""A linear map whose weights are laid out once for many products, and one whose factors are 8-bit integers.

On a CPU, PyTorch multiplies float32 matrices with MKL, which rearranges the weights at every call, and which does not
use all that some makers' processors have. oneDNN's product with weights laid out beforehand, as PyTorch's own compiler
uses it, is between two and four times as fast on such a machine. Its operators have no public name, so that exact
scores go on without them; products of integers, which nothing else here computes fast, do not.

Legend: ``N`` rows, ``D`` inputs, ``V`` outputs.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

FEW_ROWS = 10  # up to so many, MKL is faster with the weights on the left of the product
LARGEST_CODE = 127  # of factors rounded to integers, which are as many below 0
ZERO_CODE = 128  # stands for 0 among inputs: oneDNN's fast kernels take them without a sign


class PackedLinear:
    """x -> x W^T + b, from W (V, D) and b (V,), for about ``rows`` rows of a product at the most."""

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int) -> None:
        self.packed = pack(weight, rows)
        self.weight = weight if self.packed is None else None  # which may be a copy in another precision
        self.bias = bias
        self.dtype = weight.dtype

    def __call__(self, inputs: Tensor) -> Tensor:
        """(N, D) -> (N, V), float32 or as the weights."""
        inputs = inputs.to(self.dtype)
        if self.weight is None:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
            return product
        if len(inputs) <= FEW_ROWS and inputs.device.type == "cpu" and self.weight.dtype == torch.float:
            product = torch.mm(self.weight, inputs.t()).t().contiguous()
            return product if self.bias is None else product.add_(self.bias)
        return linear(inputs, self.weight, self.bias)


class Int8Linear:
    """``PackedLinear`` with every row of x and of W rounded to 255 steps, from its largest number down to its negative.

    With the steps s and t of two such rows, their product is off by at most (t |x|_1 + s |w|_1) / 2 + D s t / 4. A row
    is rounded by itself, whatever is in the others. See ``int8_is_exact``.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int) -> None:
        weight = weight.float()
        step = _steps(weight)
        codes = (weight / step).round_().to(torch.int8)
        self.steps = step.squeeze(1)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.packed = torch.ops.onednn.qlinear_prepack(codes, [rows, weight.size(1)])
        self.bias = None if bias is None else bias.float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """(N, D) -> (N, V), float32."""
        inputs = inputs.float()
        step = _steps(inputs)
        codes = (inputs / step).add_(ZERO_CODE + 0.5).to(torch.uint8)  # which drops what is behind the point
        weights = (self.packed, self.steps, self.zeros)
        # Of the output, and of what might follow in the same kernel.
        last: tuple[Any, ...] = (1.0, 0, torch.float32, "none", [], "")
        product: Tensor = torch.ops.onednn.qlinear_pointwise(codes, 1.0, ZERO_CODE, *weights, None, *last)
        product.mul_(step)
        return product if self.bias is None else product.add_(self.bias)


def _steps(rows: Tensor) -> Tensor:
    """The step to which each row of numbers (N, D) is rounded, (N, 1)."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(rows.dtype).tiny) / LARGEST_CODE


def pack(weight: Tensor, rows: int) -> Tensor | None:
    """Weights (V, D) as oneDNN wants them for products of so many rows; ``None`` where that cannot be done."""
    known = weight.device.type == "cpu" and weight.dtype in (torch.float, torch.bfloat16)
    if not known or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
        torch.ops.mkldnn._linear_pointwise(weight.new_zeros(1, weight.size(1)), packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return packed


@cache
def int8_is_exact() -> bool:
    """Whether this PyTorch and this processor multiply 8-bit integers without overflow: the largest ones show it."""
    rows, width, words = 3, 64, 33
    weight = torch.full((words, width), float(LARGEST_CODE), device="cpu")
    try:
        product = Int8Linear(weight, None, rows)(weight[:rows])
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.equal(product, torch.full_like(product, float(width * LARGEST_CODE**2)))
