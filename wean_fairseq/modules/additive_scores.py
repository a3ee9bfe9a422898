"""Additive scores of queries against a large vocabulary: s = v . tanh(a + b) (WEAN, NAACL 2018, eq. 5, concat).

There are tokens x candidates x H hidden units, each with its own tanh. They are made block by block, and made again for
the gradients; no more than a block is ever held. With A = exp(2a) and B = exp(2b), which are computed once,

    r = 1 / (1 + A B),    tanh(a + b) = 1 - 2 r,    s = sum_h v_h - 2 sum_h v_h r_h,

so that a unit costs a product, a sum and a reciprocal, a small part of the time of a tanh. It is off by some roundings
of 1, about 1e-7; only the gradient of v would need more digits, and only where nearly every a + b is below 0.01. A B
stays inside float32 while |a| and |b| are at most 20; beyond, r is computed as the sigmoid of -2 (a + b). The slope of
s is v_h (1 - tanh^2) = 4 v_h (1/4 - c^2) with c = r - 1/2.

Legend: ``N`` tokens, ``n`` tokens of a chunk, ``V`` candidates, ``H`` hidden width.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .softmax_gradient import loss_of_scores, softmax_gradient_

# Hidden units held at a time: 4 MiB of float32 stay in a CPU's cache; a GPU wants large operations.
BLOCK_UNITS = {"cpu": 2**20, "cuda": 2**26}
# Tokens of a block on a CPU: enough to sum over, few enough to leave room for many candidates.
BLOCK_ROWS = 16
# exp(2 (20 + 20)) is 5.5e34, below the largest number of float32.
LARGEST_PART = 20.0


def additive_scores(query_part: Tensor, candidate_part: Tensor, vector: Tensor) -> Tensor:
    """Scores ``vector . tanh(query_part + candidate_part)``: (N, H), (V, H), (H,) -> (N, V).

    Under autograd the hidden units are made again in backward instead of kept.
    """
    with torch.autocast(query_part.device.type, enabled=False):
        scores: Tensor = _AdditiveScores.apply(query_part, candidate_part, vector)  # type: ignore[no-untyped-call]
    return scores


class AdditiveScorer:
    """Scores of any of the tokens, and the sums of their gradients, in float32.

    Args:
        query_part: projected queries, a in the module docstring, (N, H).
        candidate_part: projected candidates, b, (V, H).
        vector: v, (H,).
        wants_grad: make room for gradients.
    """

    def __init__(self, query_part: Tensor, candidate_part: Tensor, vector: Tensor, wants_grad: bool) -> None:
        self.vector = vector.float()
        self.candidate_part = candidate_part
        self.small_candidates = _is_narrow(candidate_part)
        self.narrow: bool | None = None  # whether A and B are held, or a and b as they are
        self.set_queries(query_part)
        self.grads = (
            tuple(torch.zeros_like(tensor) for tensor in (self.query, self.candidates, self.vector))
            if wants_grad
            else ()
        )

    def set_queries(self, query_part: Tensor) -> None:
        """Score other queries (N, H) from now on; what depends on the candidates alone is not computed again.

        For a scorer without gradients, whose candidates and vector do not change meanwhile.
        """
        query = query_part.float()
        narrow = self.small_candidates and _is_narrow(query)
        if narrow != self.narrow:
            self.narrow = narrow
            self._set_candidates(_factor(self.candidate_part.float(), narrow))
        self.query = _factor(query, narrow)

    def _set_candidates(self, candidates: Tensor) -> None:
        self.candidates = candidates

    def loss(self, rows: slice, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood, summed, of some tokens with targets (n,); adds their gradients if wanted.

        ``eps`` is that of ``softmax_gradient``.
        """
        scores = self.scores(rows)  # (n, V)
        if not self.grads:
            return loss_of_scores(scores, target, eps)
        sums = softmax_gradient_(scores, target, eps)
        self.add_gradients(rows, scores)
        return sums

    def scores(self, rows: slice) -> Tensor:
        """Scores of some tokens: (n, V)."""
        query = self.query[rows]
        scores = query.new_empty(query.size(0), self.candidates.size(0))
        weights = -2.0 * self.vector
        for part, columns in self._blocks(query.size(0)):
            units = self._units(query[part], columns)  # (m, v, H)
            scores[part, columns] = units @ weights
        return scores.add_(self.vector.sum())

    def add_gradients(self, rows: slice, grad_scores: Tensor) -> None:
        """Add what these tokens' gradient at the scores, (n, V), gives to the three gradients."""
        query = self.query[rows]
        grad_query, grad_candidates, grad_vector = self.grads
        quarter = query.new_full((), 0.25)
        for part, columns in self._blocks(query.size(0)):
            upstream = grad_scores[part, columns]  # (m, v)
            centred = self._units(query[part], columns).sub_(0.5)  # (m, v, H), -tanh / 2
            grad_vector -= 2.0 * (upstream.reshape(1, -1) @ centred.flatten(0, 1)).squeeze(0)
            slope = torch.addcmul(quarter, centred, centred, value=-1.0, out=centred).mul_(upstream.unsqueeze(-1))
            grad_query[rows][part] += slope.sum(dim=1)
            grad_candidates[columns] += slope.sum(dim=0)

    def gradients(self) -> tuple[Tensor, ...]:
        """The gradients of query part, candidate part and vector, if wanted; to be called once, after all tokens."""
        if not self.grads:
            return ()
        grad_query, grad_candidates, grad_vector = self.grads
        factor = 4.0 * self.vector
        return grad_query.mul_(factor), grad_candidates.mul_(factor), grad_vector

    def _units(self, query: Tensor, columns: slice) -> Tensor:
        """r of the module docstring for every query (m, H) and some candidates: (m, v, H)."""
        candidates = self.candidates[columns]
        if self.narrow:
            return torch.addcmul(query.new_ones(()), query.unsqueeze(1), candidates).reciprocal_()
        return query.unsqueeze(1).add(candidates).mul_(-2.0).sigmoid_()

    def _blocks(self, num_rows: int) -> Iterator[tuple[slice, slice]]:
        """Tokens and candidates of each block; together they are all ``num_rows`` tokens and all candidates."""
        device = self.query.device.type
        height = max(1, min(num_rows, BLOCK_ROWS) if device == "cpu" else num_rows)
        width = max(1, BLOCK_UNITS.get(device, BLOCK_UNITS["cuda"]) // (height * max(1, self.vector.numel())))
        for start in range(0, self.candidates.size(0), width):
            for row in range(0, num_rows, height):
                yield slice(row, row + height), slice(start, start + width)


def _is_narrow(part: Tensor) -> bool:
    """Whether the product A B of this part with another small one stays inside float32."""
    return not part.numel() or bool(part.abs().amax() <= LARGEST_PART)


def _factor(part: Tensor, narrow: bool) -> Tensor:
    """exp(2 part), or the part as it is where a product might leave float32."""
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
        with torch.autocast(grad_scores.device.type, enabled=False):  # backward may be called inside it
            scorer = AdditiveScorer(*inputs, True)
            scorer.add_gradients(slice(None), grad_scores.float())
        return tuple(grad.to(tensor.dtype) for grad, tensor in zip(scorer.gradients(), inputs, strict=True))
