"""Test ``copynet`` with the checks that all models share, and test its equations, gradients and sizes."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from tests.copy_contract import BASE, EOS, FIRST, SLOTS, SOURCES, TARGETS, CopyContract, copy_batch, copy_task
from tests.model_contract import PAD, build_model, collate, log_probs, make_dictionary, make_task
from tests.reference import copynet as reference
from wean_fairseq.errors import UserError
from wean_fairseq.modules import Copying

TINY = {"embed_dim": 6, "hidden_size": 8}
OPTIONS: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "full readout": {"readout": "full"},
    "coverage": {"attention_coverage": True},
    "early reset": {"cell": "gru-early-reset"},
    "location": {"location_width": 4},
    "query embedding": {"output_layer": "query_embedding"},
}


class TestCopyNetContract(CopyContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        arch: (arch, TINY)
        for arch in ("copynet", "rnnsearch", "enc_dec", "copynet_lcsts", "rnnsearch_lcsts", "enc_dec_lcsts")
    } | {
        "copynet_lcsts_full": ("copynet_lcsts_full", TINY),
        "copynet_full": ("copynet_full", TINY | {"attention_dim": 5}),
        "copynet_lcsts_release": ("copynet_lcsts_release", TINY),  # the earlier names of the two archs
        "copynet_release": ("copynet_release", TINY | {"attention_dim": 5}),
    }
    cases |= {name: ("copynet", TINY | options) for name, options in OPTIONS.items()}


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("copynet", {}),
        ("rnnsearch", {}),
        ("enc_dec", {}),
        ("copynet_full", {"attention_dim": 5}),
        ("copynet", {"oov_input": "copy"}),
        ("rnnsearch", {"cell": "lstm", "readout": "full"}),
        *(("copynet", options) for options in OPTIONS.values()),
    ],
)
def test_the_probabilities_are_those_of_the_equations(arch, options):
    """The oracle is the naive loops of ``tests/reference/copynet.py``, with slots, duplicates and overflow."""
    model = build_model(arch, copy_task(), **TINY, **options)
    if model.decoder.coverage_weight is not None:
        # The initial coverage weight is 0, which would hide the effect of coverage.
        torch.nn.init.constant_(model.decoder.coverage_weight, 0.7)
    batch = copy_batch()
    with torch.no_grad():
        found = log_probs(model, batch).exp()
        for row, source in enumerate(SOURCES):
            previous = [EOS, *TARGETS[row][:-1]]
            expected = reference.distribution(model, source, previous, SLOTS)
            torch.testing.assert_close(found[row, : len(previous)], expected, rtol=1e-4, atol=1e-6)


def fix_copy_scores(decoder, scores):
    """Replace the copy scores (1, S) of the source positions, for a single sentence with one step."""
    step = decoder.step

    def step_with_scores(*given):
        found, state = step(*given)
        return replace(found, copying=Copying(scores.unsqueeze(1), None)), state

    decoder.step = step_with_scores


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (9, 3 / 28),  # in the vocabulary but not in the source, so it can only be generated
        (7, (1 + 4) / 28),  # in the vocabulary and in the source
        (FIRST, (2 + 8) / 28),  # outside the vocabulary and twice in the source, so it can only be copied
        (FIRST + 1, 0.0),  # this source does not use the slot
        (3, 2 / 28),  # words in neither vocabulary nor source are scored as <unk>
    ],
)
def test_the_four_branches_of_eq_5_and_6(word, expected):
    """The probabilities are computed by hand for the source "slot-0 w7 slot-0 </s>".

    Generating has the weights 2 for <unk>, 3 for word 9, and 1 each for word 7 and eight others, in total 14. Copying
    has the weights 2, 4 and 8, in total 14. </s> is never copied, even with a large weight.
    """
    model = build_model("copynet", copy_task(), **TINY)
    decoder = model.decoder
    torch.nn.init.zeros_(decoder.output.score.out_proj.weight)
    bias = torch.full((BASE,), float("-inf"))
    bias[3], bias[9], bias[7] = math.log(2), math.log(3), 0.0
    bias[10:18] = 0.0
    decoder.output.score.out_proj.bias.data = bias
    batch = collate([torch.tensor([FIRST, 7, FIRST, EOS])], [torch.tensor([EOS])])
    copied = torch.tensor([2.0, 4.0, 8.0, 64.0]).log()
    fix_copy_scores(decoder, copied.unsqueeze(0))
    assert log_probs(model, batch)[0, 0, word].exp().item() == pytest.approx(expected, abs=1e-6)


def test_a_word_that_is_hardly_ever_copied_still_gets_a_gradient():
    """Test a copy score that is 200 below the others, so that float32 rounds its probability to 0.

    Its log-probability and gradient are not 0.
    """
    model = build_model("copynet", copy_task(), **TINY)
    scores = torch.tensor([[-200.0, 0.0, 0.0, 0.0]], requires_grad=True)
    fix_copy_scores(model.decoder, scores)
    batch = collate([torch.tensor([FIRST, 7, 8, EOS])], [torch.tensor([FIRST])])
    loss = model(**batch).loss
    loss.backward()
    assert 190 < loss.item() < 220
    assert scores.grad[0, 0].item() == pytest.approx(-1.0, abs=1e-5)


def test_enc_dec_and_rnnsearch_have_no_part_of_what_they_leave_out():
    names = {
        arch: {name for name, _ in build_model(arch, **TINY).named_parameters()} for arch in ("rnnsearch", "enc_dec")
    }
    assert not any("copy" in name for name in names["rnnsearch"])
    assert not any("copy" in name or "attention" in name for name in names["enc_dec"])


def test_what_does_not_copy_takes_slots_for_unknown_words():
    model = build_model("rnnsearch", copy_task(), **TINY)
    batch = copy_batch()
    without = batch | {"target": torch.where(batch["target"] >= BASE, 3, batch["target"])}
    assert model(**batch).loss.item() == model(**without).loss.item()
    assert torch.equal(model.get_targets({"target": batch["target"]}, None), without["target"])


def test_the_papers_sizes():
    """Section 5.1 of the paper states embeddings of 150 and 300 hidden units.

    The parameters are counted by hand from the equations.
    """
    words = 1000 + 4
    model = build_model("copynet", make_task(make_dictionary(1000)))
    embed = words * 150
    encoder = 2 * 3 * (300 * 150 + 300 * 300 + 2 * 300) + 300 * 600 + 300
    cell = 3 * (300 * (150 + 600 + 600) + 300 * 300 + 2 * 300)
    attention, copy, output = 300 * 600 + 300 * 300 + 300, 600 * 300, words * 300 + words
    assert sum(p.numel() for p in model.parameters()) == embed + encoder + cell + attention + copy + output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system": "enc_dec", "attention_coverage": True}, "enc_dec has no attention"),
        ({"system": "enc_dec", "location_width": 5}, "enc_dec has no attention"),
        ({"location_width": -1}, "--location-width must be 0"),
        ({"output_layer": "query_embedding", "query_score": "dot"}, "needs queries as wide as the embeddings"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("copynet", **TINY, **options)


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("copynet", task, **TINY)


def test_padding_takes_no_attention():
    model = build_model("copynet", copy_task(), **TINY)
    batch = copy_batch()
    _, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    assert (extra["attn"][0].movedim(1, -1)[batch["src_tokens"] == PAD] == 0).all()
