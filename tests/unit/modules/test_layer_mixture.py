"""Test mixtures of BERT's layers (PC-SAN, eq. 2)."""

import pytest
import torch

from tests.reference import pc_san as reference
from wean_fairseq.modules import LastLayer, LayerMixture, mixture_weights

BATCH, TOPICS, LAYERS, WIDTH, MIXTURES = 2, 3, 4, 5, 6


def lively(kind: str) -> LayerMixture:
    mixture = LayerMixture(kind, LAYERS, MIXTURES)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixture.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return mixture


@pytest.mark.parametrize("kind", ["softmax", "free"])
def test_a_mixture_is_the_sum_over_layers(kind):
    """The expected values come from the naive loop of ``tests/reference/pc_san.py``."""
    mixture, layers = lively(kind), torch.randn(BATCH, TOPICS, LAYERS, WIDTH)
    with torch.no_grad():
        found = mixture(layers)
        assert found.shape == (BATCH, MIXTURES, TOPICS, WIDTH)
        for j, weights in enumerate(reference.alphas(mixture, kind)):
            for row in range(BATCH):
                for topic in range(TOPICS):
                    expected = reference.mixed(list(layers[row, topic]), weights)
                    torch.testing.assert_close(found[row, j, topic], expected)


@pytest.mark.parametrize("kind", ["softmax", "free"])
def test_at_the_start_every_layer_counts_alike(kind):
    layers = torch.randn(BATCH, TOPICS, LAYERS, WIDTH)
    found = LayerMixture(kind, LAYERS, MIXTURES)(layers)
    torch.testing.assert_close(found, layers.mean(dim=2).unsqueeze(1).expand_as(found))


def test_softmax_weights_are_positive_with_sum_one_and_free_ones_are_any():
    softmax, free = lively("softmax").alphas(), lively("free").alphas()
    assert softmax.shape == free.shape == (MIXTURES, LAYERS)
    assert (softmax > 0).all()
    torch.testing.assert_close(softmax.sum(dim=1), torch.ones(MIXTURES))
    assert (free < 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_sum_to_one_as_well_as_it_can_say(dtype):
    logits = torch.randn(2, 12).to(dtype)
    weights = mixture_weights(logits)
    assert weights.dtype == dtype
    torch.testing.assert_close(weights.float(), logits.double().softmax(-1).float(), rtol=0.01, atol=0.0)


def test_mixing_and_taking_the_mean_of_pieces_commute():
    """Features per word are sufficient, because mixing layers and averaging over word pieces can be exchanged."""
    mixture, pieces = lively("softmax"), torch.randn(1, 7, LAYERS, WIDTH)
    mean_first = mixture(pieces.mean(dim=1, keepdim=True))
    torch.testing.assert_close(mean_first, mixture(pieces).mean(dim=2, keepdim=True))


def test_the_last_layer_has_no_parameters():
    layers, last = torch.randn(BATCH, TOPICS, LAYERS, WIDTH), LastLayer()
    assert torch.equal(last(layers), layers[:, None, :, LAYERS - 1])
    assert not list(last.parameters())
