"""The softmax's gradient on a GPU, as a Triton kernel; ``softmax_gradient`` has the equations.

One program a token goes through its scores twice: once for the largest score and the sum of exponentials, which each
lane keeps of its own columns, and once to write the gradient over them. Scores may be of 16 bits, and are read, summed
and normalised in float32: 6 bytes are moved for one of those, and 6 by the products before and after.

Legend: ``n`` tokens of a chunk, ``V`` candidates.
"""
# The kernel is written in Triton's dialect: without types, constants in capitals, every array an argument of its own.
# ruff: noqa: ANN001, ANN202, N803
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import torch
import triton
import triton.language as tl
from torch import Tensor

from .softmax_gradient import smooth

WIDTH, WARPS = 2048, 8  # columns read at a time, and by how many warps
LOWEST = tl.constexpr(-3e38)  # below every score; minus infinity has no difference from itself


@triton.jit
def _read(scores, bias, columns, real, BIAS: tl.constexpr):
    score = tl.load(scores + columns, mask=real, other=float("-inf")).to(tl.float32)
    if BIAS:
        score += tl.load(bias + columns, mask=real, other=0.0).to(tl.float32)
    return score


@triton.jit
def _softmax_gradient_kernel(
    scores,  # (n, V); overwritten
    bias,  # (V,)
    target,  # (n,)
    sums,  # (3, n): negative log-likelihood, log-sum-exp, sum of scores
    num_candidates,
    on_target,  # 1 - eps - eps_i
    on_all,  # eps_i
    scale,  # of the gradient
    BIAS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row, rows = tl.program_id(0), tl.num_programs(0)
    scores += tl.cast(row, tl.int64) * num_candidates
    wanted = tl.load(target + row)
    target_score = _read(scores, bias, wanted, True, BIAS)  # before any lane writes
    places = tl.arange(0, WIDTH)
    largest = tl.full((WIDTH,), LOWEST, tl.float32)
    exp_sum = tl.zeros((WIDTH,), tl.float32)
    score_sum = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, num_candidates, WIDTH):
        real = start + places < num_candidates
        score = _read(scores, bias, start + places, real, BIAS)
        higher = tl.maximum(largest, score)
        exp_sum = exp_sum * tl.exp(largest - higher) + tl.exp(score - higher)
        score_sum += tl.where(real, score, 0.0)
        largest = higher
    top = tl.max(largest, axis=0)
    total = tl.sum(exp_sum * tl.exp(largest - top), axis=0)
    for start in range(0, num_candidates, WIDTH):
        columns = start + places
        real = columns < num_candidates
        prob = tl.exp(_read(scores, bias, columns, real, BIAS) - top) / total
        gradient = prob - tl.where(columns == wanted, on_target, 0.0) - on_all
        tl.store(scores + columns, (gradient * scale).to(scores.dtype.element_ty), mask=real)
    tl.store(sums + row, tl.log(total) - (target_score - top))
    tl.store(sums + rows + row, top + tl.log(total))
    tl.store(sums + 2 * rows + row, tl.sum(score_sum, axis=0))


def softmax_gradient_(
    scores: Tensor, bias: Tensor | None, target: Tensor, eps: float, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """As that of ``softmax_gradient``, of scores without their bias (V,), in any dtype.

    The gradient is multiplied by ``scale`` before it is rounded to the scores' dtype.
    """
    num_tokens, num_candidates = scores.shape
    sums = scores.new_empty((3, num_tokens), dtype=torch.float32)
    eps_i = eps / (num_candidates - 1) if eps else 0.0
    if num_tokens:
        _softmax_gradient_kernel[num_tokens,](
            *(scores, scores if bias is None else bias, target, sums, num_candidates),
            *(1.0 - eps - eps_i, eps_i, scale),
            BIAS=bias is not None,
            WIDTH=WIDTH,
            num_warps=WARPS,
        )
    nll, lse, score_sum = sums
    return smooth(nll, lse, score_sum if eps else None, num_candidates, eps), nll.sum()
