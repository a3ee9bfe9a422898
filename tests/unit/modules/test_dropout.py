"""Test dropout from 16 random bits per number: its rate, its scale, and the same mask in the backward pass."""

import pytest
import torch

from wean_fairseq.modules.dropout import DROP_LEVELS, Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_are_dropped_or_divided_by_the_probability_of_being_kept(probability, dtype):
    torch.manual_seed(1)
    count = 200_003  # a number that is not a multiple of four
    values = torch.full((count,), 2.0, dtype=dtype, requires_grad=True)
    dropped = dropout(values, probability, training=True)
    kept = dropped != 0
    # The tolerance is four standard deviations of a binomial share.
    assert kept.double().mean().item() == pytest.approx(
        1 - probability, abs=4 * (probability * (1 - probability) / count) ** 0.5
    )
    torch.testing.assert_close(
        dropped[kept].double(),
        torch.full((1,), 2 / (1 - probability)).double().expand(int(kept.sum())),
        rtol=0.004,
        atol=0,
    )
    dropped.sum().backward()
    torch.testing.assert_close(values.grad, dropped.detach() / 2, rtol=0.008, atol=0)


def test_every_place_of_four_is_dropped_alike():
    """Four numbers share one random integer, of which each number uses separate bits."""
    torch.manual_seed(2)
    kept = (dropout(torch.ones(100_000, 4), 0.3, training=True) != 0).double()
    torch.testing.assert_close(kept.mean(dim=0), torch.full((4,), 0.7).double(), rtol=0, atol=0.006)
    covariance = torch.cov(kept.t())
    assert (covariance - covariance.diag().diag()).abs().max() < 0.003


def test_the_seed_decides():
    def draw(seed):
        torch.manual_seed(seed)
        return dropout(torch.ones(7, 3), 0.5, training=True)

    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))


def test_nothing_is_dropped_in_evaluation_nor_with_probability_0_and_all_with_1():
    values = torch.randn(5, 3)
    assert Dropout(0.5).eval()(values) is values
    assert torch.equal(dropout(values, 0.4 / DROP_LEVELS, training=True), values)
    assert not dropout(values, 1.0, training=True).any()


@pytest.mark.parametrize(("probability", "dropped"), [(0.25, 16_384), (1 / 65_536, 1), (65_535 / 65_536, 65_535)])
def test_of_all_the_values_of_16_bits_a_probability_drops_its_share(probability, dropped, monkeypatch):
    """The random numbers are replaced by all 65,536 values of 16 bits, each of them once.

    Exactly a share p of these values must be dropped.
    """
    monkeypatch.setattr(
        torch.Tensor, "random_", lambda drawn, *_: drawn.copy_(torch.arange(-(2**15), 2**15).short().view(torch.int64))
    )
    kept = dropout(torch.ones(2**16), probability, training=True)
    assert (kept == 0).sum() == dropped
    torch.testing.assert_close(kept.max(), torch.tensor(65_536 / (65_536 - dropped)))
