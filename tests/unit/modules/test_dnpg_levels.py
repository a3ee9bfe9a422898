"""Test the parts of DNPG: soft labels, fractional positions, the inputs of the levels, the mixture."""

import math

import pytest
import torch
from torch import nn

from wean_fairseq.modules import (
    CopyDistribution,
    FractionalEmbedding,
    LevelOutputs,
    LevelSeparator,
    QueryEmbedding,
    label_loss,
)
from wean_fairseq.modules.dnpg_levels import (
    both_labels,
    even_labels,
    label_bias,
    neighbour_bias,
    past_neighbour_bias,
    soft_labels,
    source_bias,
)
from wean_fairseq.modules.sinusoidal_positions import sinusoid

NEVER = float("-inf")


def test_noise_draws_a_class_as_often_as_it_is_probable():
    """By the Gumbel-max trick, a class is drawn with its softmax probability.

    There are three classes, because with two the sign of the noise has no effect.
    """
    torch.manual_seed(1)
    logits = torch.tensor([0.0, 1.0, 2.5])
    drawn = soft_labels(logits.expand(40_000, 3), 0.1, noisy=True).argmax(dim=-1)
    shares = drawn.bincount(minlength=3) / len(drawn)
    # the tolerance is four standard errors
    torch.testing.assert_close(shares, logits.softmax(dim=0), rtol=0, atol=0.01)


def test_a_label_without_noise_is_a_softmax_at_its_temperature():
    """With x = (0, ln 3), exp(x / tau) is (1, 3) / 4 for tau = 1 and (1, 9) / 10 for tau = 1/2, normalised."""
    logits = torch.tensor([0.0, math.log(3)])
    for temperature, expected in ((1.0, [0.25, 0.75]), (0.5, [0.1, 0.9])):
        found = soft_labels(logits, temperature, noisy=False).exp()
        torch.testing.assert_close(found, torch.tensor(expected))


def test_the_larger_part_of_a_noisy_label_is_drawn_from_the_softmax():
    """The Gumbel-max trick: argmax of (x + g) has the probabilities softmax(x) at every temperature."""
    torch.manual_seed(1)
    logits = torch.tensor([0.0, math.log(3)]).expand(20000, 2)
    for temperature in (0.1, 1.0, 5.0):
        labels = soft_labels(logits, temperature, noisy=True).exp()
        torch.testing.assert_close(labels.sum(-1), torch.ones(20000))
        assert abs(labels.argmax(-1).float().mean() - 0.75) < 0.01  # the tolerance is three standard deviations
    assert soft_labels(logits, 0.01, noisy=True).exp().max(-1).values.mean() > 0.98
    assert soft_labels(logits, 100.0, noisy=True).exp().max(-1).values.max() < 0.6


def test_labels_are_float32_and_finite_for_extreme_scores():
    logits = torch.tensor([[0.0, 6e4], [6e4, -6e4]], dtype=torch.float16)
    labels = both_labels(logits, torch.tensor(0.9, dtype=torch.float16), noisy=True)
    assert all(part.dtype == torch.float32 and torch.isfinite(part).all() for part in labels)
    torch.testing.assert_close(even_labels(2, torch.device("cpu")).exp(), torch.full((2, 2), 0.5))


@pytest.mark.parametrize("dim", [2, 6])
def test_sinusoids_equal_the_formula_also_between_whole_numbers(dim):
    """The expected values are sin(p / 10000^(2k / D)) and cos, computed in a loop over the units."""
    positions = torch.tensor([[0.0, 0.25, 1.0, 17.5]])
    found = sinusoid(positions, dim)
    for place, p in enumerate(positions[0].tolist()):
        for k in range(dim // 2):
            angle = p / 10000 ** (2 * k / dim)
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            torch.testing.assert_close(found[0, place, 2 * k : 2 * k + 2], expected)


def test_a_position_gets_a_gradient():
    embedding = FractionalEmbedding(nn.Embedding(5, 4, 1), 0.0)
    positions = torch.tensor([[0.5, 1.25]], requires_grad=True)
    (embedding(torch.tensor([[2, 3]]), positions) * torch.arange(4.0)).sum().backward()
    assert (positions.grad != 0).all()


def test_half_precision_keeps_positions_exact():
    """Angles must be computed in float32, because in float16 position 900.5 has an error of up to a quarter."""
    embedding = FractionalEmbedding(nn.Embedding(5, 4, 1), 0.0).half()
    found = embedding(torch.tensor([[1]]), torch.tensor([[900.5]]))[0, 0]
    torch.testing.assert_close(found.float(), sinusoid(torch.tensor(900.5), 4), rtol=0, atol=1e-3)


def test_neighbours_by_hand():
    """With a window of 2, each position sees itself and its neighbours, except that words do not see padding."""
    padding = torch.tensor([[True, False, False, False]])
    visible = neighbour_bias(padding, 2)[0, 0] == 0.0
    assert visible.int().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    before = past_neighbour_bias(torch.arange(4), 4, 2) == 0.0
    assert before.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_padding_that_is_far_from_words_reads_itself():
    """Otherwise all weights in the row of a padded position would be masked, and NaN would spread to the words."""
    padding = torch.tensor([[True] * 5 + [False] * 2])
    bias = neighbour_bias(padding, 2)
    assert torch.isfinite(torch.softmax(bias, dim=-1)).all()
    assert (bias[0, 0, 5:, :5] == NEVER).all()


def test_a_label_as_bias_renormalises_attention():
    """The expected weights are alpha'_l = P_l alpha_l / sum(P alpha), summed over the words without padding."""
    torch.manual_seed(2)
    scores, probability = torch.randn(1, 1, 3, 4), torch.tensor([[0.2, 0.9, 1e-9, 0.5]])
    padding = torch.tensor([[False, False, False, True]])
    found = torch.softmax(scores + source_bias(probability.log(), padding), dim=-1)
    alpha = torch.softmax(scores[..., :3], dim=-1) * probability[:, :3]
    torch.testing.assert_close(found[..., :3], alpha / alpha.sum(-1, keepdim=True))
    assert (found[..., 3] == 0).all()
    assert label_bias(probability).shape == (1, 1, 1, 4)


def test_the_label_loss_counts_words_alone():
    log_probs = torch.tensor([[[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]]).log()
    labels = torch.tensor([[1, 0, -1]])
    torch.testing.assert_close(label_loss(log_probs, labels), torch.tensor(-math.log(0.75) - math.log(0.5)))


def test_the_mixture_by_hand():
    """The expected value is P = 0.4 P_0 + 0.6 P_1, where P_0 generates (0.5, 0.25) and copies 0.25.

    Only the phrase level copies.
    """
    # These scores are not normalised.
    phrase, sentence = (torch.tensor([0.5, 0.25]).log() - 3.0, torch.tensor([0.1, 0.9]).log() + 7.0)
    # The embeddings are unit vectors, so that the scores of the words equal the features.
    outputs = [QueryEmbedding("dot", 2, 2, 2, unk_index=0) for _ in range(2)]
    words = LevelOutputs(outputs, (torch.eye(2), torch.eye(2)))
    weights = torch.tensor([0.4 * 0.75, 0.6]).log()  # P_0 generates with probability 0.75
    generated = words.scores(torch.cat([phrase, sentence, weights]).view(1, 1, 6), torch.empty(0))
    copied = torch.tensor([[[0.4 * 0.25, 0.0]]]).log()
    found = CopyDistribution(generated, copied, torch.tensor([[2, 1]])).log_probs(num_slots=1).exp()
    torch.testing.assert_close(found, torch.tensor([[[0.4 * 0.5 + 0.6 * 0.1, 0.4 * 0.25 + 0.6 * 0.9, 0.4 * 0.25]]]))


def test_the_separator_reads_its_own_last_label():
    """Noise in the first label must change later labels, but not the first label itself."""
    torch.manual_seed(4)
    separator = LevelSeparator(nn.Embedding(9, 6, 1), 6)
    nn.init.normal_(separator.label_proj.weight, std=9.0)
    nn.init.normal_(separator.cell.weight_ih, std=3.0)
    tokens, padding = torch.tensor([[4, 5, 6, 7]]), torch.zeros(1, 4, dtype=torch.bool)
    torch.manual_seed(5)
    drawn = separator(tokens, padding, 1.0, noisy=True)
    plain = separator(tokens, padding, 1.0, noisy=False)
    torch.testing.assert_close(drawn.expected[:, 0], plain.expected[:, 0])
    assert (drawn.expected[:, 1:] - plain.expected[:, 1:]).abs().max() > 0.01
    assert torch.equal(plain.used, plain.expected)
