"""Additive scores of queries against a large vocabulary: s = v . tanh(a + b) (WEAN, NAACL 2018, eq. 5, concat).

There are tokens x candidates x H hidden units, and each has a different tanh. They are computed block by block, and
recomputed in the backward pass, so that at most one block is in memory. A = exp(2a) and B = exp(2b) are computed once.
Then

    r = 1 / (1 + A B),    tanh(a + b) = 1 - 2 r,    s = sum_h v_h - 2 sum_h v_h r_h,

so that each unit costs a product, a sum and a reciprocal. These take a small fraction of the time of a tanh. The error
is a few rounding errors of 1, about 1e-7. Only the gradient of v would need more digits, and only if nearly all a + b
are below 0.01. A B fits into float32 as long as |a| and |b| are at most 20. For larger values, r is computed as the
sigmoid of -2 (a + b). The slope of s is v_h (1 - tanh^2) = 4 v_h (1/4 - c^2) with c = r - 1/2.

Legend: ``N`` tokens, ``n`` tokens of a chunk, ``V`` candidates, ``H`` hidden width.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Maximum number of hidden units in memory at a time. 4 MiB of float32 fit in the cache of a CPU. A GPU needs large
# operations.
BLOCK_UNITS = {"cpu": 2**20, "cuda": 2**26}
# Tokens per block on a CPU. This is enough for an efficient sum, and leaves room for many candidates.
BLOCK_ROWS = 16
# exp(2 (20 + 20)) is 5.5e34, which is below the largest number of float32.
LARGEST_PART = 20.0


def additive_scores(query_part: Tensor, candidate_part: Tensor, vector: Tensor) -> Tensor:
    """Return the scores ``vector . tanh(query_part + candidate_part)``: (N, H), (V, H), (H,) -> (N, V).

    With autograd, the backward pass recomputes the hidden units, so that they need not be stored.
    """
    with torch.autocast(query_part.device.type, enabled=False):
        scores: Tensor = _AdditiveScores.apply(query_part, candidate_part, vector)  # type: ignore[no-untyped-call]
    return scores


class AdditiveScorer:
    """Computes scores for any subset of the tokens, and sums of their gradients, in float32.

    Args:
        query_part: projected queries (a in the module docstring), (N, H).
        candidate_part: projected candidates (b), (V, H).
        vector: the vector v, (H,).
        wants_grad: allocate memory for gradients.
    """

    def __init__(self, query_part: Tensor, candidate_part: Tensor, vector: Tensor, wants_grad: bool) -> None:
        self.vector = vector.float()
        self.candidate_part = candidate_part
        self.small_candidates = _is_narrow(candidate_part)
        self.narrow: bool | None = None  # True if A and B are stored, False if a and b are stored
        self.set_queries(query_part)
        self.grads = (
            tuple(torch.zeros_like(tensor) for tensor in (self.query, self.candidates, self.vector))
            if wants_grad
            else ()
        )

    def set_queries(self, query_part: Tensor) -> None:
        """Score other queries (N, H) from now on. Terms that depend only on the candidates are kept.

        Use this only for a scorer without gradients, whose candidates and vector have not changed.
        """
        query = query_part.float()
        # The fast formula needs both |a| and |b| to be small. A new query may change the formula. The candidates are
        # converted again only in that case.
        narrow = self.small_candidates and _is_narrow(query)
        if narrow != self.narrow:
            self.narrow = narrow
            self.candidates = _factor(self.candidate_part.float(), narrow)
        self.query = _factor(query, narrow)

    def scores(self, rows: slice) -> Tensor:
        """Return the scores (n, V) of some tokens."""
        query = self.query[rows]
        scores = query.new_empty(query.size(0), self.candidates.size(0))
        weights = -2.0 * self.vector
        # s = sum_h v_h - 2 sum_h v_h r_h. Each block of hidden units is reduced to its scores before the next block is
        # computed.
        for block, columns in self._blocks(query.size(0)):
            units = self._units(query[block], columns)  # (m, v, H)
            scores[block, columns] = units @ weights
        return scores.add_(self.vector.sum())

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Backpropagate the gradient (n, V) at these tokens' scores, and add the results to the three gradients."""
        query = self.query[rows]
        grad_query, grad_candidates, grad_vector = self.grads
        quarter = query.new_full((), 0.25)
        # The units of each block are recomputed. All three gradients are read from c = r - 1/2 = -tanh / 2, which
        # overwrites the units. The constant factor 4 v_h of the slope is applied once, in ``gradients``.
        for block, columns in self._blocks(query.size(0)):
            upstream = grad_scores[block, columns]  # (m, v)
            centred = self._units(query[block], columns).sub_(0.5)  # (m, v, H), -tanh / 2
            grad_vector -= 2.0 * (upstream.reshape(1, -1) @ centred.flatten(0, 1)).squeeze(0)
            slope = torch.addcmul(quarter, centred, centred, value=-1.0, out=centred).mul_(upstream.unsqueeze(-1))
            grad_query[rows][block] += slope.sum(dim=1)
            grad_candidates[columns] += slope.sum(dim=0)

    def gradients(self) -> tuple[Tensor, ...]:
        """Return the gradients of query part, candidate part and vector, or an empty tuple if there are none.

        Call this once, after all tokens.
        """
        if not self.grads:
            return ()
        grad_query, grad_candidates, grad_vector = self.grads
        factor = 4.0 * self.vector
        return grad_query.mul_(factor), grad_candidates.mul_(factor), grad_vector

    def _units(self, query: Tensor, columns: slice) -> Tensor:
        """Return r of the module docstring for every query (m, H) and some of the candidates: (m, v, H)."""
        candidates = self.candidates[columns]
        if self.narrow:
            return torch.addcmul(query.new_ones(()), query.unsqueeze(1), candidates).reciprocal_()
        return query.unsqueeze(1).add(candidates).mul_(-2.0).sigmoid_()

    def _blocks(self, num_rows: int) -> Iterator[tuple[slice, slice]]:
        """Yield the tokens and candidates of each block.

        The blocks cover all ``num_rows`` tokens and all candidates.
        """
        device = self.query.device.type
        # On a CPU, a block contains a few tokens, and as many candidates as fit into the cache. On a GPU, it contains
        # all tokens.
        height = max(1, min(num_rows, BLOCK_ROWS) if device == "cpu" else num_rows)
        width = max(1, BLOCK_UNITS.get(device, BLOCK_UNITS["cuda"]) // (height * max(1, self.vector.numel())))
        for start in range(0, self.candidates.size(0), width):
            for row in range(0, num_rows, height):
                yield slice(row, row + height), slice(start, start + width)


def _is_narrow(projected: Tensor) -> bool:
    """Return True if the product A B of this part and another small part fits into float32."""
    return not projected.numel() or bool(projected.abs().amax() <= LARGEST_PART)


def _factor(part: Tensor, narrow: bool) -> Tensor:
    """Return exp(2 part), or the part itself if a product might exceed float32."""
    return (2.0 * part).exp_() if narrow else part


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_part: Tensor, candidate_part: Tensor, vector: Tensor) -> Tensor:
        ctx.save_for_backward(query_part, candidate_part, vector)
        return AdditiveScorer(query_part, candidate_part, vector, False).scores(slice(None)).to(query_part.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_scores: Tensor) -> tuple[Tensor, ...]:
        inputs: tuple[Tensor, Tensor, Tensor] = ctx.saved_tensors
        with torch.autocast(grad_scores.device.type, enabled=False):  # backward may be called inside autocast
            scorer = AdditiveScorer(*inputs, True)
            scorer.add_gradients(slice(None), grad_scores.float())
        return tuple(grad.to(tensor.dtype) for grad, tensor in zip(scorer.gradients(), inputs, strict=True))
