"""Test the joint distribution of generating and copying: loops as reference, extreme values, and gradients."""

import math

import pytest
import torch

from wean_fairseq.modules import CopyDistribution, Copying, mean_over_heads
from wean_fairseq.modules.copying import (
    CopyGate,
    base_ids,
    log_add,
    logsumexp,
    mix,
    mixture_sums,
    scatter_logsumexp,
    word_numbers,
    words_to_read,
)

NEVER = float("-inf")
BASE, SLOTS = 6, 2
SOURCE = torch.tensor([[4, 6, 4, 7, 2], [5, 6, 6, 2, 1]])  # 2 is the end symbol, 1 is padding, 6 and 7 are slots
NO_COPY = SOURCE.eq(1) | SOURCE.eq(2)


def scores(seed: int = 0, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gate (B, T), the scores of words (B, T, V) and the scores of positions (B, T, S)."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(2, 3), (2, 3, BASE), (2, 3, SOURCE.size(1))]
    return tuple(scale * torch.randn(shape, generator=generator) for shape in shapes)


def both(kind: str, scale: float = 3.0) -> CopyDistribution:
    return mixed(kind, *scores(scale=scale))


def mixed(
    kind: str, gate: torch.Tensor, generate: torch.Tensor, copy: torch.Tensor, no_copy: torch.Tensor = NO_COPY
) -> CopyDistribution:
    """Return the distribution that ``mix`` gives, as decoders use it."""
    copying = Copying(copy, gate if kind == "gate" else None)
    normaliser, copies = mix(copying, generate.float().logsumexp(dim=-1), no_copy)
    return CopyDistribution(generate.float() - normaliser.unsqueeze(-1), copies, SOURCE)


def sums_of(kind: str, gate, generate, copy, target: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Return ``mixture_sums`` of the targets that are not padding, computed from the scores of all words."""
    row, column = target.ne(1).nonzero(as_tuple=True)
    scores, source, kept = generate[row, column], SOURCE[row], target[row, column]
    copying = Copying(copy[row, column].unsqueeze(1), gate[row, column].unsqueeze(1) if kind == "gate" else None)
    mixture = mix(copying, scores.logsumexp(dim=-1, keepdim=True), NO_COPY[row])
    picked = scores.gather(1, words_to_read(kept, source, BASE))
    return mixture_sums(mixture, picked, scores.sum(dim=1), kept, source, BASE, smoothing)


def naive(kind: str) -> torch.Tensor:
    """Return the probabilities of all words, (B, T, V + K), computed word by word and position by position."""
    gate, generate, copy = (part.double() for part in scores())
    probabilities = torch.zeros(2, 3, BASE + SLOTS, dtype=torch.float64)
    for row in range(2):
        places = [place for place in range(SOURCE.size(1)) if not NO_COPY[row, place]]
        for step in range(3):
            words = [math.exp(score) for score in generate[row, step].tolist()]
            copies = {place: math.exp(copy[row, step, place]) for place in places}
            if kind == "gate":
                share = 1 / (1 + math.exp(-gate[row, step]))
                words = [share * word / sum(words) for word in words]
                total = sum(copies.values())
                copies = {place: (1 - share) * weight / total for place, weight in copies.items()}
            else:
                total = sum(words) + sum(copies.values())
                words = [word / total for word in words]
                copies = {place: weight / total for place, weight in copies.items()}
            for word, probability in enumerate(words):
                probabilities[row, step, word] += probability
            for place, probability in copies.items():
                probabilities[row, step, SOURCE[row, place]] += probability
    return probabilities.float()


@pytest.mark.parametrize("kind", ["gate", "shared"])
def test_all_probabilities_equal_the_naive_loop(kind):
    torch.testing.assert_close(both(kind).log_probs(SLOTS).exp(), naive(kind), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["gate", "shared"])
def test_they_sum_to_one_where_scores_are_extreme(kind):
    total = both(kind, scale=80.0).log_probs(SLOTS).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(2, 3))


@pytest.mark.parametrize("kind", ["gate", "shared"])
def test_half_precision_scores_give_a_distribution_in_float32(kind):
    gate, generate, copy = (part.bfloat16() for part in scores())
    distribution = mixed(kind, gate, generate, copy)
    assert distribution.generate.dtype == distribution.copy.dtype == torch.float32
    torch.testing.assert_close(distribution.log_probs(SLOTS).exp().sum(-1), torch.ones(2, 3))


@pytest.mark.parametrize("kind", ["gate", "shared"])
def test_a_sentence_with_nothing_to_copy_only_generates(kind):
    gate, generate, copy = scores()
    nothing = torch.ones_like(NO_COPY)
    leaves = (part.requires_grad_() for part in (gate, generate, copy))
    distribution = mixed(kind, *leaves, nothing)
    expected = torch.log_softmax(generate, dim=-1)
    torch.testing.assert_close(distribution.log_probs(SLOTS)[..., :BASE], expected)
    distribution.log_probs(SLOTS)[..., 0].sum().backward()
    assert all(torch.isfinite(part.grad).all() for part in (generate, copy))
    assert not copy.grad.any()


@pytest.mark.parametrize("kind", ["gate", "shared"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_the_loss_has_the_gradient_of_the_dense_formula(kind, label_smoothing):
    """The oracle is autograd through all probabilities in float64, with fairseq's smoothing over V words."""
    # The targets are a word that can be copied or generated, a slot and padding, then a slot and two words.
    target = torch.tensor([[4, 7, 1], [6, 3, 5]])
    leaves = [part.double().requires_grad_() for part in scores()]
    gate, generate, copy = leaves
    mask = torch.where(NO_COPY, NEVER, 0.0).unsqueeze(1)
    hot = torch.nn.functional.one_hot(SOURCE, BASE + SLOTS).double()
    if kind == "gate":
        words = torch.sigmoid(gate).unsqueeze(-1) * torch.softmax(generate, -1)
        places = torch.sigmoid(-gate).unsqueeze(-1) * torch.softmax(copy + mask, -1)
    else:
        joint = torch.softmax(torch.cat([generate, copy + mask], -1), -1)
        words, places = joint[..., :BASE], joint[..., BASE:]
    dense = torch.nn.functional.pad(words, (0, SLOTS)) + places @ hot
    nll = -dense.gather(-1, target.unsqueeze(-1)).squeeze(-1).log()
    each = label_smoothing / (BASE - 1)
    expected = (1 - label_smoothing - each) * nll - each * dense[..., :BASE].log().sum(-1)
    expected = expected[target != 1].sum()
    wanted = torch.autograd.grad(expected, leaves, allow_unused=True)

    leaves = [part.requires_grad_() for part in scores()]
    loss = sums_of(kind, *leaves, target, label_smoothing)[0]
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    for got, want in zip(found, wanted, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-6)


def test_the_expected_number_of_copied_words_is_logged():
    """The expected value is the sum of p(copied) / p over all targets, with p from the loops of this module."""
    target = torch.tensor([[4, 7, 1], [6, 3, 5]])
    distribution, everything = both("shared"), naive("shared")
    expected = 0.0
    for row in range(2):
        for step in range(3):
            word = int(target[row, step])
            if word != 1:
                p = everything[row, step, word]
                generated = distribution.generate[row, step, word].exp() if word < BASE else 0.0
                expected += float((p - generated) / p)
    assert sums_of("shared", *scores(), target)[2].item() == pytest.approx(expected, rel=1e-4)


def test_the_mean_over_heads_is_that_of_the_weights():
    weights = torch.softmax(torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(1)), dim=-1)
    torch.testing.assert_close(mean_over_heads(weights.log()), weights.mean(dim=1).log())


def test_scattering_equals_the_naive_loop_even_where_float32_would_underflow():
    """Two words have log-probabilities 200 below the third, so that float32 rounds their probability to 0."""
    values = torch.tensor([[[0.0, -200.0, -201.0, -200.0]]])
    index = torch.tensor([[3, 0, 0, 1]])
    expected = [-200.0 + math.log1p(math.exp(-1.0)), -200.0, NEVER, 0.0]
    torch.testing.assert_close(scatter_logsumexp(values, index, 4), torch.tensor([[expected]]))


def test_gradients_where_nothing_is_possible_are_zero_and_not_nan():
    first, second = (torch.tensor([NEVER, 0.0, NEVER], requires_grad=True) for _ in range(2))
    both_ways = log_add(first, second)
    assert both_ways.tolist() == [NEVER, pytest.approx(math.log(2)), NEVER]
    both_ways[1].backward()
    assert first.grad.tolist() == [0.0, 0.5, 0.0]
    values = torch.full((2, 3), NEVER, requires_grad=True)
    total = logsumexp(values)
    assert total.tolist() == [NEVER, NEVER]
    total.masked_fill(total == NEVER, 0.0).sum().backward()
    assert not values.grad.any()


def test_the_first_slot_is_read_as_unknown_and_the_last_word_is_not():
    assert base_ids(torch.tensor([0, 22, 23, 25]), num_base=23, unk_index=3).tolist() == [0, 22, 3, 3]


def test_the_gate_of_the_transformers_is_the_probability_of_copying():
    """The gate rho = sigmoid(w [o; c; e] + b) is the probability of copying.

    With w = 0 and b = ln 3 it is 3/4, and generating has the logit -ln 3.
    """
    gate = CopyGate(2)
    with torch.no_grad():
        gate.weight.zero_()
        gate.bias.fill_(math.log(3))
    states = torch.randn(1, 4, 2)
    torch.testing.assert_close(gate.generating(states, states, states), torch.full((1, 4), -math.log(3)))


def test_words_are_numbered_by_what_they_are():
    """The words of each source are numbered by hand in the order of their ids, including the end symbol and padding."""
    assert word_numbers(SOURCE).tolist() == [[1, 2, 1, 3, 0], [2, 3, 3, 1, 0]]
