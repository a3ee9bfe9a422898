"""Exact softmax cross entropy over a large vocabulary without the (tokens x vocabulary) matrix.

The loss walks over chunks of tokens. Where gradients are wanted, each chunk's share of them is computed while its
scores are at hand (for a sum over tokens the upstream gradient is one scalar, applied in backward), so that nothing of
size tokens x vocabulary outlives its chunk and no score is computed twice. What happens to the scores of a chunk is in
``softmax_gradient``; where scores come from, in ``output_matmul`` and ``additive_scores``.

Legend: ``N`` tokens (padding already removed), ``V`` candidates, ``D`` query width, ``H`` hidden width of the scorer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .additive_scores import AdditiveScorer, build_scorer
from .output_matmul import OutputProducts, outside_autocast

# Scores held at a time, in elements. On a CPU 48 MiB of float32: at V = 50,000 and 1,344 tokens twice as many added 40
# to 80 MiB to the peak of a training step and saved no time, and fewer saved no memory. On a GPU 512 MiB: each chunk
# costs the launches of its kernels there. Not measured there.
CHUNK_ELEMENTS = {"cpu": 3 * 2**22, "cuda": 2**27}


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
    return _cross_entropy(OutputProducts, (query, weight, bias), target, label_smoothing, chunk_size)


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

    def make_scorer(
        query: Tensor, candidates: Tensor, vector: Tensor, wanted: list[bool], chunk: int
    ) -> AdditiveScorer:
        return build_scorer(query, candidates, vector, any(wanted))

    return _cross_entropy(make_scorer, (query_part, candidate_part, vector), target, label_smoothing, chunk_size)


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
    wants_grad = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in tensors)
    with outside_autocast(words.device):
        loss, others = _ProductTokenLoss.apply(  # type: ignore[no-untyped-call]
            len(products), words, loss_of, chunk_size, totals, wants_grad, *tensors
        )
    return torch.cat([loss.unsqueeze(0), others])


def _cross_entropy(
    make_scorer: Callable[..., OutputProducts | AdditiveScorer],
    factors: tuple[Tensor | None, ...],
    target: Tensor,
    label_smoothing: float,
    chunk_size: int | None,
) -> LossSums:
    """Cross entropy outside autocast; whether gradients are wanted cannot be seen any more inside the function."""
    wants_grad = torch.is_grad_enabled() and any(factor is not None and factor.requires_grad for factor in factors)
    with outside_autocast(target.device):
        loss, nll = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
            make_scorer, target, label_smoothing, chunk_size, wants_grad, *factors
        )
    return LossSums(loss, nll.squeeze(0), {})


def _row_chunks(num_rows: int, step: int) -> Iterator[slice]:
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


class _SumsWithGradients(torch.autograd.Function):
    """Sums of which the first has gradients: made in forward, for the last of the inputs, and scaled in backward."""

    @staticmethod
    def keep(
        ctx: Any, sums: Tensor, grads: Sequence[Tensor | None], inputs: Sequence[Tensor | None]
    ) -> tuple[Tensor, Tensor]:
        """Keep the gradients of the last inputs for backward; returns the first sum, and the others, (k - 1,)."""
        ctx.grads = grads
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
        return (*[None] * (len(ctx.needs_input_grad) - len(scaled)), *scaled)


class _CrossEntropy(_SumsWithGradients):
    """Cross entropy of scores that are made of three factors."""

    @staticmethod
    def forward(
        ctx: Any,
        make_scorer: Callable[..., OutputProducts | AdditiveScorer],
        target: Tensor,
        eps: float,
        chunk_size: int | None,
        wants_grad: bool,
        *factors: Tensor,
    ) -> tuple[Tensor, Tensor]:
        query, candidates, _ = factors
        chunk = chunk_rows(query.size(0), candidates.size(0), chunk_size, query.device)
        wanted = [wants_grad and needed for needed in ctx.needs_input_grad[-len(factors) :]]
        scorer = make_scorer(*factors, wanted=wanted, chunk=chunk)
        sums = query.new_zeros(2, dtype=torch.float32)
        for rows in _row_chunks(query.size(0), chunk):
            sums += torch.stack(scorer.loss(rows, target[rows], eps))
        return _CrossEntropy.keep(ctx, sums, scorer.gradients(), factors)


class _ProductTokenLoss(_SumsWithGradients):
    """See ``product_token_loss``."""

    @staticmethod
    def forward(
        ctx: Any,
        count: int,
        words: Tensor,
        loss_of: TokenLoss,
        chunk_size: int | None,
        totals: bool,
        wants_grad: bool,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        parts: Any = [tensors[place : place + 3] for place in range(0, 3 * count, 3)]
        inputs: Any = tensors[3 * count :]
        wanted = [wants_grad and needed for needed in ctx.needs_input_grad[-len(tensors) :]]
        chunk = chunk_rows(len(words), sum(weight.size(0) for _, weight, _ in parts), chunk_size, words.device)
        products = [
            OutputProducts(query, weight, bias, wanted[3 * number : 3 * number + 3], chunk)
            for number, (query, weight, bias) in enumerate(parts)
        ]
        learnt = [number for number, needed in enumerate(wanted[3 * count :]) if needed]
        gradients = {number: torch.zeros_like(inputs[number]) for number in learnt}
        sums: Tensor | float = 0.0
        for rows in _row_chunks(max(1, len(words)), chunk):  # once for a batch without words
            scores = [product.scores(rows) for product in products]  # (n, V) each
            readings = [read_scores(one, words[rows], totals) for one in scores]
            given = [part[rows].detach() for part in inputs]
            leaves = [part.requires_grad_(wants_grad) for read in readings for part in read if part is not None]
            leaves += [given[number].requires_grad_() for number in learnt]
            with torch.set_grad_enabled(wants_grad):
                loss, *others = loss_of(*readings, *given)
            sums = sums + torch.stack([loss, *others]).detach()
            if wants_grad:
                found = iter(torch.autograd.grad(loss, leaves, allow_unused=True))
                for product, of_product, read in zip(products, scores, readings, strict=True):
                    at_readings = Readings(next(found), next(found), next(found) if totals else None)
                    product.add_gradients(rows, _grad_scores_(of_product, words[rows], read, at_readings))
                for number, gradient in zip(learnt, found, strict=True):
                    gradients[number][rows] = gradient
        assert isinstance(sums, Tensor)
        of_parts = [gradient for product in products for gradient in product.gradients()]
        return _ProductTokenLoss.keep(ctx, sums, [*of_parts, *map(gradients.get, range(len(inputs)))], tensors)


def _grad_scores_(scores: Tensor, words: Tensor, read: Readings, gradients: Readings) -> Tensor:
    """The gradient at scores (n, V), in their place, from those at their readings of words (n, M)."""
    scores.sub_(read.log_sum.detach().unsqueeze(1)).exp_().mul_(gradients.log_sum.unsqueeze(1))
    if gradients.total is not None:
        scores.add_(gradients.total.unsqueeze(1))
    return scores.scatter_add_(1, words, gradients.picked)
