"""A linear map whose weights are laid out once for many products, where PyTorch can do that.

On a CPU, PyTorch multiplies float32 matrices with MKL, which rearranges the weights at every call, and which does not
use all that some makers' processors have. oneDNN's product with weights laid out beforehand, as PyTorch's own compiler
uses it, is between two and four times as fast on such a machine. Its operators have no public name, so that everything
here goes on without them.

Legend: ``N`` rows, ``D`` inputs, ``V`` outputs.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

FEW_ROWS = 10  # up to so many, MKL is faster with the weights on the left of the product


class PackedLinear:
    """x -> x W^T + b.

    Args:
        weight: W, (V, D).
        bias: b, (V,).
        rows: about the most rows of a product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, rows: int) -> None:
        self.packed = pack(weight, rows)
        self.weight = weight if self.packed is None else None  # which may be a copy in another precision
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """(N, D) -> (N, V), float32 or as the weights."""
        if self.weight is None:
            product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
            return product
        if len(inputs) <= FEW_ROWS and inputs.device.type == "cpu" and self.weight.dtype == torch.float:
            product = torch.mm(self.weight, inputs.t()).t().contiguous()
            return product if self.bias is None else product.add_(self.bias)
        return linear(inputs, self.weight, self.bias)


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
