"""Test ``mta_lstm`` with the checks that all models share for every arch, and test its coverage against loops."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import EOS, PAD, build_model, make_batch, make_dictionary, make_task, task_inputs
from tests.reference import mta_lstm as reference
from tests.topic_contract import ESSAYS, TOPICS, TopicContract, essay_batch, scored
from wean_fairseq.errors import UserError

# The shared checks use sources of up to seven words, so the model has seven topic slots. They expect the loss to be the
# likelihood alone, so the coverage loss is off.
TINY = {"embed_dim": 6, "hidden_size": 8, "attention_dim": 5, "init_range": 0.5}
CONTRACT = TINY | {"topic_slots": 7, "coverage_loss_weight": 0.0}
ARCHS = ("mta_lstm", "tat_lstm", "tav_lstm", "mta_lstm_small")


class TestMtaLstmContract(TopicContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {arch: (arch, CONTRACT) for arch in ARCHS} | {
        "three layers": ("mta_lstm", CONTRACT | {"num_layers": 3}),
        "one layer": ("tat_lstm", CONTRACT | {"num_layers": 1}),
    }


@pytest.mark.parametrize(
    ("arch", "options"),
    [("mta_lstm", {}), ("tat_lstm", {}), ("tav_lstm", {}), ("mta_lstm", {"num_layers": 1}), ("mta_lstm_small", {})],
)
def test_probabilities_and_attention_are_those_of_the_equations(arch, options):
    """The oracle is the naive loops of ``tests/reference/mta_lstm.py``, with empty topic slots and padded essays."""
    model = build_model(arch, **TINY, **options)
    batch = essay_batch(extra_source=2, extra_target=3)
    with torch.no_grad():
        logits, extra = scored(model, batch)
        for row, (topics, essay) in enumerate(zip(TOPICS, ESSAYS, strict=True)):
            previous = [EOS, *essay[:-1]]
            probabilities, attention, phi = reference.run(model, topics, previous, len(essay))
            torch.testing.assert_close(logits[row, : len(essay)].softmax(-1), probabilities, rtol=1e-4, atol=1e-6)
            if arch == "tav_lstm":
                continue
            found = extra["attn"][0][row, : len(essay)]
            of_topic = [batch["src_tokens"][row].tolist().index(topic) for topic in topics]
            torch.testing.assert_close(found[:, of_topic], attention, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(found.sum(-1), torch.ones(len(essay)))
            if arch != "tat_lstm":
                encoder_out = model.encoder(batch["src_tokens"], **task_inputs(model, batch))
                torch.testing.assert_close(encoder_out["importance"][row, : len(topics)], phi, rtol=1e-4, atol=1e-6)


def test_coverage_changes_the_attention():
    """The attention differs from the second step on, because the coverage C is 1 in the first step."""
    with_coverage, without = build_model("mta_lstm", **TINY), build_model("tat_lstm", **TINY)
    without.load_state_dict(with_coverage.state_dict(), strict=False)
    (_, covered), (_, plain) = (scored(model, essay_batch()) for model in (with_coverage, without))
    difference = (covered["attn"][0] - plain["attn"][0]).abs()
    assert difference[:, 0].max() == 0
    assert difference[0, 1:].max() > 0.01


@pytest.mark.parametrize("weight", [0.1, 0.7])
def test_the_coverage_loss_is_that_of_a_loop_whatever_the_padding(weight):
    """The expected loss comes from loops of ``tests/reference/mta_lstm.py`` over all real topics and steps."""
    model = build_model("mta_lstm", **TINY, coverage_loss_weight=weight)
    expected = torch.zeros(())
    for topics, essay in zip(TOPICS, ESSAYS, strict=True):
        _, attention, phi = reference.run(model, topics, [EOS, *essay[:-1]], len(essay))
        expected = expected + reference.coverage_loss(attention, phi, weight)
    for extra_target in (0, 4):
        batch = essay_batch(extra_target=extra_target)
        sums = model(**batch, **task_inputs(model, batch))
        torch.testing.assert_close(sums.loss - sums.nll_loss, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(sums.logged["coverage"] * weight, expected, rtol=1e-4, atol=1e-5)


def test_the_coverage_loss_is_on_by_default_and_can_be_turned_off():
    model, without = build_model("mta_lstm", **TINY), build_model("mta_lstm", **TINY, coverage_loss_weight=0.0)
    batch = essay_batch()
    more = task_inputs(model, batch)
    assert model(**batch, **more).logged["coverage"] > 0
    assert without(**batch, **more).logged == {}


def test_a_longer_essay_is_asked_for_by_its_length():
    """phi is proportional to the length N, so the coverage decreases more slowly for a longer essay."""
    model = build_model("mta_lstm", **TINY)
    batch = essay_batch()
    short, long = (model.encoder(batch["src_tokens"], essay_lengths=torch.full((3,), n)) for n in (10, 30))
    torch.testing.assert_close(long["importance"], 3 * short["importance"])


def test_each_mode_has_only_the_parameters_it_needs():
    names = {arch: {name for name, _ in build_model(arch, **TINY).named_parameters()} for arch in ARCHS[:3]}
    assert names["mta_lstm"] - names["tat_lstm"] == {"encoder.importance.proj.weight"}
    assert names["tat_lstm"] < names["mta_lstm"]
    assert names["tav_lstm"] - names["mta_lstm"] == {"decoder.start_proj.weight", "decoder.start_proj.bias"}
    assert not any("attention" in name for name in names["tav_lstm"])


def test_the_papers_sizes_and_initialisation():
    """The paper has embeddings 300, 2 x 800 units, and weights in [-0.04, 0.04]. Parameters are counted by hand."""
    words = 96 + 4
    model = build_model("mta_lstm", make_task(make_dictionary(96)))
    lstm = 4 * 800 * (600 + 800 + 2) + 4 * 800 * (800 + 800 + 2)
    attention = 800 * 800 + 800 + 800 * 300 + 800
    expected = words * 300 + lstm + attention + 5 * 300 * 5 + words * 800 + words
    assert sum(p.numel() for p in model.parameters()) == expected
    assert all(p.abs().max() <= 0.04 for p in model.parameters())
    assert model.decoder.lstm.weight_hh_l1.abs().max() > 0.0399
    assert not model.decoder.embed_tokens.weight[PAD].any()


def test_known_words_start_from_their_vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("w3 1 2 3 4 5 6\nelsewhere 9 9 9 9 9 9\nw5 6 5 4 3 2 1\n", encoding="utf-8")
    embeddings = build_model("mta_lstm", **TINY, topic_vectors=str(path)).decoder.embed_tokens.weight
    plain = build_model("mta_lstm", **TINY).decoder.embed_tokens.weight
    assert embeddings[7].tolist() == [1, 2, 3, 4, 5, 6]
    assert embeddings[9].tolist() == [6, 5, 4, 3, 2, 1]
    others = [index for index in range(len(plain)) if index not in (7, 9)]
    assert torch.equal(embeddings[others], plain[others])


def test_only_coverage_asks_for_the_length():
    assert [build_model(arch, **TINY).capabilities.needs_length for arch in ARCHS[:3]] == [True, False, False]


def test_too_many_topics_and_no_length_are_one_clear_sentence():
    batch = make_batch()  # one of its sources has seven topics
    model = build_model("mta_lstm", **TINY)
    with pytest.raises(UserError, match="a source has 7 topic words, but there are only 5 slots"):
        model.encoder(batch["src_tokens"], essay_lengths=torch.tensor([5, 7, 2]))
    with pytest.raises(UserError, match="--task topic_essay"):
        model.encoder(essay_batch()["src_tokens"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic_slots": 0}, "--topic-slots must be 1 or more"),
        ({"num_layers": 0}, "--num-layers must be 1 or more"),
        ({"coverage_loss_weight": -0.1}, "--coverage-loss-weight must be 0 or more"),
        ({"hidden_size": 0}, "--hidden-size must be 1 or more"),
        ({"init_range": -1.0}, "--init-range must be 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("mta_lstm", **TINY | options)
