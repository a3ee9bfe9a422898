"""Test the distances of a search step to earlier steps against closed forms."""

import math

import torch

from wean_fairseq.modules import ContentDistraction, greatest_likeness, least_divergence


def test_a_content_is_distracted_by_those_before_element_by_element():
    """The closed forms are tanh(2 * 0.5 + 1 * 0.25) and tanh(0 * 0.5 - 3 * -1)."""
    distraction = ContentDistraction(2)
    distraction.load_state_dict({"now": torch.tensor([2.0, 0.0]), "before": torch.tensor([1.0, -3.0])})
    found = distraction(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, -1.0]]))
    torch.testing.assert_close(found, torch.tensor([[math.tanh(1.25), math.tanh(3.0)]]))


def test_the_least_divergence_is_that_of_the_nearest_step():
    """The expected divergences are KL((1/2, 1/2) || (1/4, 3/4)) = 1/2 log 2 + 1/2 log(2/3), and 0 for equal weights."""
    now = torch.tensor([[0.25, 0.75, 0.0], [0.25, 0.75, 0.0]])
    before = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]])
    expected = torch.tensor([0.5 * math.log(2) + 0.5 * math.log(2 / 3), 0.0])
    torch.testing.assert_close(least_divergence(now, before), expected, atol=1e-6, rtol=1e-6)


def test_a_position_that_is_read_no_more_is_far_but_finite():
    """The divergence must be finite even in float16, which rounds small weights to 0."""
    now, before = torch.tensor([[0.0, 1.0]]).half(), torch.tensor([[[1.0, 0.0]]]).half()
    assert 50 < least_divergence(now, before).item() < 100


def test_the_greatest_likeness_is_the_largest_cosine():
    """The cosines by hand are 0, -1 and 3/5."""
    now = torch.tensor([[2.0, 0.0]])
    before = torch.tensor([[[0.0, 5.0], [-1.0, 0.0], [3.0, 4.0]]])
    torch.testing.assert_close(greatest_likeness(now, before), torch.tensor([0.6]))
