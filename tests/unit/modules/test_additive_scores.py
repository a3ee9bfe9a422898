"""Additive scores: blocks, both ranges, autograd, and the Triton kernels, against the tanh itself in float64.

``make test-kernels`` runs those tests of the kernels that have ``kernels`` in their name.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests import sm90, triton_kernels
from wean_fairseq import modules
from wean_fairseq.modules import additive_cross_entropy, additive_scores
from wean_fairseq.modules.additive_scores import LARGEST_PART, AdditiveScorer
from wean_fairseq.modules.triton_kernels import load

N, V, H = 37, 71, 5  # two tiles of tokens and of candidates, the last of each with room left


def parts(scale=1.0, seed=3):
    generator = torch.Generator().manual_seed(seed)
    query, candidates = (scale * torch.randn(rows, H, generator=generator) for rows in (N, V))
    return query, candidates, torch.randn(H, generator=generator)


def naive_scores(query, candidates, vector):
    """Eq. 5, concat, all hidden units at once: (N, V)."""
    return torch.tanh(query.unsqueeze(1) + candidates) @ vector


def naive_loss(inputs, target, eps):
    """fairseq's label smoothing on materialised scores, in float64: loss, nll, gradients."""
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
    """Parts whose exponentials' products fit float32, and parts whose do not."""
    drawn = parts(request.param)
    assert (max(part.abs().max() for part in drawn[:2]) > LARGEST_PART) == (request.param > 1.0)
    return drawn


@pytest.fixture
def target():
    return torch.randint(0, V, (N,), generator=torch.Generator().manual_seed(4))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks that divide neither tokens nor candidates."""
    monkeypatch.setattr(additive_scores, "BLOCK_ROWS", 4)
    monkeypatch.setitem(additive_scores.BLOCK_UNITS, "cpu", 4 * 3 * H)


@pytest.mark.usefixtures("small_blocks")
def test_scores_are_those_of_the_tanh(inputs):
    scores = additive_scores.additive_scores(*inputs)
    close(scores, naive_scores(*(tensor.double() for tensor in inputs)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_parts_at_the_end_of_the_range_neither_overflow_nor_lose_digits(sign):
    """Closed form: a = b = 20 gives tanh(40) = 1; a = 20, b = -20 + 1/8 gives tanh(1/8)."""
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
    """Nothing gives zeros, not missing gradients, which distributed training would wait for; one is one."""
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
    """The candidates detached, as in the ablation of the third source."""
    inputs = parts()
    _, _, expected = naive_loss(inputs, target, 0.0)
    leaves = [tensor.clone().requires_grad_(index != 1) for index, tensor in enumerate(inputs)]
    additive_cross_entropy(*leaves, target).loss.backward()
    assert leaves[1].grad is None
    close(leaves[0].grad, expected[0])
    close(leaves[2].grad, expected[2])


def test_no_block_is_larger_than_asked_for(monkeypatch, target):
    """tokens x candidates x H never exists: every block of hidden units is within the limit, and all are made twice."""
    monkeypatch.setitem(additive_scores.BLOCK_UNITS, "cpu", 16 * 3 * H)
    made, original = [], AdditiveScorer._units
    monkeypatch.setattr(
        AdditiveScorer, "_units", lambda *rest: (units := original(*rest), made.append(units.numel()))[0]
    )
    leaves = [tensor.requires_grad_() for tensor in parts()]
    additive_cross_entropy(*leaves, target)
    assert max(made) <= 16 * 3 * H
    assert sum(made) == 2 * N * V * H  # for the scores, and for the gradients


def test_without_triton_a_gpu_uses_the_form_above(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)  # importing it fails
    for name in ("additive_kernel", "softmax_kernel"):
        monkeypatch.delitem(sys.modules, f"wean_fairseq.modules.{name}", raising=False)
        monkeypatch.delattr(modules, name, raising=False)
        load.cache_clear()
        assert load(name) is None
    load.cache_clear()


# --- Triton ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels():
    return triton_kernels.module("additive_kernel")


@pytest.fixture
def small_tiles(kernels, monkeypatch):
    """Tiles that divide neither tokens nor candidates nor hidden units, and are several of each."""
    for name, size in (("CANDIDATES", 64), ("MANY_TOKENS", 16), ("UNITS", 4)):
        monkeypatch.setattr(kernels, name, size)


@pytest.fixture
def device():
    return triton_kernels.DEVICE


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("wants_grad", [True, False])
def test_kernels_give_loss_and_gradients_of_the_tanh(kernels, device, inputs, target, eps, wants_grad):
    loss, nll, expected = naive_loss(inputs, target, eps)
    scorer = kernels.TritonScorer(*(tensor.to(device) for tensor in inputs), wants_grad)
    sums = sum(
        torch.stack(scorer.loss(rows, target[rows].to(device), eps)) for rows in (slice(0, 20), slice(20, N))
    ).cpu()
    close(sums[0], loss)
    close(sums[1], nll)
    if wants_grad:
        for gradient, naive in zip(scorer.gradients(), expected, strict=True):
            close(gradient.cpu(), naive)


@pytest.mark.usefixtures("small_tiles")
def test_kernels_give_scores_of_the_tanh_and_their_gradients(kernels, device, inputs):
    doubles = [tensor.double().requires_grad_() for tensor in inputs]
    expected = naive_scores(*doubles)
    upstream = torch.randn(N, V, generator=torch.Generator().manual_seed(5))
    expected.backward(upstream.double())
    scorer = kernels.TritonScorer(*(tensor.to(device) for tensor in inputs), True)
    close(scorer.scores(slice(None)).cpu(), expected)
    scorer.add_gradients(slice(None), upstream.to(device))
    for gradient, double in zip(scorer.gradients(), doubles, strict=True):
        close(gradient.cpu(), double.grad)


def test_merging_the_sums_of_the_kernels_splits_is_the_log_sum_exp_of_all(kernels):
    """Expected: torch's own logsumexp; one split is far below the other."""
    scores = torch.tensor([[[0.0, 1.0], [90.0, 91.0]], [[-90.0, -91.0], [2.0, 1.0]]])  # (splits, n, 2)
    largest = scores.amax(dim=2)
    exp_sum = (scores - largest.unsqueeze(2)).exp().sum(dim=2)
    lse, target_score, score_sum = kernels.merge(torch.stack([largest, exp_sum, scores[..., 0], scores.sum(dim=2)]))
    torch.testing.assert_close(lse, scores.transpose(0, 1).flatten(1).logsumexp(dim=1))
    assert target_score.tolist() == [-90.0, 92.0]
    assert score_sum.tolist() == [-180.0, 184.0]


def test_kernels_find_rows_beyond_the_range_of_int32(kernels, device):
    from tests import kernel_parts

    found = torch.zeros(1, dtype=torch.int64, device=device)
    kernel_parts.offset[1,](found, 70_000, 50_000)
    assert found.item() == 3_500_000_000  # 70,000 x 50,000


def test_kernels_reciprocal_is_off_by_one_unit_in_the_last_place_at_most(kernels, device):
    """Of every mantissa; NVIDIA's bound for its instruction is a relative error of 2^-23."""
    from tests import kernel_parts

    values = 1.0 + torch.arange(2**23, dtype=torch.float64) * 2.0**-23
    found = values.float().to(device)
    kernel_parts.reciprocals[2**7,](found, WIDTH=2**16)
    assert (found.cpu().double() * values - 1.0).abs().max() <= 2.0**-23


@pytest.mark.parametrize("off", [2.0**-23, -(2.0**-23)])
def test_kernels_scores_bear_such_reciprocals(kernels, device, monkeypatch, off):
    """With r (1 + d), |d| <= 2^-23, and |r| <= 1 a score is off by 2 sum |v| 2^-23 at most, and a slope by as much.

    What else is rounded: A B, whose error e of at most 2^-21 moves r by r (1 - r) e, a quarter of it, and 2 H sums.
    """
    query, candidates, vector = parts()
    if triton_kernels.INTERPRETED:  # all of them off the same way; a GPU has its own
        monkeypatch.setattr(kernels, "_reciprocal", lambda values: (1.0 / values) * (1.0 + off))
    scorer = kernels.TritonScorer(*(tensor.to(device) for tensor in (query, candidates, vector)), False)
    exact = naive_scores(query.double(), candidates.double(), vector.double())
    error = (scorer.scores(slice(None)).cpu().double() - exact).abs().max() / vector.abs().sum()
    assert error <= 2.0**-22 + 2.0**-22 + 2 * H * 2.0**-24


@pytest.mark.skipif(not triton_kernels.INTERPRETED, reason="`make test-kernels` counts, for which no GPU is wanted")
def test_kernels_have_no_more_instructions_than_recorded():
    """Compiled for an H100 in a process of its own, in which Triton does not interpret."""
    recorded = json.loads(sm90.TABLE.read_text())
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    program = "import json; from tests import sm90; print(json.dumps(sm90.count()))"
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    counted = json.loads(run.stdout)
    assert counted.keys() == recorded.keys()
    more = {name: counted[name] for name in counted if counted[name] > recorded[name]}
    assert not more, "where that is meant, `python -m tests.sm90` records it"
