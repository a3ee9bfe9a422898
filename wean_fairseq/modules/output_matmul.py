"""The three matrix products of an output layer: scores, gradient of the queries, gradient of the candidates' rows.

These products and the products of the layers take most of the time of a training step. Therefore it matters which
library PyTorch uses for them. On a CPU, PyTorch uses MKL for float32 products. On AMD processors, MKL is limited to
AVX2, while oneDNN, which is also part of PyTorch, uses AVX-512. The documented way to select oneDNN is
``torch.backends.mkldnn.matmul.fp32_precision = "bf16"``, which also allows it to round the factors to bfloat16. oneDNN
rounds if this is faster, on processors with matrix instructions for bfloat16 (AMX, and some of ARM), and computes in
full float32 on others. Once per process, a probe with products of integers shows whether it rounds.

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

# Factor for the gradient at the scores in float16, whose largest number is 65,504 and whose smallest is 2^-24.
SCALE = 2.0**15
# Numbers of tokens, query width and candidates in the probe. A library may choose its kernel by the size of a product.
_PROBE_SIZES = (128, 256, 1024)
# Number of summands, which are odd numbers below 2^20. The sum is exact in float32 in any order, and wrong if a factor
# loses a digit.
_PROBE_TERMS = 8

_CPU = torch.device("cpu")
_ROUNDED = "bf16"  # value of fp32_precision that allows oneDNN to round
# Dtype to which ``OutputProducts`` rounds the factors in products of float32 tensors.
_rounded: ContextVar[torch.dtype | None] = ContextVar("rounded", default=None)


def bf16_products(enabled: bool = True) -> AbstractContextManager[None]:
    """In this context, ``OutputProducts`` rounds the factors in products of float32 tensors to bfloat16.

    The factors are the queries, the rows of the candidates, and the gradient of the loss with respect to the scores. A
    product is summed in float32 and its result is rounded to bfloat16. The softmax, the loss, and the sums of gradients
    over chunks are float32. With u = 2^-8, the error of a score is at most delta = 3.1 u sum_d |q_d w_d|. The error of
    a token's negative log-likelihood is at most 2 max(delta), and a probability changes by at most the factor exp(2
    max(delta)), where the maximum is over the candidates.
    """
    return _rounded_to(torch.bfloat16 if enabled else None)


@contextmanager
def outside_autocast(device: torch.device) -> Iterator[None]:
    """Leave autocast, but let ``OutputProducts`` round factors as autocast would round them.

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
    """A context in which oneDNN may round.

    The setting is global to the process. It is restored when the last thread leaves the context, unless other code has
    changed it in the meantime.
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

    The setting is global to the process, so products of other threads use oneDNN, too, as long as the context is
    active. Those products are also exact.
    """
    return _onednn if device.type == "cpu" and onednn_is_exact() else nullcontext()


@cache
def onednn_is_exact() -> bool:
    """Return True if oneDNN is available on this machine and computes float32 products in full float32.

    If oneDNN rounds, the products of other threads are rounded, too, while this check runs, because the setting is
    global. It takes a fraction of a second.
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
    """Yield integer factors in float64, in the layouts of the three products.

    In half of the pairs the first factor has all the digits, and in the others the second one.
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
    """Return row numbers (rows, 1) and column numbers (1, columns) on the CPU, whatever the default device is."""
    return torch.arange(rows, device="cpu").unsqueeze(1), torch.arange(columns, device="cpu").unsqueeze(0)


class OutputProducts:
    """The products for all chunks of tokens, which are processed one after the other.

    All chunks use the same memory, because each new page of memory costs a page fault. 16-bit factors are multiplied
    without conversion, and a GPU sums in float32. In float16, the gradient of the loss at a score, which is between -1
    and 1, is first multiplied by ``SCALE``, and its products are divided by ``SCALE``. The error of the gradient is
    2^-11 of its value from 2^-29 on, and 2^-40 below.

    Args:
        query: shape (N, D).
        weight: rows of the candidate words, shape (V, D).
        bias: shape (V,), or ``None``.
        wanted: which of the three gradients are summed.
        chunk: maximum number of tokens in a chunk.
    """

    def __init__(self, query: Tensor, weight: Tensor, bias: Tensor | None, wanted: list[bool], chunk: int) -> None:
        rounded = _rounded.get() if query.dtype == torch.float32 else None
        self.dtype = rounded or query.dtype
        self.query, self.weight, self.bias = query.to(self.dtype), weight.to(self.dtype), bias
        self.scale = SCALE if self.dtype == torch.float16 else 1.0
        self._size = chunk, weight.size(0)
        make = torch.empty_like if query.size(0) else torch.zeros_like  # the first chunk overwrites the memory
        self._gradients = [
            make(tensor, dtype=torch.float32) if needed and tensor is not None else None
            for needed, tensor in zip(wanted, (query, weight, bias), strict=True)
        ]

    @cached_property
    def _held(self) -> Tensor:
        """Memory for the scores in float32."""
        return self.query.new_empty(self._size, dtype=torch.float32)

    @cached_property
    def _low(self) -> Tensor:
        """Memory for the scores in the dtype of the products."""
        return self._held if self.dtype == torch.float32 else self.query.new_empty(self._size)

    def gradients(self) -> list[Tensor | None]:
        """Return the gradients of ``query``, ``weight`` and ``bias`` in float32, or ``None`` for those not required."""
        return self._gradients

    def scores(self, rows: slice) -> Tensor:
        """Return the scores (n, V) of some tokens, in float32."""
        product = self._product(rows)
        scores = product if self._low is self._held else self._held[: product.size(0)].copy_(product)
        if self.bias is not None:
            scores += self.bias
        return scores

    def _product(self, rows: slice) -> Tensor:
        query = self.query[rows]
        return torch.mm(query, self.weight.t(), out=self._low[: query.size(0)])

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Backpropagate the float32 gradient (n, V) at these tokens' scores, and add the results to the gradients.

        The first call must be for the tokens from 0 on, because it overwrites uninitialised memory.
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
    elif left.is_cuda:  # only a GPU can return float32 results for 16-bit factors
        _add_(total, torch.mm(left, right, out_dtype=total.dtype), scale, first)
    elif left.dtype == torch.float16:  # sums of scaled factors would overflow in float16
        total.addmm_(left.float(), right.float(), beta=0 if first else 1, alpha=scale)
    else:
        _add_(total, left @ right, scale, first)


def _add_(total: Tensor, summand: Tensor, scale: float, first: bool) -> None:
    if first:
        torch.mul(summand, scale, out=total)
    else:
        total.add_(summand, alpha=scale)
