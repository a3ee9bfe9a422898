"""Exact softmax cross entropy over a large vocabulary without the (tokens x vocabulary) matrix.

The loss walks over chunks of tokens. Where gradients are wanted, each chunk's share of them is computed while its
scores are at hand (for a sum over tokens the upstream gradient is one scalar, applied in backward), so that nothing of
size tokens x vocabulary outlives its chunk and no score is computed twice. ``additive_cross_entropy`` recomputes the
hidden layer of its scores block by block in the same way.

Label smoothing follows fairseq's ``label_smoothed_cross_entropy``: with V candidates and eps_i = eps / (V - 1),
loss = (1 - eps - eps_i) * nll - eps_i * sum_j log p_j, whose gradient with respect to score j is
p_j - (1 - eps - eps_i) * [j is the target] - eps_i.

Legend: ``N`` tokens (padding already removed), ``V`` candidates, ``D`` query width, ``H`` hidden width of the scorer.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

# Scores held at a time, in elements: 64 MiB of float32.
CHUNK_ELEMENTS = 2**24
# Elements of the (tokens x candidates x H) block that the additive score holds at a time: 16 MiB of float32.
BLOCK_ELEMENTS = 2**22
# Below this probability -log(p) is taken from the scores: p loses digits near float32's smallest number.
TINY_PROBABILITY = 1e-30


class LossSums(NamedTuple):
    """Sums over tokens, natural logarithm, float32 scalars; ``nll_loss`` carries no gradient."""

    loss: Tensor
    nll_loss: Tensor


def chunk_rows(num_rows: int, num_candidates: int, chunk_size: int | None) -> int:
    """Rows per chunk: ``chunk_size`` or what ``CHUNK_ELEMENTS`` allows, evened out so that the last is not a stub."""
    most = chunk_size or max(64, CHUNK_ELEMENTS // max(1, num_candidates))
    chunks = max(1, -(-num_rows // most))
    return max(1, -(-num_rows // chunks))


def product_cross_entropy(
    query: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    label_smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSums:
    """Cross entropy of scores that are one matrix product: ``query @ weight.T + bias``.

    Args:
        query: shape (N, D).
        weight: candidate rows, shape (V, D).
        bias: shape (V,), or ``None``.
        target: candidate index of every token, shape (N,).
        label_smoothing: eps of the module docstring.
        chunk_size: tokens per chunk; ``None`` chooses by memory.

    Returns:
        The smoothed loss and the negative log-likelihood, summed over tokens.
    """
    return _loss_sums(_ProductCrossEntropy, (query, weight, bias), target, label_smoothing, chunk_size)


def additive_cross_entropy(
    query_part: Tensor,
    candidate_part: Tensor,
    vector: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSums:
    """Cross entropy of additive scores: ``vector . tanh(query_part + candidate_part)``.

    Args:
        query_part: projected queries, shape (N, H).
        candidate_part: projected candidates, shape (V, H).
        vector: shape (H,).
        target: candidate index of every token, shape (N,).
        label_smoothing: eps of the module docstring.
        chunk_size: tokens per chunk; ``None`` chooses by memory.

    Returns:
        The smoothed loss and the negative log-likelihood, summed over tokens.
    """
    inputs = (query_part, candidate_part, vector)
    return _loss_sums(_AdditiveCrossEntropy, inputs, target, label_smoothing, chunk_size)


def _loss_sums(
    function: type[torch.autograd.Function],
    inputs: tuple[Tensor | None, ...],
    target: Tensor,
    label_smoothing: float,
    chunk_size: int | None,
) -> LossSums:
    """Run one of the two losses outside autocast; whether gradients are wanted cannot be seen any more inside it."""
    wants_grad = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
    with torch.autocast(target.device.type, enabled=False):
        loss, nll = function.apply(  # type: ignore[no-untyped-call]
            *inputs, target, label_smoothing, chunk_size, wants_grad
        )
    return LossSums(loss, nll)


def additive_scores(query_part: Tensor, candidate_part: Tensor, vector: Tensor) -> Tensor:
    """Scores ``vector . tanh(query_part + candidate_part)``, by blocks of candidates: (N, H), (V, H), (H,) -> (N, V).

    Under autograd the hidden layer of each block is recomputed in backward instead of kept.
    """
    blocks = []
    for columns in _candidate_blocks(query_part, candidate_part):
        inputs = (query_part, candidate_part[columns], vector)
        if torch.is_grad_enabled():
            blocks.append(checkpoint(_additive_block, *inputs, use_reentrant=False))
        else:
            blocks.append(_additive_block(*inputs))
    return torch.cat(blocks, dim=1)


def _additive_block(query_part: Tensor, candidate_part: Tensor, vector: Tensor) -> Tensor:
    return torch.tanh(query_part.unsqueeze(1) + candidate_part) @ vector  # (N, v, H) @ (H,) -> (N, v)


def _candidate_blocks(query_part: Tensor, candidate_part: Tensor) -> Iterator[slice]:
    """Slices of the candidates whose hidden layer for all of these queries fits ``BLOCK_ELEMENTS``."""
    width = max(1, BLOCK_ELEMENTS // max(1, query_part.numel()))
    for start in range(0, candidate_part.size(0), width):
        yield slice(start, start + width)


def _row_chunks(num_rows: int, num_candidates: int, chunk_size: int | None) -> Iterator[slice]:
    step = chunk_rows(num_rows, num_candidates, chunk_size)
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def _loss_of_scores(scores: Tensor, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Loss and nll sums of one chunk of float32 scores (n, V); no gradient."""
    lse = torch.logsumexp(scores, dim=1)
    nll = lse - scores.gather(1, target.unsqueeze(1)).squeeze(1)
    return _smooth(nll, lse, scores.sum(dim=1) if eps else None, scores.size(1), eps), nll.sum()


def _smooth(nll: Tensor, lse: Tensor, score_sum: Tensor | None, num_candidates: int, eps: float) -> Tensor:
    """Smoothed loss from per-token terms: -sum_j log p_j = V * lse - sum_j score_j."""
    if score_sum is None:
        return nll.sum()
    eps_i = eps / (num_candidates - 1)
    return (1.0 - eps - eps_i) * nll.sum() + eps_i * (num_candidates * lse - score_sum).sum()


def _softmax_gradient_(scores: Tensor, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Overwrite one chunk of float32 scores (n, V) with the loss's gradient; return the loss and nll sums."""
    num_candidates = scores.size(1)
    column = target.unsqueeze(1)
    target_score = scores.gather(1, column).squeeze(1)
    score_sum = scores.sum(dim=1) if eps else None
    row_max = scores.amax(dim=1)
    torch.softmax(scores, dim=1, out=scores)
    target_prob = scores.gather(1, column).squeeze(1)
    # The largest probability is exp(max - lse), never tiny: it gives the log-sum-exp without a second pass.
    lse = row_max - scores.amax(dim=1).log()
    nll = torch.where(target_prob > TINY_PROBABILITY, -target_prob.log(), lse - target_score)
    eps_i = eps / (num_candidates - 1) if eps else 0.0
    scores.scatter_(1, column, (target_prob - (1.0 - eps - eps_i)).unsqueeze(1))
    if eps:
        scores.sub_(eps_i)
    return _smooth(nll, lse, score_sum, num_candidates, eps), nll.sum()


class _ProductCrossEntropy(torch.autograd.Function):
    """``product_cross_entropy``; the gradients are made in forward and scaled in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        eps: float,
        chunk_size: int | None,
        wants_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        loss = query.new_zeros((), dtype=torch.float32)
        nll = query.new_zeros((), dtype=torch.float32)
        score_weight = weight.to(query.dtype)
        # float16 products of gradients would underflow; bfloat16 has float32's range and stays as it is.
        grad_dtype = torch.float32 if query.dtype == torch.float16 else query.dtype
        wanted = [wants_grad and needed for needed in ctx.needs_input_grad[:3]]
        grad_weight_rows = weight.to(grad_dtype) if wanted[0] else weight
        grad_query = torch.empty_like(query, dtype=torch.float32) if wanted[0] else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if wanted[1] else None
        grad_bias = torch.zeros_like(bias, dtype=torch.float32) if wanted[2] and bias is not None else None
        buffer = None
        for rows in _row_chunks(query.size(0), weight.size(0), chunk_size):
            scores = buffer = _product_scores(query[rows], score_weight, bias, buffer)  # (n, V)
            if not wants_grad:
                chunk_loss, chunk_nll = _loss_of_scores(scores, target[rows], eps)
            else:
                chunk_loss, chunk_nll = _softmax_gradient_(scores, target[rows], eps)
                grad_scores = scores.to(grad_dtype)
                if grad_query is not None:
                    grad_query[rows] = grad_scores @ grad_weight_rows
                if grad_weight is not None:
                    _add_product_(grad_weight, grad_scores.t(), query[rows].to(grad_dtype))
                if grad_bias is not None:
                    grad_bias += scores.sum(dim=0)
            loss += chunk_loss
            nll += chunk_nll
        ctx.grads = (grad_query, grad_weight, grad_bias)
        ctx.dtypes = (query.dtype, weight.dtype, None if bias is None else bias.dtype)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grad_loss), None, None, None, None)


class _AdditiveCrossEntropy(torch.autograd.Function):
    """``additive_cross_entropy``; the hidden layer is recomputed, never kept."""

    @staticmethod
    def forward(
        ctx: Any,
        query_part: Tensor,
        candidate_part: Tensor,
        vector: Tensor,
        target: Tensor,
        eps: float,
        chunk_size: int | None,
        wants_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        loss = query_part.new_zeros((), dtype=torch.float32)
        nll = query_part.new_zeros((), dtype=torch.float32)
        query, candidates, vec = query_part.float(), candidate_part.float(), vector.float()
        grads = tuple(torch.zeros_like(tensor) for tensor in (query, candidates, vec)) if wants_grad else None
        for rows in _row_chunks(query.size(0), candidates.size(0), chunk_size):
            scores = additive_scores(query[rows], candidates, vec)  # (n, V)
            if grads is None:
                chunk_loss, chunk_nll = _loss_of_scores(scores, target[rows], eps)
            else:
                chunk_loss, chunk_nll = _softmax_gradient_(scores, target[rows], eps)
                _add_additive_gradients_(grads, rows, scores, query[rows], candidates, vec)
            loss += chunk_loss
            nll += chunk_nll
        ctx.grads = grads if grads is not None else (None, None, None)
        ctx.dtypes = (query_part.dtype, candidate_part.dtype, vector.dtype)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled_gradients(ctx, grad_loss), None, None, None, None)


def _product_scores(query: Tensor, weight: Tensor, bias: Tensor | None, buffer: Tensor | None) -> Tensor:
    """Scores (n, V) float32, in the memory of ``buffer`` if given: fresh memory costs a page fault each 4 KiB."""
    if buffer is None:
        scores = (query @ weight.t()).float()
    elif query.dtype == buffer.dtype:
        scores = torch.mm(query, weight.t(), out=buffer[: query.size(0)])
    else:
        scores = buffer[: query.size(0)].copy_(query @ weight.t())
    if bias is not None:
        scores += bias
    return scores


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total += left @ right`` with ``total`` in float32, in place where the dtypes allow it."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _add_additive_gradients_(
    grads: tuple[Tensor, ...],
    rows: slice,
    grad_scores: Tensor,
    query: Tensor,
    candidates: Tensor,
    vector: Tensor,
) -> None:
    """Add one chunk's gradients: with h = tanh(a + b), d score / d a = d score / d b = v * (1 - h^2)."""
    grad_query, grad_candidates, grad_vector = grads
    for columns in _candidate_blocks(query, candidates):
        hidden = torch.tanh(query.unsqueeze(1) + candidates[columns])  # (n, v, H)
        upstream = grad_scores[:, columns]  # (n, v)
        grad_vector += torch.einsum("nv,nvh->h", upstream, hidden)
        slope = hidden.square_().neg_().add_(1.0).mul_(upstream.unsqueeze(-1))  # (n, v, H)
        grad_query[rows] += slope.sum(dim=1) * vector
        grad_candidates[columns] += slope.sum(dim=0) * vector


def _scaled_gradients(ctx: Any, grad_loss: Tensor) -> list[Tensor | None]:
    """Multiply the stored gradients by the upstream scalar, in float32, then give them their parameter's dtype."""
    if ctx.grads is None:
        raise RuntimeError("The chunked loss supports one backward pass; run forward again for a second one.")
    grads, ctx.grads = ctx.grads, None
    return [
        None if grad is None else grad.mul_(grad_loss).to(dtype) for grad, dtype in zip(grads, ctx.dtypes, strict=True)
    ]
