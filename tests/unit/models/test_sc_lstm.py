"""Test ``sc_lstm`` with the checks that all models share, and compare its keywords with a vector over all words."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import EOS, build_model, make_dictionary, make_task
from tests.reference import sc_lstm as reference
from tests.topic_contract import ESSAYS, TopicContract, scored
from tests.topic_contract import essay_batch as batch_of
from wean_fairseq.errors import UserError

TINY = {"embed_dim": 6, "hidden_size": 8, "init_range": 0.5}
TOPICS = [[7, 9, 12], [5], [6, 20, 6, 8, 8]]  # the last source has some topics twice


class TestScLstmContract(TopicContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "sc_lstm": ("sc_lstm", TINY),
        "sc_lstm_small": ("sc_lstm_small", TINY),
        "one layer": ("sc_lstm", TINY | {"num_layers": 1}),
        "three layers": ("sc_lstm", TINY | {"num_layers": 3}),
    }

    def test_every_parameter_gets_a_gradient(self, model, case):
        """Test that every parameter gets a gradient, as for all models.

        Among the rows of the keyword matrix, only those of topics in the batch get a gradient.
        """
        super().test_every_parameter_gets_a_gradient(model, case)
        assert model.decoder.gate.write.weight.grad.any(dim=1).sum() < len(model.decoder.gate.write.weight)


def essay_batch(**layout: Any) -> dict[str, torch.Tensor]:
    return batch_of(TOPICS, ESSAYS, **layout)


@pytest.mark.parametrize("options", [{}, {"num_layers": 1}, {"num_layers": 3}])
def test_probabilities_are_those_of_the_equations_with_all_keywords(options):
    """The expected values come from the naive loops of ``tests/reference/sc_lstm.py``.

    A topic given twice is one keyword.
    """
    model = build_model("sc_lstm", **TINY | options)
    with torch.no_grad():
        logits, extra = scored(model, essay_batch(extra_source=2, extra_target=3))
        for row, (topics, essay) in enumerate(zip(TOPICS, ESSAYS, strict=True)):
            probabilities, trajectory = reference.run(model, topics, [EOS, *essay[:-1]])
            torch.testing.assert_close(logits[row, : len(essay)].softmax(-1), probabilities, rtol=1e-4, atol=1e-6)
            left = torch.stack([keywords.sum() for keywords in trajectory[1:]])
            torch.testing.assert_close(extra["keywords"][row, : len(essay)].sum(-1), left, rtol=1e-4, atol=1e-6)


def test_keywords_are_only_ever_read_out():
    _, extra = scored(build_model("sc_lstm", **TINY), essay_batch())
    keywords = extra["keywords"]
    assert (keywords[:, 1:] <= keywords[:, :-1]).all()
    assert ((keywords >= 0) & (keywords < 1)).all()
    assert extra["attn"] == [None]


def test_the_keywords_decide_what_is_written():
    """Other topics change the probabilities, but only through tanh(W_d d)."""
    model = build_model("sc_lstm", **TINY)
    batch = essay_batch()
    other = batch | {"src_tokens": batch["src_tokens"].where(batch["src_tokens"] != 9, 10)}
    difference = (scored(model, batch)[0] - scored(model, other)[0]).abs()
    assert difference[0].max() > 0.01
    assert difference[1:].max() == 0
    torch.nn.init.zeros_(model.decoder.gate.write.weight)
    assert torch.equal(scored(model, batch)[0], scored(model, other)[0])


def test_the_control_loss_is_that_of_a_loop_whatever_the_padding():
    """The expected loss comes from the loops of ``tests/reference/sc_lstm.py``."""
    model = build_model("sc_lstm", **TINY, control_loss_weight=0.5)
    expected = torch.zeros(())
    for topics, essay in zip(TOPICS, ESSAYS, strict=True):
        expected = expected + reference.control_loss(reference.run(model, topics, [EOS, *essay[:-1]])[1], 0.5)
    for extra_target in (0, 4):
        sums = model(**essay_batch(extra_target=extra_target))
        torch.testing.assert_close(sums.loss - sums.nll_loss, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(sums.logged["control"] * 0.5, expected, rtol=1e-4, atol=1e-5)


def test_the_control_loss_has_a_gradient_without_any_keyword():
    model = build_model("sc_lstm", **TINY, control_loss_weight=0.5)
    sums = model(**batch_of([[]], [[7, EOS]]))
    sums.loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_control_loss_is_off_by_default():
    assert build_model("sc_lstm", **TINY)(**essay_batch()).logged == {}


def test_the_sizes_of_mta_lstm():
    """MTA-LSTM has embeddings of 300 and 2 x 800 units, and each word has one row for reading and one for writing."""
    words = 96 + 4
    model = build_model("sc_lstm", make_task(make_dictionary(96)))
    lstm = 4 * 800 * (300 + 800 + 2) + 4 * 800 * (800 + 800 + 2)
    keywords = words * (300 + 2 * 800 + 2 * 800)
    expected = words * 300 + lstm + keywords + words * 1600 + words
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "--num-layers must be 1 or more"),
        ({"control_loss_weight": -1.0}, "--control-loss-weight must be 0 or more"),
        ({"embed_dim": 0}, "--embed-dim must be 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("sc_lstm", **TINY | options)
