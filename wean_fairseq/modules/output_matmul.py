"""The three matrix products of an output layer: scores, gradient of the queries, gradient of the candidates' rows.

These products and the products of the layers take most of the time of a training step, so it matters which library of
PyTorch computes them. On a CPU, PyTorch uses MKL for float32 products, which is limited to AVX2 on AMD processors.
oneDNN, which is also part of PyTorch, uses AVX-512 there. The documented way to select it is
``torch.backends.mkldnn.matmul.fp32_precision = "bf16"``, which allows oneDNN to round the factors to bfloat16. oneDNN
does so if it is faster, on processors with matrix instructions for bfloat16 (AMX, and some of ARM), and computes in
full float32 on others. A probe with products of integers, once per process, shows whether it rounds.

Legend: ``N`` tokens, ``n`` tokens of a chunk, ``V`` candidates, ``D`` query width.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, cached_property
from threading import Lock
from typing import Any

import torch
from torch import Tensor

# Loss scale of the gradient at the scores in float16, whose largest number is 65,504 and whose smallest is 2^-24.
SCALE = 2.0**15
# Tokens, query width and candidates of the probe, because a library may choose its kernel by the size of a product.
_PROBE_SIZES = (128, 256, 1024)
# Sums of eight odd numbers below 2^20: exact in float32 in any order, and wrong if a factor loses a digit.
_PROBE_TERMS = 8

_CPU = torch.device("cpu")
_ROUNDED = "bf16"  # value of fp32_precision that lets oneDNN round
# The dtype to which ``OutputProducts`` round the factors of products of float32 tensors.
_rounded: ContextVar[torch.dtype | None] = ContextVar("rounded", default=None)


def bf16_products(enabled: bool = True) -> AbstractContextManager[None]:
    """Make ``OutputProducts`` of float32 tensors round the factors of their products to bfloat16 in this context.

    The factors are the queries, the candidates' rows, and the gradient of the loss with respect to the scores. A
    product is summed in float32 and its result is rounded to bfloat16. Softmax, loss, and the sums of gradients over
    chunks are float32. With u = 2^-8, the error of a score is at most delta = 3.1 u sum_d |q_d w_d|. The error of a
    token's negative log-likelihood is at most 2 max(delta), and a probability changes by at most the factor exp(2
    max(delta)), with the maximum over the candidates.
    """
    return _rounded_to(torch.bfloat16 if enabled else None)


@contextmanager
def outside_autocast(device: torch.device) -> Iterator[None]:
    """Leave autocast, but let ``OutputProducts`` round factors as autocast does in other products.

    On a CPU, float32 products are ``exact_products``.
    """
    within = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if within else _rounded.get()
    with _rounded_to(dtype), torch.autocast(device.type, enabled=False), exact_products(device):
        yield


@contextmanager
def _rounded_to(dtype: torch.dtype | None) -> Iterator[None]:
    token = _rounded.set(dtype)
    try:
        yield
    finally:
        _rounded.reset(token)


class _Onednn(AbstractContextManager[None]):
    """Context in which oneDNN may round.

    The setting is global to the process. It is restored when the last thread leaves, unless other code has changed it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = ""

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = _settings().fp32_precision
                _settings().fp32_precision = _ROUNDED
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and _settings().fp32_precision == _ROUNDED:
                _settings().fp32_precision = self._before


def _settings() -> Any:
    return torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


_onednn = _Onednn()


def exact_products(device: torch.device = _CPU) -> AbstractContextManager[None]:
    """Return a context in which float32 matrix products on a CPU use oneDNN if its products are exact.

    Whole training steps, including backward, run in this context.

    The setting is global to the process, so products of other threads also use oneDNN in this time. They are also
    exact.
    """
    return _onednn if device.type == "cpu" and onednn_is_exact() else nullcontext()


@cache
def onednn_is_exact() -> bool:
    """Return True if oneDNN is available on this machine and computes float32 products in full float32.

    If it rounds, products of other threads are also rounded while this check runs, for a fraction of a second.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    with _onednn, torch.autocast("cpu", enabled=False):
        return all(
            torch.equal(_float_product(left.float(), right.float()).double(), left @ right) for left, right in _probes()
        )


def _float_product(left: Tensor, right: Tensor) -> Tensor:
    return left @ right


def _probes() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield integer factors in float64 with the layouts of the three products.

    Each factor in turn has all the digits.
    """
    tokens, width, candidates = _PROBE_SIZES
    query, weight, grad_scores = (tokens, width), (candidates, width), (tokens, candidates)
    for make, other in ((_odd_integers, _sparse_ones), (_sparse_ones, _odd_integers)):
        yield make(*query, width), other(*weight, width).t()
        yield make(*grad_scores, candidates), other(*weight, candidates)
        yield make(*grad_scores, tokens).t(), other(*query, tokens)


def _odd_integers(rows: int, columns: int, _terms: int) -> Tensor:
    row, column = _row_and_column_numbers(rows, columns)
    return (2 * ((row * 7919 + column * 104_729) % 2**19) + 1).double()


def _sparse_ones(rows: int, columns: int, terms: int) -> Tensor:
    """Return zeros and ones, arranged so that each sum of ``terms`` terms contains ``_PROBE_TERMS`` ones."""
    row, column = _row_and_column_numbers(rows, columns)
    return ((row * 5 + column) % (terms // _PROBE_TERMS) == 0).double()


def _row_and_column_numbers(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return numbers of rows (rows, 1) and columns (1, columns) on the CPU, independent of the default device."""
    return torch.arange(rows, device="cpu").unsqueeze(1), torch.arange(columns, device="cpu").unsqueeze(0)


class OutputProducts:
    """The products of all chunks of tokens, one after the other.

    The chunks share memory, because each fresh page costs a page fault. 16-bit factors are multiplied without
    conversion, and a GPU sums in float32. In float16 the loss's gradient at a score, which is between -1 and 1, is
    multiplied by ``SCALE`` first and its products are divided by it. Its error is 2^-11 of its value from 2^-29 on, and
    2^-40 below.

    Args:
        query: shape (N, D).
        weight: candidates' rows, shape (V, D).
        bias: shape (V,), or ``None``.
        wanted: which of the three gradients to sum.
        chunk: maximum number of tokens in a chunk.
    """

    def __init__(self, query: Tensor, weight: Tensor, bias: Tensor | None, wanted: list[bool], chunk: int) -> None:
        rounded = _rounded.get() if query.dtype == torch.float32 else None
        self.dtype = rounded or query.dtype
        self.query, self.weight, self.bias = query.to(self.dtype), weight.to(self.dtype), bias
        self.scale = SCALE if self.dtype == torch.float16 else 1.0
        self._size = chunk, weight.size(0)
        make = torch.empty_like if query.size(0) else torch.zeros_like  # the first chunk overwrites them
        self._gradients = [
            make(tensor, dtype=torch.float32) if needed and tensor is not None else None
            for needed, tensor in zip(wanted, (query, weight, bias), strict=True)
        ]

    @cached_property
    def _held(self) -> Tensor:
        """Memory for scores in float32."""
        return self.query.new_empty(self._size, dtype=torch.float32)

    @cached_property
    def _low(self) -> Tensor:
        """Memory for scores in the products' dtype."""
        return self._held if self.dtype == torch.float32 else self.query.new_empty(self._size)

    def gradients(self) -> list[Tensor | None]:
        """Return the gradients of ``query``, ``weight`` and ``bias`` in float32, and ``None`` if not required."""
        return self._gradients

    def scores(self, rows: slice) -> Tensor:
        """Return the scores of some tokens: (n, V) in float32."""
        product = self._product(rows)
        scores = product if self._low is self._held else self._held[: product.size(0)].copy_(product)
        if self.bias is not None:
            scores += self.bias
        return scores

    def _product(self, rows: slice) -> Tensor:
        query = self.query[rows]
        return torch.mm(query, self.weight.t(), out=self._low[: query.size(0)])

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Backpropagate the float32 gradient at these tokens' scores, (n, V), and add the results.

        The first call must be for the tokens from 0 on, because it overwrites the uninitialised memory.
        """
        first = rows.start == 0
        factor, unscaled = grad_scores, 1.0 / self.scale
        if factor.dtype != self.dtype:
            factor = torch.mul(grad_scores, self.scale, out=self._low[: len(grad_scores)])
        grad_query, grad_weight, grad_bias = self._gradients
        if grad_query is not None:
            _add_product_(grad_query[rows], factor, self.weight, unscaled, True)
        if grad_weight is not None:
            _add_product_(grad_weight, factor.t(), self.query[rows], unscaled, first)
        if grad_bias is not None:
            _add_(grad_bias, grad_scores.sum(dim=0), 1.0, first)


def _add_product_(total: Tensor, left: Tensor, right: Tensor, scale: float, first: bool) -> None:
    """Compute ``total += scale * left @ right`` in float32, or ``total = ...`` for the ``first`` product."""
    if left.dtype == total.dtype:
        total.addmm_(left, right, beta=0 if first else 1, alpha=scale)
    elif left.is_cuda:  # the only device with float32 results of 16-bit products
        _add_(total, torch.mm(left, right, out_dtype=total.dtype), scale, first)
    elif left.dtype == torch.float16:  # sums of scaled factors would overflow
        total.addmm_(left.float(), right.float(), beta=0 if first else 1, alpha=scale)
    else:
        _add_(total, left @ right, scale, first)


def _add_(total: Tensor, summand: Tensor, scale: float, first: bool) -> None:
    if first:
        torch.mul(summand, scale, out=total)
    else:
        total.add_(summand, alpha=scale)
