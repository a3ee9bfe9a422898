"""Test ``residual_lstm`` with the checks that all models share, and test its equations, dropout and residuals."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import PAD, ModelContract, build_model, log_probs, make_batch, make_dictionary, make_task
from tests.processors import needs_bf16_lstm
from tests.reference import residual_lstm as reference
from wean_fairseq.errors import UserError
from wean_fairseq.modules import ResidualLstm

# The initial weights are large, because with weights in +-0.08 and tiny layers every output would be near 0.
TINY = {"embed_dim": 6, "hidden_size": 6, "init_range": 0.7}


class TestResidualLstmContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "residual_lstm": ("residual_lstm", TINY),
        "stacked_lstm": ("stacked_lstm", TINY),
        "query embedding": ("residual_lstm", TINY | {"output_layer": "query_embedding"}),
        "dot": ("residual_lstm", TINY | {"output_layer": "query_embedding", "query_score": "dot"}),
        "concat": ("residual_lstm", TINY | {"output_layer": "query_embedding", "query_score": "concat"}),
        "one embedding": ("residual_lstm", TINY | {"share_embeddings": True}),
        "a layer left over": ("residual_lstm", TINY | {"num_layers": 3}),
        "narrow embeddings": ("residual_lstm", TINY | {"embed_dim": 4}),
        "recurrent sums": ("residual_lstm", TINY | {"residual_recurrent": True}),
        "pytorch's start": ("residual_lstm", TINY | {"init_range": 0.0}),
    }


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("residual_lstm", {}),
        ("stacked_lstm", {}),
        ("residual_lstm", {"num_layers": 5}),  # the fifth layer has no residual connection
        ("residual_lstm", {"num_layers": 3, "residual_every": 1}),
        ("residual_lstm", {"embed_dim": 4}),  # the embedding is added to the first 4 units
        ("residual_lstm", {"embed_dim": 9}),  # the last 3 units of the embedding are cut
        ("residual_lstm", {"output_layer": "query_embedding"}),
        ("residual_lstm", {"residual_recurrent": True}),
        ("residual_lstm", {"residual_recurrent": True, "num_layers": 5, "embed_dim": 4}),
    ],
)
def test_the_scores_are_those_of_the_paper(arch, options):
    """The expected values come from the naive forward pass of ``tests/reference/residual_lstm.py``."""
    model = build_model(arch, **TINY | options)
    batch = make_batch()
    with torch.no_grad():
        found, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        for row in range(3):
            source, previous = (batch[name][row] for name in ("src_tokens", "prev_output_tokens"))
            previous = previous[previous != PAD]
            expected = reference.logits(model, source[source != PAD], previous)
            torch.testing.assert_close(found[row, : len(previous)], expected, rtol=1e-4, atol=1e-5)


def test_with_layers_that_give_nothing_the_residuals_hand_the_input_through():
    """With all weights 0, every LSTM outputs 0, so the output equals the input if all layers have a residual."""
    inputs = torch.randn(2, 3, 5)
    for layers, expected in ((4, inputs), (5, torch.zeros_like(inputs))):
        stack = ResidualLstm(5, 5, layers, residual_every=2, dropout=0.0)
        for parameter in stack.parameters():
            torch.nn.init.zeros_(parameter)
        torch.testing.assert_close(stack(inputs)[0], expected)


def test_dropout_follows_every_layer_and_leaves_the_residual_alone():
    """With dropout 1 every layer outputs 0, and the residuals pass the input on."""
    inputs = torch.randn(2, 3, 5)
    stack = ResidualLstm(5, 5, 4, residual_every=2, dropout=1.0).train()
    torch.testing.assert_close(stack(inputs)[0], inputs)
    assert [block.dropout for block in stack.blocks] == [1.0, 1.0]


def test_the_defaults_are_the_papers():
    """The paper has 4 layers of 512 units, embeddings 512, dropout 0.5, and residuals over 2 layers."""
    model = build_model("residual_lstm")
    width, words = 512, 23
    layer = 4 * (2 * width * width + 2 * width)
    assert sum(p.numel() for p in model.parameters()) == 8 * layer + 2 * words * width + words * width + words
    assert model.encoder.stack.block_sizes == model.decoder.stack.block_sizes == [2, 2]
    assert {block.dropout for block in model.encoder.stack.blocks} == {0.5}
    assert model.encoder.stack.dropout.p == model.decoder.stack.dropout.p == 0.5
    weights = torch.cat([p.flatten() for p in model.parameters()])
    assert weights.abs().max() <= 0.08
    assert model.encoder.embed_tokens.weight[PAD].abs().max() == 0


def test_recurrent_sums_are_another_model_with_the_same_weights():
    plain, recurrent = (build_model("residual_lstm", **TINY, residual_recurrent=on) for on in (False, True))
    recurrent.load_state_dict(plain.state_dict())
    assert (log_probs(plain, make_batch()) - log_probs(recurrent, make_batch())).abs().max() > 0.01


def test_recurrent_sums_drop_out_as_the_fused_layers_do():
    """With dropout 1 every layer passes 0 upward for any recurrent state, so the output equals the input."""
    inputs = torch.randn(2, 3, 5)
    stack = ResidualLstm(5, 5, 4, residual_every=2, dropout=1.0, recurrent=True).train()
    torch.testing.assert_close(stack(inputs)[0], inputs)


def test_the_same_layers_without_residuals_are_the_baseline():
    model = build_model("stacked_lstm", **TINY)
    assert model.encoder.stack.block_sizes == [4]
    assert build_model("stacked_lstm", **TINY, residual_every=2).encoder.stack.block_sizes == [2, 2]


def test_a_model_without_any_residual_is_reported(caplog):
    for layers, every, is_reported in ((2, 3, True), (1, 2, True), (2, 2, False), (1, 0, False)):
        caplog.clear()
        build_model("residual_lstm", num_layers=layers, residual_every=every)
        assert ("this model has no residual connections" in caplog.text) == is_reported


def test_embeddings_are_two_or_with_the_switch_one():
    for shared in (False, True):
        model = build_model("residual_lstm", **TINY, share_embeddings=shared)
        assert (model.encoder.embed_tokens is model.decoder.embed_tokens) is shared


def test_the_source_is_read_through_the_last_state_alone():
    """Without attention the size of the encoder output does not depend on the length of the source."""
    model = build_model("residual_lstm", **TINY)
    encoder_out = model.encoder(make_batch()["src_tokens"])
    assert {name: state.shape for name, state in encoder_out.items()} == {
        "final_hidden": (4, 3, 6),
        "final_cell": (4, 3, 6),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "--num-layers must be 1 or more, but is 0"),
        ({"residual_every": -1}, "--residual-every must be 0 or more, but is -1"),
        ({"init_range": -0.1}, "--init-range must be 0"),
        (
            {"output_layer": "query_embedding", "query_score": "dot", "embed_dim": 4},
            "needs queries as wide as the embeddings, but they are 6 and 4 wide",
        ),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("residual_lstm", **TINY | options)


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the tolerances are 2% of the loss and 5% of each gradient norm."""
    needs_bf16_lstm()
    batch, results = make_batch(), {}
    for enabled in (False, True):
        model = build_model("residual_lstm", **TINY | {"init_range": 0.2})
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(**batch).loss
        loss.backward()
        results[enabled] = loss.detach(), [p.grad for p in model.parameters()]
    torch.testing.assert_close(results[True][0], results[False][0], rtol=0.02, atol=0.0)
    for half, full in zip(results[True][1], results[False][1], strict=True):
        assert (half - full).norm() <= 0.05 * full.norm()


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("residual_lstm", task, **TINY)


def test_label_smoothing_is_the_cross_entropy_of_the_smoothed_target():
    """The oracle is (1 - e - e_i) nll - e_i sum over the words of log p, e_i = e / (V - 1), written out."""
    model, batch, eps = build_model("residual_lstm", **TINY), make_batch(), 0.1
    lprobs = log_probs(model, batch)
    each = eps / 22
    nll = -lprobs.gather(2, batch["target"].unsqueeze(2)).squeeze(2)
    expected = ((1 - eps - each) * nll - each * lprobs.sum(-1))[batch["target"] != PAD].sum()
    torch.testing.assert_close(model(**batch, label_smoothing=eps).loss, expected, rtol=1e-5, atol=1e-5)
