"""Exact softmax cross entropy over a large vocabulary without the (tokens x vocabulary) matrix.

The loss walks over chunks of tokens. Where gradients are wanted, each chunk's share of them is computed while its
scores are at hand (for a sum over tokens the upstream gradient is one scalar, applied in backward), so that nothing of
size tokens x vocabulary outlives its chunk and no score is computed twice. What happens to the scores of a chunk is in
``softmax_gradient``; where scores come from, in ``output_matmul`` and ``additive_scores``.

Legend: ``N`` tokens (padding already removed), ``V`` candidates, ``D`` query width, ``H`` hidden width of the scorer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .additive_scores import AdditiveScorer
from .output_matmul import OutputProducts, outside_autocast

# Scores held at a time, in elements. On a CPU 48 MiB of float32: at V = 50,000 and 1,344 tokens twice as many added 40
# to 80 MiB to the peak of a training step and saved no time, and fewer saved no memory. On a GPU 512 MiB: each chunk
# costs the launches of its kernels there. Not measured there.
CHUNK_ELEMENTS = {"cpu": 3 * 2**22, "cuda": 2**27}


# A loss's sums, (k,), of which the first is minimised, and the gradients of its inputs, from which of them are wanted.
Computation = Callable[[list[bool]], tuple[Tensor, Sequence[Tensor | None]]]


class LossSums(NamedTuple):
    """Sums over tokens, natural logarithm, float32 scalars; a gradient goes through the first alone."""

    loss: Tensor  # the minimised sum, auxiliary losses included
    nll_loss: Tensor  # negative log-likelihood alone
    logged: dict[str, Tensor]  # more to be logged by name, such as ``copied``: expected copied words


def chunk_rows(num_rows: int, num_candidates: int, chunk_size: int | None, device: torch.device) -> int:
    """Rows per chunk: ``chunk_size`` or what ``CHUNK_ELEMENTS`` allows, evened out so that the last is not a stub."""
    elements = CHUNK_ELEMENTS.get(device.type, CHUNK_ELEMENTS["cpu"])
    most = chunk_size or max(64, elements // max(1, num_candidates))
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
        label_smoothing: eps of ``softmax_gradient``.
        chunk_size: tokens per chunk; ``None`` chooses by memory.

    Returns:
        The smoothed loss and the negative log-likelihood, summed over tokens.
    """
    factors = query, weight, bias
    return _cross_entropy(partial(OutputProducts, *factors), factors, target, label_smoothing, chunk_size)


def additive_cross_entropy(
    query_part: Tensor,
    candidate_part: Tensor,
    vector: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSums:
    """``product_cross_entropy`` of additive scores: ``vector . tanh(query_part + candidate_part)``.

    Args:
        query_part: projected queries, shape (N, H).
        candidate_part: projected candidates, shape (V, H).
        vector: shape (H,).
    """
    factors = query_part, candidate_part, vector
    return _cross_entropy(
        lambda wanted, _chunk: AdditiveScorer(*factors, any(wanted)), factors, target, label_smoothing, chunk_size
    )


class Readings(NamedTuple):
    """The scores of tokens as far as a loss reads them, float32."""

    log_sum: Tensor  # log of the summed exponentials, (n,)
    picked: Tensor  # scores of some words, (n, M)
    total: Tensor | None  # the sum, (n,), where it is asked for


# Sums over tokens, of which the first is minimised and the others carry no gradient, from readings and what else there
# is of each token.
TokenLoss = Callable[..., Tensor]


def read_scores(scores: Tensor, words: Tensor, totals: bool) -> Readings:
    """The readings of scores (n, V) that picks words (n, M)."""
    total = scores.sum(dim=1) if totals else None
    return Readings(torch.logsumexp(scores, dim=1), scores.gather(1, words), total)


def product_token_loss(
    products: Sequence[tuple[Tensor, Tensor, Tensor | None]],
    words: Tensor,
    loss_of: TokenLoss,
    inputs: Sequence[Tensor],
    *,
    chunk_size: int | None = None,
    totals: bool = False,
) -> Tensor:
    """A loss of scores that are matrix products, which it reads but in a few places.

    Args:
        products: of each kind of scores, queries (N, D), candidates' rows (V, D), and a bias (V,) or ``None``.
        words: places of the scores that it reads, (N, M).
        loss_of: the sums, from the ``Readings`` of each product for some tokens and their rows of ``inputs``. In
            float16 no score may have a gradient beyond 2, see ``OutputProducts``.
        inputs: (N, ...) each.
        chunk_size: tokens per chunk; ``None`` chooses by memory.
        totals: whether it reads ``Readings.total``.

    Returns:
        The sums, (k,); a gradient goes through the first alone.
    """
    tensors = [part for product in products for part in product] + list(inputs)

    def compute(wanted: list[bool]) -> tuple[Tensor, Sequence[Tensor | None]]:
        chunk = chunk_rows(len(words), sum(weight.size(0) for _, weight, _ in products), chunk_size, words.device)
        scorers = [
            OutputProducts(*factors, wanted[3 * number : 3 * number + 3], chunk)
            for number, factors in enumerate(products)
        ]
        learnt = [number for number, needed in enumerate(wanted[3 * len(products) :]) if needed]
        of_inputs = {number: torch.zeros_like(inputs[number]) for number in learnt}
        sums: Any = 0.0
        for start in range(0, max(1, len(words)), chunk):  # once for a batch without words
            rows = slice(start, start + chunk)
            scores = [scorer.scores(rows) for scorer in scorers]  # (n, V) each
            readings = [read_scores(one, words[rows], totals) for one in scores]
            given = [part[rows].detach() for part in inputs]
            leaves = [part.requires_grad_(any(wanted)) for read in readings for part in read if part is not None]
            leaves += [given[number].requires_grad_() for number in learnt]
            with torch.set_grad_enabled(any(wanted)):
                loss, *others = loss_of(*readings, *given)
            sums = sums + torch.stack([loss, *others]).detach()
            if any(wanted):
                found = iter(torch.autograd.grad(loss, leaves, allow_unused=True))
                for scorer, of_scorer, read in zip(scorers, scores, readings, strict=True):
                    at_readings = Readings(next(found), next(found), next(found) if totals else None)
                    scorer.add_gradients(rows, _grad_scores_(of_scorer, words[rows], read, at_readings))
                for number, gradient in zip(learnt, found, strict=True):
                    of_inputs[number][rows] = gradient
        of_products = [gradient for scorer in scorers for gradient in scorer.gradients()]
        return sums, [*of_products, *map(of_inputs.get, range(len(inputs)))]

    loss, others = _sums_with_gradients(compute, tensors, words.device)
    return torch.cat([loss.unsqueeze(0), others])


def _cross_entropy(
    make_scorer: Callable[[list[bool], int], OutputProducts | AdditiveScorer],
    factors: tuple[Tensor, Tensor, Tensor | None],
    target: Tensor,
    label_smoothing: float,
    chunk_size: int | None,
) -> LossSums:
    """Cross entropy by a scorer of these factors, made from which gradients are wanted and the rows of a chunk."""

    def compute(wanted: list[bool]) -> tuple[Tensor, Sequence[Tensor | None]]:
        query, candidates, _ = factors
        chunk = chunk_rows(query.size(0), candidates.size(0), chunk_size, query.device)
        scorer = make_scorer(wanted, chunk)
        sums = query.new_zeros(2, dtype=torch.float32)
        for start in range(0, query.size(0), chunk):
            rows = slice(start, start + chunk)
            sums += torch.stack(scorer.loss(rows, target[rows], label_smoothing))
        return sums, scorer.gradients()

    loss, nll = _sums_with_gradients(compute, factors, target.device)
    return LossSums(loss, nll.squeeze(0), {})


def _sums_with_gradients(
    compute: Computation, inputs: Sequence[Tensor | None], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The first of the sums, which has a gradient, and the others, (k - 1,); computed outside autocast."""
    enabled = torch.is_grad_enabled()  # which cannot be seen any more inside the function
    wanted = [enabled and one is not None and one.requires_grad for one in inputs]
    with outside_autocast(device):
        loss, others = _SumsWithGradients.apply(compute, wanted, *inputs)  # type: ignore[no-untyped-call]
    return loss, others


class _SumsWithGradients(torch.autograd.Function):
    """The gradients are made in forward, with the sums, and scaled in backward."""

    @staticmethod
    def forward(ctx: Any, compute: Computation, wanted: list[bool], *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        sums, ctx.grads = compute(wanted)
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        loss, others = sums[0].clone(), sums[1:].clone()
        ctx.mark_non_differentiable(others)
        return loss, others

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_others: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients by the upstream scalar, in float32, then give them their parameter's dtype."""
        if ctx.grads is None:
            raise RuntimeError("The chunked loss supports one backward pass; run forward again for a second one.")
        grads, ctx.grads = ctx.grads, None
        # fairseq starts backward from the loss itself; looking at the scalar costs nothing on a CPU, a wait on a GPU.
        as_they_are = grad_loss.device.type == "cpu" and grad_loss.item() == 1.0
        scaled = [
            None if grad is None else (grad if as_they_are else grad.mul_(grad_loss)).to(dtype)
            for grad, dtype in zip(grads, ctx.dtypes, strict=True)
        ]
        return None, None, *scaled


def _grad_scores_(scores: Tensor, words: Tensor, read: Readings, gradients: Readings) -> Tensor:
    """The gradient at scores (n, V), in their place, from those at their readings of words (n, M)."""
    scores.sub_(read.log_sum.detach().unsqueeze(1)).exp_().mul_(gradients.log_sum.unsqueeze(1))
    if gradients.total is not None:
        scores.add_(gradients.total.unsqueeze(1))
    return scores.scatter_add_(1, words, gradients.picked)
