"""The additive score on a GPU, as Triton kernels; ``additive_scores`` has the equations, and imports this if it can.

Two kernels, each over tiles of tokens and candidates, with a loop over the hidden units inside, so that a hidden unit
lives in a register and nowhere else:

* ``_scores_kernel`` writes the scores, if wanted, and streams what a softmax needs of them: with m the largest score
  so far and s the sum of exp(score - m), a new tile gives m' = max(m, largest of the tile) and
  s' = s exp(m - m') + sum of exp(score - m'). Programs that share a token leave an m and an s each, which are merged in
  the same way;
* ``_gradients_kernel`` makes the units again and sums up the gradients. Programs add to the same numbers atomically, so
  that the last digits may differ from run to run. Nothing is read by the order of these sums, so the atomics are
  relaxed: Triton's default puts a fence around each.

The scores of a chunk of tokens are kept between the two, (n x V), never the hidden units, (n x V x H). All matrices
with hidden units have those first, (H, n) and (H, V), so that neighbouring threads read neighbouring numbers.

Legend: ``N`` tokens, ``n`` tokens of a chunk, ``V`` candidates, ``H`` hidden width.
"""
# The kernels are written in Triton's dialect: without types, constants in capitals, every array an argument of its own.
# ruff: noqa: ANN001, ANN202, N803, PLR0913, PLR0917
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .additive_scores import AdditiveScorer
from .softmax_gradient import smooth

TOKENS, CANDIDATES = 32, 64  # of a tile
# Programs that share a tile of tokens: enough to fill a GPU when there are few tokens.
SPLITS = 64
WARPS = 4


# A division takes ten instructions there (sm_90) and is off by 2 units in the last place; NVIDIA's reciprocal takes one
# and is off by 1 (PTX ISA, div.full and rcp.approx). Results below the smallest normal number are 0, and tanh is 1.
DIVIDE = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1" or torch.version.hip is not None)


@triton.jit
def _reciprocal(values):
    if DIVIDE:
        result = 1.0 / values
    else:
        code: tl.constexpr = "rcp.approx.ftz.f32 $0, $1;"
        result = tl.inline_asm_elementwise(code, "=f,f", [values], dtype=tl.float32, is_pure=True, pack=1)
    return result


@triton.jit
def _unit(query, candidate, NARROW: tl.constexpr):
    """r = 1 / (1 + exp(2 (a + b))) of a tile, from A and B, or from a and b."""
    if NARROW:
        unit = _reciprocal(1.0 + query[:, None] * candidate[None, :])
    else:
        unit = tl.sigmoid(-2.0 * (query[:, None] + candidate[None, :]))
    return unit


@triton.jit
def _row(number, width):
    """Offset of a row of a matrix; more than 2^31 numbers are usual at a large width and vocabulary."""
    return tl.cast(number, tl.int64) * width


@triton.jit
def _scores_kernel(
    query,  # (H, n)
    candidates,  # (H, V)
    vector,  # (H,)
    vector_sum,  # (1,)
    target,  # (n,)
    scores,  # (n, V)
    partials,  # (4, splits, n): m, s, score of the target, sum of scores
    num_tokens,
    num_candidates,
    hidden,
    tiles,  # of candidates, for each program
    NARROW: tl.constexpr,
    STORE: tl.constexpr,
    TOKENS: tl.constexpr,
    CANDIDATES: tl.constexpr,
):
    rows = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    real_rows = rows < num_tokens
    wanted = tl.load(target + rows, mask=real_rows, other=-1)
    base = tl.load(vector_sum)
    largest = tl.full((TOKENS,), float("-inf"), tl.float32)
    exp_sum = tl.zeros((TOKENS,), tl.float32)
    target_score = tl.zeros((TOKENS,), tl.float32)
    score_sum = tl.zeros((TOKENS,), tl.float32)
    first = tl.program_id(1) * tiles
    last = tl.minimum(first + tiles, tl.cdiv(num_candidates, CANDIDATES))
    for tile in range(first, last):
        columns = tile * CANDIDATES + tl.arange(0, CANDIDATES)
        real_columns = columns < num_candidates
        score = tl.zeros((TOKENS, CANDIDATES), tl.float32)
        for unit in range(hidden):
            a = tl.load(query + _row(unit, num_tokens) + rows, mask=real_rows, other=0.0)
            b = tl.load(candidates + _row(unit, num_candidates) + columns, mask=real_columns, other=0.0)
            score += tl.load(vector + unit) * _unit(a, b, NARROW)
        score = base - 2.0 * score
        real = real_rows[:, None] & real_columns[None, :]
        if STORE:
            place = _row(rows[:, None], num_candidates) + columns[None, :]
            tl.store(scores + place, score, mask=real)
        masked = tl.where(real_columns[None, :], score, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(masked, axis=1))
        exp_sum = exp_sum * tl.exp(largest - new_largest) + tl.sum(tl.exp(masked - new_largest[:, None]), axis=1)
        largest = new_largest
        target_score += tl.sum(tl.where(columns[None, :] == wanted[:, None], score, 0.0), axis=1)
        score_sum += tl.sum(tl.where(real_columns[None, :], score, 0.0), axis=1)
    place = partials + tl.program_id(1) * num_tokens + rows
    step = tl.num_programs(1) * num_tokens
    tl.store(place, largest, mask=real_rows)
    tl.store(place + step, exp_sum, mask=real_rows)
    tl.store(place + 2 * step, target_score, mask=real_rows)
    tl.store(place + 3 * step, score_sum, mask=real_rows)


@triton.jit
def _gradients_kernel(
    query,  # (H, n)
    candidates,  # (H, V)
    scores,  # (n, V); without LOSS, the gradient at the scores
    lse,  # (n,)
    target,  # (n,)
    grad_query,  # (H, n), to be multiplied by 4 v
    grad_candidates,  # (H, V), to be multiplied by 4 v
    grad_vector,  # (programs, H)
    num_tokens,
    num_candidates,
    hidden,
    on_target,  # 1 - eps - eps_i
    on_all,  # eps_i
    LOSS: tl.constexpr,
    NARROW: tl.constexpr,
    TOKENS: tl.constexpr,
    CANDIDATES: tl.constexpr,
):
    rows = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    columns = tl.program_id(0) * CANDIDATES + tl.arange(0, CANDIDATES)
    real_rows, real_columns = rows < num_tokens, columns < num_candidates
    real = real_rows[:, None] & real_columns[None, :]
    place = _row(rows[:, None], num_candidates) + columns[None, :]
    upstream = tl.load(scores + place, mask=real, other=0.0)
    if LOSS:
        wanted = tl.load(target + rows, mask=real_rows, other=-1)
        row_lse = tl.load(lse + rows, mask=real_rows, other=0.0)
        upstream = tl.exp(upstream - row_lse[:, None]) - on_all
        upstream -= tl.where(columns[None, :] == wanted[:, None], on_target, 0.0)
        upstream = tl.where(real, upstream, 0.0)
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    for unit in range(hidden):
        query_row, candidate_row = _row(unit, num_tokens), _row(unit, num_candidates)
        a = tl.load(query + query_row + rows, mask=real_rows, other=0.0)
        b = tl.load(candidates + candidate_row + columns, mask=real_columns, other=0.0)
        centred = _unit(a, b, NARROW) - 0.5
        slope = upstream * (0.25 - centred * centred)
        tl.atomic_add(grad_query + query_row + rows, tl.sum(slope, axis=1), mask=real_rows, sem="relaxed")
        by_column = tl.sum(slope, axis=0)
        tl.atomic_add(grad_candidates + candidate_row + columns, by_column, mask=real_columns, sem="relaxed")
        tl.store(grad_vector + _row(program, hidden) + unit, -2.0 * tl.sum(tl.sum(upstream * centred, axis=1), axis=0))


class TritonScorer(AdditiveScorer):
    """``AdditiveScorer`` by the kernels above."""

    def __init__(self, query_part: Tensor, candidate_part: Tensor, vector: Tensor, wants_grad: bool) -> None:
        super().__init__(query_part, candidate_part, vector, wants_grad)
        self.vector_sum = self.vector.sum().view(1)

    def _lay_out(self, candidates: Tensor) -> Tensor:
        return candidates.t().contiguous()  # (H, V), and so are their gradients

    def loss(self, rows: slice, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """As the base class; without gradients not even the scores are written down."""
        scores, partials = self._stream(rows, target, store=bool(self.grads))
        lse, target_score, score_sum = merge(partials)
        nll = lse - target_score
        loss = smooth(nll, lse, score_sum if eps else None, self.candidates.size(1), eps)
        if self.grads:
            eps_i = eps / (self.candidates.size(1) - 1) if eps else 0.0
            self._add_gradients(rows, scores, lse, target, (1.0 - eps - eps_i, eps_i), of_loss=True)
        return loss, nll.sum()

    def scores(self, rows: slice) -> Tensor:
        """Scores of some tokens: (n, V)."""
        target = torch.full((self.query[rows].size(0),), -1, device=self.query.device)
        return self._stream(rows, target, store=True)[0]

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Add what these tokens' gradient at the scores, (n, V), gives to the three gradients."""
        nothing = self.vector  # lse and targets are not looked at
        self._add_gradients(rows, grad_scores.contiguous(), nothing, nothing, (0.0, 0.0), of_loss=False)

    def gradients(self) -> tuple[Tensor, ...]:
        """The gradients of query part, candidate part and vector; to be called once, after all tokens."""
        grad_query, grad_candidates, grad_vector = self.grads
        factor = 4.0 * self.vector
        return grad_query.mul_(factor), grad_candidates.t() * factor, grad_vector

    def _stream(self, rows: slice, target: Tensor, store: bool) -> tuple[Tensor, Tensor]:
        """Scores (n, V), or memory for one if they are not to be stored, and what ``merge`` takes."""
        query = self.query[rows].t().contiguous()  # (H, n)
        hidden, num_tokens = query.shape
        num_candidates = self.candidates.size(1)
        tiles = triton.cdiv(triton.cdiv(num_candidates, CANDIDATES), SPLITS)
        splits = triton.cdiv(triton.cdiv(num_candidates, CANDIDATES), tiles)
        scores = query.new_empty((num_tokens, num_candidates) if store else (1, 1))
        partials = query.new_empty((4, splits, num_tokens))
        if num_tokens:
            _scores_kernel[triton.cdiv(num_tokens, TOKENS), splits](
                *(query, self.candidates, self.vector, self.vector_sum, target, scores, partials),
                *(num_tokens, num_candidates, hidden, tiles),
                NARROW=self.narrow,
                STORE=store,
                TOKENS=TOKENS,
                CANDIDATES=CANDIDATES,
                num_warps=WARPS,
            )
        return scores, partials

    def _add_gradients(
        self, rows: slice, scores: Tensor, lse: Tensor, target: Tensor, weights: tuple[float, float], of_loss: bool
    ) -> None:
        query = self.query[rows].t().contiguous()  # (H, n)
        hidden, num_tokens = query.shape
        num_candidates = self.candidates.size(1)
        grid = triton.cdiv(num_candidates, CANDIDATES), triton.cdiv(num_tokens, TOKENS)
        grad_query = torch.zeros_like(query)
        grad_vector = query.new_empty((grid[0] * grid[1], hidden))
        if num_tokens:
            _gradients_kernel[grid](
                *(query, self.candidates, scores, lse, target, grad_query, self.grads[1], grad_vector),
                *(num_tokens, num_candidates, hidden, *weights),
                LOSS=of_loss,
                NARROW=self.narrow,
                TOKENS=TOKENS,
                CANDIDATES=CANDIDATES,
                num_warps=WARPS,
            )
        self.grads[0][rows] += grad_query.t()
        self.grads[2].add_(grad_vector.sum(dim=0))


def merge(partials: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp, score of the target and sum of scores of every token, each (n,), from those of splits (4, S, n)."""
    largest, exp_sum, target_score, score_sum = partials
    top = largest.amax(dim=0)
    total: Any = (exp_sum * (largest - top).exp()).sum(dim=0)
    return top + total.log(), target_score.sum(dim=0), score_sum.sum(dim=0)
