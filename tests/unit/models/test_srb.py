"""Test ``srb`` with the checks that all models share, and test its equations and the relevance in its loss."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import ModelContract, build_model, make_batch, unpad
from tests.reference import srb as reference
from wean_fairseq.errors import UserError

SIZES = {"embed_dim": 6, "hidden_size": 8}
TINY = SIZES | {"relevance_weight": 0.0}  # without the relevance, the loss is the likelihood


class TestSrbContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "srb": ("srb", TINY),
        "gate of the state": ("srb", TINY | {"gate_input": "state"}),
        "gate of the release": ("srb", TINY | {"gate_input": "release"}),
        "query embedding": ("srb", TINY | {"output_layer": "query_embedding"}),
    }


def pairs():
    sources, targets = unpad(make_batch())
    return [(source, torch.cat([row[-1:], row[:-1]])) for source, row in zip(sources, targets, strict=True)]


@pytest.mark.parametrize(
    "options", [{}, {"gate_input": "state"}, {"gate_input": "release"}, {"output_layer": "query_embedding"}]
)
def test_the_scores_are_those_of_the_paper(options):
    """The expected values come from the naive forward pass of ``tests/reference/srb.py``, with any padding."""
    model, batch = build_model("srb", **SIZES | options), make_batch()
    found, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    for row, (source, previous) in enumerate(pairs()):
        expected, _ = reference.logits_and_relevance(model, source, previous)
        torch.testing.assert_close(found[row, : len(previous)], expected, rtol=1e-4, atol=1e-5)


def test_the_loss_rewards_the_relevance_of_each_summary():
    """The expected loss is the likelihood loss minus lambda times the sum of cosines in ``tests/reference/srb.py``."""
    model = build_model("srb", **SIZES, relevance_weight=0.5)
    sums = model(**make_batch())
    cosines = sum(reference.logits_and_relevance(model, *pair)[1] for pair in pairs())
    torch.testing.assert_close(sums.loss, sums.nll_loss - 0.5 * cosines, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.logged["relevance"], cosines, rtol=1e-4, atol=1e-5)
    assert cosines.abs() > 0.1


def test_a_gate_that_is_shut_lets_no_word_in():
    """If the gate bias is minus infinity, words are read as zeros, so sources of the same length have equal states."""
    model = build_model("srb", **SIZES)
    torch.nn.init.constant_(model.encoder.lstm.gate.bias, -1e9)
    sources = torch.tensor([[4, 9, 2], [7, 5, 2]])
    out = model.encoder(sources)["encoder_out"]
    torch.testing.assert_close(out[0], out[1])


def test_the_gate_of_the_release_lets_the_first_word_in():
    """If the gate bias is minus infinity, only the first word has an effect with any padding."""
    model = build_model("srb", **SIZES, gate_input="release")
    torch.nn.init.constant_(model.encoder.lstm.gate.bias, -1e9)
    sources = torch.tensor([[1, 4, 9, 2], [4, 7, 2, 1], [5, 9, 2, 1]])  # 1 is padding
    first, same, other = model.encoder(sources)["encoder_out"].unbind()
    torch.testing.assert_close(first[1:], same[:3])
    assert not torch.allclose(same, other)


def test_padding_is_read_as_zeros_on_either_side():
    model = build_model("srb", **SIZES)
    sources = torch.tensor([[1, 4, 2], [7, 2, 1]])  # 1 is padding
    out = model.encoder(sources)["encoder_out"]
    assert torch.equal(out.eq(0).all(dim=-1), sources.eq(1))


def test_the_defaults_are_those_of_the_release():
    """The parameters are counted by hand for embeddings of 400, 500 units and 23 words."""
    model = build_model("srb")
    width, embed, words = 500, 400, 23
    lstm = 4 * (embed * width + width * width + 2 * width)
    gate = (width + embed) * width + width + width + 1
    attention, combine = 2 * (width * width + width), 2 * width * width + width
    assert sum(p.numel() for p in model.parameters()) == (
        words * embed + 2 * lstm + gate + attention + combine + words * width + words
    )
    assert model.decoder.relevance_weight == 0.0001


def test_a_negative_weight_is_refused():
    with pytest.raises(UserError, match="--relevance-weight must be 0"):
        build_model("srb", **SIZES, relevance_weight=-1.0)
