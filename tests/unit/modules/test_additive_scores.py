"""Compare additive scores with tanh in float64, in several blocks, for small and large inputs, and by autograd."""

import pytest
import torch

from wean_fairseq.modules import additive_cross_entropy, additive_scores
from wean_fairseq.modules.additive_scores import LARGEST_PART, AdditiveScorer

N, V, H = 37, 71, 5  # two tiles of tokens and of candidates, the last one only partly filled


def parts(scale=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    query, candidates = (scale * torch.randn(rows, H, generator=generator) for rows in (N, V))
    return query, candidates, torch.randn(H, generator=generator)


def naive_scores(query, candidates, vector):
    """Return the scores of eq. 5, concat, from all hidden units at once, shape (N, V)."""
    return torch.tanh(query.unsqueeze(1) + candidates) @ vector


def naive_loss(inputs, target, eps):
    """Return the loss, nll and gradients of fairseq's label smoothing over all scores at once, in float64."""
    doubles = [tensor.detach().double().requires_grad_() for tensor in inputs]
    log_probs = torch.log_softmax(naive_scores(*doubles), dim=1)
    nll = -log_probs.gather(1, target.unsqueeze(1)).sum()
    eps_i = eps / (V - 1)
    loss = (1.0 - eps - eps_i) * nll - eps_i * log_probs.sum()
    loss.backward()
    return loss, nll, [tensor.grad for tensor in doubles]


def close(actual, expected):
    torch.testing.assert_close(actual.double(), expected.double(), rtol=1e-5, atol=1e-5)


@pytest.fixture(params=[1.0, 30.0], ids=["narrow", "wide"])
def inputs(request):
    """Return inputs whose products of exponentials fit float32, and inputs whose products do not."""
    drawn = parts(request.param)
    assert (max(part.abs().max() for part in drawn[:2]) > LARGEST_PART) == (request.param > 1.0)
    return drawn


@pytest.fixture
def target():
    return torch.randint(0, V, (N,), generator=torch.Generator().manual_seed(4))


@pytest.fixture
def small_blocks(monkeypatch):
    """Use blocks that divide neither the tokens nor the candidates."""
    monkeypatch.setattr(additive_scores, "BLOCK_ROWS", 4)
    monkeypatch.setitem(additive_scores.BLOCK_UNITS, "cpu", 4 * 3 * H)


@pytest.mark.usefixtures("small_blocks")
def test_scores_are_those_of_the_tanh(inputs):
    scores = additive_scores.additive_scores(*inputs)
    close(scores, naive_scores(*(tensor.double() for tensor in inputs)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_parts_at_the_end_of_the_range_neither_overflow_nor_lose_digits(sign):
    """The expected scores are tanh(40) = 1 for a = b = 20, and tanh(1/8) for a = 20 and b = -20 + 1/8."""
    query = torch.full((1, 1), sign * LARGEST_PART)
    candidates = torch.tensor([[sign * LARGEST_PART], [sign * (0.125 - LARGEST_PART)]])
    scores = additive_scores.additive_scores(query, candidates, torch.ones(1))
    close(scores, sign * torch.tensor([[1.0, torch.tensor(0.125, dtype=torch.float64).tanh()]], dtype=torch.float64))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_loss_and_gradients_are_those_of_the_tanh(inputs, target, eps):
    loss, nll, expected = naive_loss(inputs, target, eps)
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    sums = additive_cross_entropy(*leaves, target, eps, chunk_size=10)
    sums.loss.backward()
    close(sums.loss, loss)
    close(sums.nll_loss, nll)
    for leaf, gradient in zip(leaves, expected, strict=True):
        close(leaf.grad, gradient)


@pytest.mark.usefixtures("small_blocks")
def test_autograd_through_scores(inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    doubles = [tensor.double().requires_grad_() for tensor in inputs]
    upstream = torch.randn(N, V, generator=torch.Generator().manual_seed(5))
    additive_scores.additive_scores(*leaves).backward(upstream)
    naive_scores(*doubles).backward(upstream.double())
    for leaf, double in zip(leaves, doubles, strict=True):
        close(leaf.grad, double.grad)


def test_backward_inside_autocast_stays_in_float32(inputs):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    doubles = [tensor.double().requires_grad_() for tensor in inputs]
    upstream = torch.randn(N, V, generator=torch.Generator().manual_seed(5))
    with torch.autocast("cpu", torch.bfloat16):
        additive_scores.additive_scores(*leaves).backward(upstream)
    naive_scores(*doubles).backward(upstream.double())
    for leaf, double in zip(leaves, doubles, strict=True):
        close(leaf.grad, double.grad)


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_of_hardly_any_tokens(count):
    """An empty batch gives zero gradients, because distributed training would wait for missing ones."""
    query, candidates, vector = parts()
    target = torch.zeros(count, dtype=torch.long)
    leaves = [tensor.clone().requires_grad_() for tensor in (query[:count], candidates, vector)]
    loss, _, expected = naive_loss((query[:count], candidates, vector), target, 0.1)
    sums = additive_cross_entropy(*leaves, target, 0.1)
    sums.loss.backward()
    close(sums.loss, loss)
    for leaf, gradient in zip(leaves, expected, strict=True):
        close(leaf.grad, gradient)


def test_gradients_of_some_inputs_alone(target):
    """Detach the candidates, as the ablation of the third source of gradients does."""
    inputs = parts()
    _, _, expected = naive_loss(inputs, target, 0.0)
    leaves = [tensor.clone().requires_grad_(index != 1) for index, tensor in enumerate(inputs)]
    additive_cross_entropy(*leaves, target).loss.backward()
    assert leaves[1].grad is None
    close(leaves[0].grad, expected[0])
    close(leaves[2].grad, expected[2])


def test_no_block_is_larger_than_asked_for(monkeypatch, target):
    """A tensor of tokens x candidates x H never exists.

    Blocks of hidden units keep to the limit, and each is computed twice.
    """
    monkeypatch.setitem(additive_scores.BLOCK_UNITS, "cpu", 16 * 3 * H)
    made, original = [], AdditiveScorer._units
    monkeypatch.setattr(
        AdditiveScorer, "_units", lambda *rest: (units := original(*rest), made.append(units.numel()))[0]
    )
    leaves = [tensor.requires_grad_() for tensor in parts()]
    additive_cross_entropy(*leaves, target)
    assert max(made) <= 16 * 3 * H
    assert sum(made) == 2 * N * V * H  # once for the scores and once for the gradients
