"""Exact softmax cross entropy over a large vocabulary, without the matrix of tokens x vocabulary.

The loss is computed chunk by chunk over the tokens. If gradients are required, the contribution of each chunk is
computed while its scores are in memory. This is possible because, for a sum over tokens, the upstream gradient is one
scalar, which is applied in backward. Therefore no tensor of size tokens x vocabulary exists for longer than its chunk,
and no score is computed twice. ``softmax_gradient`` turns the scores of a chunk into losses and gradients.
``output_matmul`` and ``additive_scores`` compute them.

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
from .softmax_gradient import loss_of_scores, softmax_gradient_

# Maximum number of scores in memory at a time. On a CPU they take 48 MiB in float32. At V = 50,000 and 1,344 tokens,
# twice this number added 40 to 80 MiB to the peak of a training step and saved no time, and a smaller number saved no
# memory. On a GPU they take 512 MiB, because each chunk costs kernel launches there. The value for GPUs was not
# measured.
CHUNK_ELEMENTS = {"cpu": 3 * 2**22, "cuda": 2**27}


# A function that maps the needs-gradient flags of the inputs to the sums (k,) and the gradients of the inputs. The
# first sum is minimised.
Computation = Callable[[list[bool]], tuple[Tensor, Sequence[Tensor | None]]]


class LossSums(NamedTuple):
    """Sums over tokens, in nats, as float32 scalars. Only the first sum has a gradient."""

    loss: Tensor  # the sum to minimise, including auxiliary losses
    nll_loss: Tensor  # the negative log-likelihood alone
    logged: dict[str, Tensor]  # further values to log, by name, such as ``copied``, the expected number of copied words


def chunk_rows(num_rows: int, num_candidates: int, chunk_size: int | None, device: torch.device) -> int:
    """Return the rows per chunk: ``chunk_size``, or the number allowed by ``CHUNK_ELEMENTS``, spread evenly."""
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
    """Return the cross entropy of scores that form one matrix product, ``query @ weight.T + bias``.

    Args:
        query: shape (N, D).
        weight: rows of the candidates, shape (V, D).
        bias: shape (V,), or ``None``.
        target: candidate index of every token, shape (N,).
        label_smoothing: smoothing eps of ``softmax_gradient``.
        chunk_size: tokens per chunk. ``None`` = a number chosen for the available memory.

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
    """Return the cross entropy of additive scores, ``vector . tanh(query_part + candidate_part)``.

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
    """The values that a loss needs from the scores of some tokens, in float32."""

    log_sum: Tensor  # log of the summed exponentials, (n,)
    picked: Tensor  # scores of some words, (n, M)
    total: Tensor | None  # sum of all scores, (n,), if requested


# A function that computes sums over tokens from the ``Readings`` and the further inputs of each token. The first sum is
# minimised, and the others have no gradient.
TokenLoss = Callable[..., Tensor]


def read_scores(scores: Tensor, words: Tensor, totals: bool) -> Readings:
    """Return the ``Readings`` of the scores (n, V): the log-sum per row and the scores of the given words (n, M)."""
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
    """Return a loss over matrix-product scores that needs only a few entries of the score matrix.

    Args:
        products: for each kind of scores, the queries (N, D), the rows of the candidates (V, D), and a bias (V,) or
            ``None``.
        words: columns of the entries that the loss needs, (N, M).
        loss_of: computes the sums from the ``Readings`` of each product for some tokens and their rows of ``inputs``.
            In float16, no score may have a gradient above 2, see ``OutputProducts``.
        inputs: further inputs of ``loss_of``, each of shape (N, ...).
        chunk_size: tokens per chunk. ``None`` = a number chosen for the available memory.
        totals: whether to compute ``Readings.total``.

    Returns:
        The sums, (k,). Only the first sum has a gradient.
    """
    tensors = [tensor for product in products for tensor in product] + list(inputs)

    def compute(needs_grad: list[bool]) -> tuple[Tensor, Sequence[Tensor | None]]:
        chunk = chunk_rows(len(words), sum(weight.size(0) for _, weight, _ in products), chunk_size, words.device)
        scorers = [
            OutputProducts(*factors, needs_grad[3 * number : 3 * number + 3], chunk)
            for number, factors in enumerate(products)
        ]
        learnt_inputs = [number for number, needed in enumerate(needs_grad[3 * len(products) :]) if needed]
        input_gradients = {number: torch.zeros_like(inputs[number]) for number in learnt_inputs}
        sums: Any = 0.0
        for start in range(0, max(1, len(words)), chunk):  # a batch without words also needs one chunk
            # The score matrix of a chunk is reduced to its readings, and the loss is a function of these small tensors.
            # Therefore autograd only differentiates the loss of the chunk with respect to the readings.
            rows = slice(start, start + chunk)
            scores = [scorer.scores(rows) for scorer in scorers]  # (n, V) each
            readings = [read_scores(scores_of_product, words[rows], totals) for scores_of_product in scores]
            chunk_inputs = [tensor[rows].detach() for tensor in inputs]
            leaves = [
                tensor.requires_grad_(any(needs_grad))
                for reading in readings
                for tensor in reading
                if tensor is not None
            ]
            leaves += [chunk_inputs[number].requires_grad_() for number in learnt_inputs]
            with torch.set_grad_enabled(any(needs_grad)):
                loss, *others = loss_of(*readings, *chunk_inputs)
            sums = sums + torch.stack([loss, *others]).detach()
            if any(needs_grad):
                leaf_gradients = iter(torch.autograd.grad(loss, leaves, allow_unused=True))
                # A formula expands the gradients at the readings to a gradient at the scores, in the memory of the
                # scores. This gradient is passed to the matrix products. Afterwards, the scores of the next chunk can
                # overwrite this memory.
                for scorer, grad_scores, reading in zip(scorers, scores, readings, strict=True):
                    reading_gradients = Readings(
                        next(leaf_gradients), next(leaf_gradients), next(leaf_gradients) if totals else None
                    )
                    scorer.add_gradients(rows, _grad_scores_(grad_scores, words[rows], reading, reading_gradients))
                for number, gradient in zip(learnt_inputs, leaf_gradients, strict=True):
                    input_gradients[number][rows] = gradient
        product_gradients = [gradient for scorer in scorers for gradient in scorer.gradients()]
        return sums, [*product_gradients, *map(input_gradients.get, range(len(inputs)))]

    loss, others = _sums_with_gradients(compute, tensors, words.device)
    return torch.cat([loss.unsqueeze(0), others])


def _cross_entropy(
    make_scorer: Callable[[list[bool], int], OutputProducts | AdditiveScorer],
    factors: tuple[Tensor, Tensor, Tensor | None],
    target: Tensor,
    label_smoothing: float,
    chunk_size: int | None,
) -> LossSums:
    """Return the cross entropy, computed with a scorer of these factors.

    ``make_scorer`` gets the needs-gradient flags and the number of rows per chunk.
    """

    def compute(needs_grad: list[bool]) -> tuple[Tensor, Sequence[Tensor | None]]:
        query, candidates, _ = factors
        chunk = chunk_rows(query.size(0), candidates.size(0), chunk_size, query.device)
        scorer = make_scorer(needs_grad, chunk)
        sums = query.new_zeros(2, dtype=torch.float32)
        for start in range(0, query.size(0), chunk):
            rows = slice(start, start + chunk)
            scores = scorer.scores(rows)
            if any(needs_grad):
                # The gradient overwrites the scores, and the scorer adds the gradients of the chunk to its sums.
                sums += torch.stack(softmax_gradient_(scores, target[rows], label_smoothing))
                scorer.add_gradients(rows, scores)
            else:
                sums += torch.stack(loss_of_scores(scores, target[rows], label_smoothing))
        return sums, scorer.gradients()

    loss, nll = _sums_with_gradients(compute, factors, target.device)
    return LossSums(loss, nll.squeeze(0), {})


def _sums_with_gradients(
    compute: Computation, inputs: Sequence[Tensor | None], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the first sum, which has a gradient, and the other sums (k - 1,). They are computed outside autocast."""
    enabled = torch.is_grad_enabled()  # always False inside an autograd.Function
    needs_grad = [enabled and tensor is not None and tensor.requires_grad for tensor in inputs]
    with outside_autocast(device):
        loss, others = _SumsWithGradients.apply(compute, needs_grad, *inputs)  # type: ignore[no-untyped-call]
    return loss, others


class _SumsWithGradients(torch.autograd.Function):
    """Compute the gradients in forward, together with the sums, and scale them in backward."""

    @staticmethod
    def forward(
        ctx: Any, compute: Computation, needs_grad: list[bool], *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        sums, ctx.grads = compute(needs_grad)
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        loss, others = sums[0].clone(), sums[1:].clone()
        ctx.mark_non_differentiable(others)
        return loss, others

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _grad_others: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients by the upstream scalar in float32, then convert each to the dtype of its parameter."""
        if ctx.grads is None:
            raise RuntimeError("The chunked loss supports one backward pass; run forward again for a second one.")
        grads, ctx.grads = ctx.grads, None
        # fairseq calls backward on the loss itself, so the scalar is usually 1 and the multiplication is skipped.
        # Reading the scalar costs nothing on a CPU, but would synchronise a GPU.
        unscaled = grad_loss.device.type == "cpu" and grad_loss.item() == 1.0
        scaled = [
            None if grad is None else (grad if unscaled else grad.mul_(grad_loss)).to(dtype)
            for grad, dtype in zip(grads, ctx.dtypes, strict=True)
        ]
        return None, None, *scaled


def _grad_scores_(scores: Tensor, words: Tensor, reading: Readings, gradients: Readings) -> Tensor:
    """Return the gradient at the scores (n, V), in place, from the gradients at the readings of the words (n, M)."""
    scores.sub_(reading.log_sum.detach().unsqueeze(1)).exp_().mul_(gradients.log_sum.unsqueeze(1))
    if gradients.total is not None:
        scores.add_(gradients.total.unsqueeze(1))
    return scores.scatter_add_(1, words, gradients.picked)
