"""Linear maps that a loop over decoder steps calls once per step.

One matrix product computes the weights' gradient over all steps.

With plain autograd, every step computes a product for the gradient of each weight and launches a kernel to add it. If
the weight is a slice of another weight, autograd launches further kernels for the slice. On a GPU, these launches
dominate the time of a decoder that loops over its steps, and not the arithmetic.

Legend: ``N`` rows, ``B`` sentences, ``I`` width in, ``O`` width out.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear


class LoopedLinear:
    """The map values @ weight.T + bias. Create it before a loop, and call it inside the loop any number of times.

    The weight has shape (O, I), or (B, O, I) with one weight for each sentence. The bias has shape (O,) or is ``None``.
    Every backward pass through the steps must also reach the weight. Otherwise, the values that it has collected would
    be added to the values of the next pass.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.inputs: list[Tensor] = []
        self.grads: list[Tensor] = []
        self.weight, self.bias = weight, bias
        self.collects = torch.is_grad_enabled() and weight.requires_grad
        if self.collects:
            weights: tuple[Tensor, Tensor | None] = _Weights.apply(weight, bias, self.inputs, self.grads)  # type: ignore[no-untyped-call]
            self.weight, self.bias = weights

    def __call__(self, values: Tensor) -> Tensor:
        """Map values (..., I) -> (..., O). With one weight for each sentence, map (B, N, I) -> (B, N, O)."""
        if not self.collects:
            return _map(values, self.weight, self.bias)
        result: Tensor = _Product.apply(values, self.weight, self.bias, self.inputs, self.grads)  # type: ignore[no-untyped-call]
        return result


def _map(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return linear(values, weight, bias) if weight.dim() == 2 else torch.bmm(values, weight.transpose(1, 2))


class _Weights(torch.autograd.Function):
    """The weight and the bias for all steps. Its backward runs after the backward of all steps.

    Its context only stores the lists of collected values.

    It does not refer to the ``LoopedLinear``, which stores the results of this function. That would be a cycle that
    Python cannot collect, and every batch would stay in memory.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], grads: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.inputs, ctx.grads, ctx.has_bias = inputs, grads, bias is not None
        device = weight.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        return weight.to(dtype).view_as(weight), None if bias is None else bias.to(dtype).view_as(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_none: None) -> tuple[Tensor | None, ...]:
        if not ctx.grads:
            return None, None, None, None
        inputs = torch.cat(ctx.inputs, dim=-2)  # (..., steps * N, I)
        grads = torch.cat(ctx.grads, dim=-2)  # (..., steps * N, O)
        ctx.inputs.clear()
        ctx.grads.clear()
        return grads.transpose(-1, -2) @ inputs, grads.sum(dim=0) if ctx.has_bias else None, None, None


class _Product(torch.autograd.Function):
    """The map at one step. ``_Weights`` computes the gradient of the weights."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], grads: list[Tensor]
    ) -> Tensor:
        values = values.to(weight.dtype)
        ctx.inputs, ctx.grads = inputs, grads
        ctx.save_for_backward(values, weight)
        return _map(values, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, weight = ctx.saved_tensors
        rows = (values, grad) if weight.dim() == 3 else (values.flatten(0, -2), grad.flatten(0, -2))
        ctx.inputs.append(rows[0])
        ctx.grads.append(rows[1])
        return grad @ weight if ctx.needs_input_grad[0] else None, None, None, None, None
