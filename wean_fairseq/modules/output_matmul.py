"""The three matrix products of an output layer: scores, gradient of the queries, gradient of the candidates' rows.

These and those of the layers are most of a training step, so that it matters which library of PyTorch computes them. On
a CPU, PyTorch hands float32 products to MKL, which keeps to AVX2 on AMD processors. oneDNN, which is in PyTorch as
well, uses AVX-512 there.
The documented way to it is ``torch.backends.mkldnn.matmul.fp32_precision = "bf16"``, which allows oneDNN to round the
factors to bfloat16. It does so where that is faster, on processors with matrix instructions for bfloat16 (AMX, and
some of ARM), and computes in full float32 elsewhere. Which of the two it is, products of integers show, once a process.

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

from .softmax_gradient import loss_of_scores, softmax_gradient_

# Of the gradient at the scores in float16, whose largest number is 65,504 and whose smallest is 2^-24.
SCALE = 2.0**15
# Tokens, query width and candidates of the probe: a library may choose its kernel by the size of a product.
_PROBE_SIZES = (128, 256, 1024)
# Sums of eight odd numbers below 2^20: exact in float32 in any order, and wrong if a factor loses a digit.
_PROBE_TERMS = 8

_CPU = torch.device("cpu")
_ROUNDED = "bf16"  # value of fp32_precision that lets oneDNN round
# To what ``OutputProducts`` round the factors of products of float32 tensors.
_rounded: ContextVar[torch.dtype | None] = ContextVar("rounded", default=None)


def bf16_products(enabled: bool = True) -> AbstractContextManager[None]:
    """Within it, ``OutputProducts`` of float32 tensors round the factors of their products to bfloat16.

    Those are queries, candidates' rows, and the loss's gradient at the scores. A product comes out rounded as well, and
    is summed in float32 inside; softmax, loss, and the sums of gradients over chunks are float32. With u = 2^-8, a
    score is off by at most delta = 3.1 u sum_d |q_d w_d|, so that the negative log-likelihood of a token is off by at
    most 2 max(delta), and a probability by at most the factor exp(2 max(delta)), over the candidates.
    """
    return _rounded_to(torch.bfloat16 if enabled else None)


@contextmanager
def outside_autocast(device: torch.device) -> Iterator[None]:
    """Leave autocast, except that ``OutputProducts`` round the factors as it rounds those of other products.

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
    """Within it, oneDNN may round.

    The setting is the process's. It is put back when the last thread has left, unless other code has changed it
    meanwhile.
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
    """Within it, float32 matrix products on a CPU are oneDNN's, if those are exact; otherwise nothing changes.

    Whole training steps are computed within it, backward included.

    The setting is the process's: products of other threads go the same way meanwhile, and are as exact.
    """
    return _onednn if device.type == "cpu" and onednn_is_exact() else nullcontext()


@cache
def onednn_is_exact() -> bool:
    """Whether oneDNN computes float32 products, and computes them in full float32, on this machine.

    Where it rounds, products of other threads are rounded too while this runs, a fraction of a second.
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
    """Factors of integers in float64, laid out as those of the three products; each in turn has all the digits."""
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
    """Zeros and ones, of which each of the sums of ``terms`` terms meets ``_PROBE_TERMS`` ones."""
    row, column = _row_and_column_numbers(rows, columns)
    return ((row * 5 + column) % (terms // _PROBE_TERMS) == 0).double()


def _row_and_column_numbers(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Numbers of rows (rows, 1) and of columns (1, columns); on the CPU, whatever the default device is."""
    return torch.arange(rows, device="cpu").unsqueeze(1), torch.arange(columns, device="cpu").unsqueeze(0)


class OutputProducts:
    """The products for all chunks of tokens in turn, in memory that they share: each fresh page costs a page fault.

    Factors of 16 bits are multiplied as they are, and a GPU sums in float32. In float16 the loss's gradient at a score,
    which lies between -1 and 1, is multiplied by ``SCALE`` first and its products are divided by it: from 2^-29 on it
    is off by 2^-11 of itself, below by 2^-40.

    Args:
        query: shape (N, D).
        weight: candidates' rows, shape (V, D).
        bias: shape (V,), or ``None``.
        wanted: which of the three gradients to sum up.
        chunk: tokens of the largest chunk.
    """

    def __init__(self, query: Tensor, weight: Tensor, bias: Tensor | None, wanted: list[bool], chunk: int) -> None:
        rounded = _rounded.get() if query.dtype == torch.float32 else None
        self.dtype = rounded or query.dtype
        self.query, self.weight, self.bias = query.to(self.dtype), weight.to(self.dtype), bias
        self.scale = SCALE if self.dtype == torch.float16 else 1.0
        self._size = chunk, weight.size(0)
        make = torch.empty_like if query.size(0) else torch.zeros_like  # the first chunk sets them
        self._gradients = [
            make(tensor, dtype=torch.float32) if needed and tensor is not None else None
            for needed, tensor in zip(wanted, (query, weight, bias), strict=True)
        ]

    @cached_property
    def _held(self) -> Tensor:
        """Memory of scores in float32."""
        return self.query.new_empty(self._size, dtype=torch.float32)

    @cached_property
    def _low(self) -> Tensor:
        """Memory of scores in the products' dtype."""
        return self._held if self.dtype == torch.float32 else self.query.new_empty(self._size)

    def loss(self, rows: slice, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood, summed, of some tokens with targets (n,); adds their gradients if wanted.

        ``eps`` is that of ``softmax_gradient``.
        """
        if all(gradient is None for gradient in self._gradients):
            return loss_of_scores(self.scores(rows), target, eps)
        scores = self.scores(rows)
        sums = softmax_gradient_(scores, target, eps)
        self.add_gradients(rows, scores)
        return sums

    def gradients(self) -> list[Tensor | None]:
        """The gradients of ``query``, ``weight`` and ``bias`` in float32, ``None`` where not wanted."""
        return self._gradients

    def scores(self, rows: slice) -> Tensor:
        """Scores of some tokens: (n, V) in float32."""
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

        Call it for the tokens from 0 on first: their results overwrite the uninitialised memory.
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
    """``total += scale * left @ right`` with ``total`` in float32, or ``total = ...`` for the ``first`` one."""
    if left.dtype == total.dtype:
        total.addmm_(left, right, beta=0 if first else 1, alpha=scale)
    elif left.is_cuda:  # the only device whose products of 16 bits come out in float32
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
