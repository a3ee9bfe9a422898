"""The additive score on a GPU, as Triton kernels; ``additive_scores`` has the equations, and imports this if it can.

Two kernels with a loop inside, so that a hidden unit lives in a register and nowhere else:

* ``_scores_kernel`` has a lane for each candidate of a tile and goes over the hidden units. It writes the scores, if
  wanted, and streams what a softmax needs of them: with m the largest score so far and s the sum of exp(score - m), a
  new tile gives m' = max(m, largest of the tile) and s' = s exp(m - m') + sum of exp(score - m'). Programs that share a
  token leave an m and an s each, which are merged in the same way. Its factors have the hidden units first, (H, n) and
  (H, V), so that neighbouring lanes read neighbouring numbers, and whole tiles, so that its loop needs no masks;
* ``_gradients_kernel`` has a lane for each hidden unit and goes over tokens. It makes the units again and sums up the
  gradients, each lane by itself, since it has all candidates of a tile. Programs add to the same numbers atomically, so
  that the last digits may differ from run to run. Nothing is read by the order of these sums, so the atomics are
  relaxed: Triton's default puts a fence around each.

The scores of a chunk of tokens are kept between the two, (n x V), never the hidden units, (n x V x H). The
instructions of both loops are counted in ``benchmarks/results/gpu_kernels.json``.

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
from torch.nn.functional import pad

from .additive_scores import AdditiveScorer
from .softmax_gradient import smooth
from .softmax_kernel import softmax_gradient_

TOKENS, CANDIDATES = 32, 128  # of a tile of scores
# Programs that share a tile of tokens: enough to fill a GPU when there are few tokens.
SPLITS = 64
# Hidden units and candidates of a tile of gradients, and the tokens that it goes through.
UNITS, FEW_CANDIDATES, MANY_TOKENS = 128, 32, 128
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
        unit = _reciprocal(1.0 + query * candidate)
    else:
        unit = tl.sigmoid(-2.0 * (query + candidate))
    return unit


@triton.jit
def _row(number, width):
    """Offset of a row of a matrix; more than 2^31 numbers are usual at a large width and vocabulary."""
    return tl.cast(number, tl.int64) * width


@triton.jit
def _scores_kernel(
    query,  # (H, n or more: whole tiles)
    candidates,  # (H, V or more: whole tiles)
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
    all_tiles = tl.cdiv(num_candidates, CANDIDATES)
    query_width, candidate_width = tl.cdiv(num_tokens, TOKENS) * TOKENS, all_tiles * CANDIDATES
    first = tl.program_id(1) * tiles
    last = tl.minimum(first + tiles, all_tiles)
    for tile in range(first, last):
        columns = tile * CANDIDATES + tl.arange(0, CANDIDATES)
        real_columns = columns < num_candidates
        score = tl.zeros((TOKENS, CANDIDATES), tl.float32)
        for unit in range(hidden):
            a = tl.load(query + _row(unit, query_width) + rows)
            b = tl.load(candidates + _row(unit, candidate_width) + columns)
            score += tl.load(vector + unit) * _unit(a[:, None], b[None, :], NARROW)
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
    query,  # (n, H)
    candidates,  # (V, H)
    grad_scores,  # (n, V)
    grad_query,  # (n, H), to be multiplied by 4 v
    grad_candidates,  # (V, H), to be multiplied by 4 v
    grad_vector,  # (programs that share a unit, H)
    num_tokens,
    num_candidates,
    hidden,
    NARROW: tl.constexpr,
    TOKENS: tl.constexpr,
    CANDIDATES: tl.constexpr,
    UNITS: tl.constexpr,
):
    columns = tl.program_id(0) * CANDIDATES + tl.arange(0, CANDIDATES)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    real_columns, real_units = columns < num_candidates, units < hidden
    real = real_columns[:, None] & real_units[None, :]
    place = _row(columns[:, None], hidden) + units[None, :]
    b = tl.load(candidates + place, mask=real, other=0.0)
    by_candidate = tl.zeros((CANDIDATES, UNITS), tl.float32)
    by_unit = tl.zeros((CANDIDATES, UNITS), tl.float32)
    first = tl.program_id(2) * TOKENS
    for token in range(first, tl.minimum(first + TOKENS, num_tokens)):
        query_row = _row(token, hidden)
        a = tl.load(query + query_row + units, mask=real_units, other=0.0)
        upstream = tl.load(grad_scores + _row(token, num_candidates) + columns, mask=real_columns, other=0.0)
        centred = _unit(a[None, :], b, NARROW) - 0.5
        slope = upstream[:, None] * (0.25 - centred * centred)
        by_candidate += slope
        by_unit += upstream[:, None] * centred
        tl.atomic_add(grad_query + query_row + units, tl.sum(slope, axis=0), mask=real_units, sem="relaxed")
    tl.atomic_add(grad_candidates + place, by_candidate, mask=real, sem="relaxed")
    program = tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)
    tl.store(grad_vector + _row(program, hidden) + units, -2.0 * tl.sum(by_unit, axis=0), mask=real_units)


class TritonScorer(AdditiveScorer):
    """``AdditiveScorer`` by the kernels above."""

    def __init__(self, query_part: Tensor, candidate_part: Tensor, vector: Tensor, wants_grad: bool) -> None:
        super().__init__(query_part.contiguous(), candidate_part.contiguous(), vector, wants_grad)
        self.vector_sum = self.vector.sum().view(1)

    def _set_candidates(self, candidates: Tensor) -> None:
        super()._set_candidates(candidates)
        self.columns = _whole_tiles(candidates, CANDIDATES)

    def loss(self, rows: slice, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """As the base class; without gradients not even the scores are written down."""
        if self.grads:
            scores = self.scores(rows)
            sums = softmax_gradient_(scores, None, target, eps)
            self.add_gradients(rows, scores)
            return sums
        lse, target_score, score_sum = merge(self._stream(rows, target, store=False)[1])
        nll = lse - target_score
        return smooth(nll, lse, score_sum if eps else None, self.candidates.size(0), eps), nll.sum()

    def scores(self, rows: slice) -> Tensor:
        """Scores of some tokens: (n, V)."""
        target = torch.full((self.query[rows].size(0),), -1, device=self.query.device)
        return self._stream(rows, target, store=True)[0]

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Add what these tokens' gradient at the scores, (n, V), gives to the three gradients."""
        grad_query, grad_candidates, grad_vector = self.grads
        num_tokens, num_candidates = grad_scores.shape
        hidden = self.vector.numel()
        tiles = triton.cdiv(num_candidates, FEW_CANDIDATES), triton.cdiv(num_tokens, MANY_TOKENS)
        by_program = grad_vector.new_empty((tiles[0] * tiles[1], hidden))
        if num_tokens:
            _gradients_kernel[tiles[0], triton.cdiv(hidden, UNITS), tiles[1]](
                *(self.query[rows], self.candidates, grad_scores.contiguous(), grad_query[rows], grad_candidates),
                *(by_program, num_tokens, num_candidates, hidden),
                NARROW=self.narrow,
                TOKENS=MANY_TOKENS,
                CANDIDATES=FEW_CANDIDATES,
                UNITS=UNITS,
                num_warps=WARPS,
            )
        grad_vector.add_(by_program.sum(dim=0))

    def _stream(self, rows: slice, target: Tensor, store: bool) -> tuple[Tensor, Tensor]:
        """Scores (n, V), or memory for one if they are not to be stored, and what ``merge`` takes."""
        query = self.query[rows]
        num_tokens, hidden = query.shape
        num_candidates = self.candidates.size(0)
        tiles = triton.cdiv(triton.cdiv(num_candidates, CANDIDATES), SPLITS)
        splits = triton.cdiv(triton.cdiv(num_candidates, CANDIDATES), tiles)
        scores = query.new_empty((num_tokens, num_candidates) if store else (1, 1))
        partials = query.new_empty((4, splits, num_tokens))
        if num_tokens:
            _scores_kernel[triton.cdiv(num_tokens, TOKENS), splits](
                *(_whole_tiles(query, TOKENS), self.columns, self.vector, self.vector_sum, target, scores, partials),
                *(num_tokens, num_candidates, hidden, tiles),
                NARROW=self.narrow,
                STORE=store,
                TOKENS=TOKENS,
                CANDIDATES=CANDIDATES,
                num_warps=WARPS,
            )
        return scores, partials


def _whole_tiles(rows: Tensor, tile: int) -> Tensor:
    """Rows (n, H) as columns, with zeros up to a whole number of tiles: (H, n or more)."""
    return pad(rows, (0, 0, 0, -len(rows) % tile)).t().contiguous()


def merge(partials: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp, score of the target and sum of scores of every token, each (n,), from those of splits (4, S, n)."""
    largest, exp_sum, target_score, score_sum = partials
    top = largest.amax(dim=0)
    total: Any = (exp_sum * (largest - top).exp()).sum(dim=0)
    return top + total.log(), target_score.sum(dim=0), score_sum.sum(dim=0)
