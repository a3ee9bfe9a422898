"""Test ``drgd`` with the checks that all models share, and test its equations and the KL divergence in its loss."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import PAD, ModelContract, build_model, make_batch, unpad
from tests.reference import drgd as reference
from wean_fairseq.errors import UserError
from wean_fairseq.models.base import StepDecoder

SIZES = {"embed_dim": 6, "hidden_size": 8, "attention_dim": 5, "latent_dim": 7}
TINY = SIZES | {"kl_weight": 0.0}  # without the divergence, the loss is the likelihood


class TestDrgdContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "drgd": ("drgd", TINY),
        "query embedding": ("drgd", TINY | {"output_layer": "query_embedding"}),
        "early reset": ("drgd", TINY | {"cell": "gru-early-reset"}),
    }


def read(model, noise):
    """Yield the target of each pair, and its scores and KL divergences from the reference, given noise (B, T, Z)."""
    sources, targets = unpad(make_batch())
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        previous = torch.cat([target[-1:], target[:-1]])
        yield target, reference.read(model, source, previous, noise[row, : len(target)])


def draw(batch, seed=1):
    """Return the noise that a model draws step by step after ``torch.manual_seed(seed)``."""
    torch.manual_seed(seed)
    sentences, length = batch["target"].shape
    return torch.stack([torch.randn(sentences, SIZES["latent_dim"]) for _ in range(length)], dim=1)


@pytest.mark.parametrize("options", [{}, {"output_layer": "query_embedding"}, {"cell": "gru-early-reset"}])
@pytest.mark.parametrize("train", [False, True])
def test_the_scores_are_those_of_the_equations(options, train):
    """The oracle is the naive pass of ``tests/reference/drgd.py``, with padding on either side.

    With noise 0 the latent variable is the mean.
    """
    model, batch = build_model("drgd", **SIZES | options).train(train), make_batch()
    noise = draw(batch) * train
    torch.manual_seed(1)
    found, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    for row, (target, (expected, _)) in enumerate(read(model, noise)):
        torch.testing.assert_close(found[row, : len(target)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("train", "updates", "weight"), [(False, 10, 0.5), (True, 10, 0.125), (True, 99, 0.5)])
def test_the_loss_has_the_divergence_of_the_words_of_each_target(train, updates, weight):
    """The expected loss is the likelihood given the latents plus torch's divergence of two normal distributions.

    In training, the weight of the divergence rises for 40 updates.
    """
    model, batch = build_model("drgd", **SIZES, kl_weight=0.5, kl_anneal_updates=40).train(train), make_batch()
    model.set_num_updates(updates)
    noise = draw(batch) * train
    torch.manual_seed(1)
    sums = model(**batch)
    read_pairs = list(read(model, noise))
    divergence = sum(steps.sum() for _, (_, steps) in read_pairs)
    loss = sum(torch.nn.functional.cross_entropy(logits, target, reduction="sum") for target, (logits, _) in read_pairs)
    torch.testing.assert_close(sums.nll_loss, loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.loss, loss + weight * divergence, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.logged["kl"], divergence, rtol=1e-5, atol=1e-5)
    assert batch["target"].eq(PAD).any()
    assert divergence > 1


def test_a_divergence_of_its_whole_weight_is_the_default():
    decoder = build_model("drgd", **SIZES).train().decoder
    assert decoder.kl_weight * decoder.annealed == 1.0


def test_the_defaults_are_the_sizes_of_the_release():
    """The parameters are counted by hand for embeddings of 350, 500 units, 500 latent units and 23 words."""
    embed, width, latent, words = 350, 500, 500, 23
    gru = lambda given: 3 * (given * width + width * width + 2 * width)  # noqa: E731
    attention = 2 * width * width + width * width + width + width
    latents = (embed + width) * width + width + latent * width + 2 * (width * latent + latent)
    assert sum(p.numel() for p in build_model("drgd").parameters()) == (
        words * embed
        + 2 * gru(embed)
        + (2 * width * width + width)
        + gru(embed)
        + attention
        + gru(embed + 2 * width)
        + latents
        + (latent + width) * width
        + width
        + words * width
        + words
    )


def test_a_negative_weight_is_refused():
    with pytest.raises(UserError, match="--kl-weight must be 0 or more"):
        build_model("drgd", **SIZES, kl_weight=-1.0)


def test_the_default_begin_names_a_family_whose_memory_has_no_first_state():
    """The ``start`` of a ``GruMemory`` must be a tensor.

    Without this check the next call failed with a misleading message.
    """
    model, batch = build_model("drgd", **TINY), make_batch()
    memory = model.decoder.remember(model.encoder(batch["src_tokens"]))
    with pytest.raises(NotImplementedError, match="DrgdDecoder must define begin"):
        StepDecoder.begin(model.decoder, memory)
