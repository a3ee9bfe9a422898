"""Test ``pointer_generator`` with the checks that all models share, and test its equations, coverage and sizes."""

import math
from typing import Any, ClassVar

import pytest
import torch

from tests.copy_contract import BASE, SLOTS, CopyContract, choices, copy_batch, copy_task
from tests.model_contract import EOS, PAD, UNK, build_model, collate, make_dictionary, make_task
from tests.reference import pointer_generator as reference
from wean_fairseq.errors import UserError
from wean_fairseq.modules import coverage_loss
from wean_fairseq.optim.adagrad_accumulator import AccumulatorAdagrad, AccumulatorAdagradConfig

TINY = {"embed_dim": 6, "hidden_size": 5, "attention_dim": 7, "weight_init": "pytorch"}
LIKELIHOOD = {"coverage_weight": 0.0}  # the shared checks expect the likelihood alone
QUERIES = {"output_layer": "query_embedding"}


class TestPointerGeneratorContract(CopyContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "pointer_generator": ("pointer_generator", TINY),
        "pointer_generator_see2017": ("pointer_generator_see2017", TINY),
        "pointer_generator_coverage": ("pointer_generator_coverage", TINY | LIKELIHOOD),
        "query_embedding": ("pointer_generator", TINY | QUERIES),
        "concat": ("pointer_generator", TINY | QUERIES | {"query_score": "concat"}),
        "as initialised in the paper": ("pointer_generator", TINY | {"weight_init": "see2017"}),
    }


def batch_with_an_empty_source(**layout: int) -> dict[str, torch.Tensor]:
    """Return the batch of the shared checks and a source without words, padded as fairseq pads them."""
    rows = copy_batch()
    sources, targets = ([row[row != PAD] for row in rows[name]] for name in ("src_tokens", "target"))
    return collate([*sources, torch.tensor([EOS])], [*targets, torch.tensor([7, UNK, EOS])], **layout)


def build(options: dict[str, Any] | None = None, arch: str = "pointer_generator", **more: Any) -> torch.nn.Module:
    return build_model(arch, copy_task(), **(TINY | (options or {}) | more))


@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"coverage": True}, QUERIES, QUERIES | {"query_score": "concat"}, {"weight_init": "see2017"}]
)
def test_all_of_it_is_that_of_the_equations(options, left_pad_source):
    """The expected values come from ``tests/reference/pointer_generator.py``."""
    model = build(options)
    batch = batch_with_an_empty_source(left_pad_source=left_pad_source)
    loss = torch.zeros(())
    with torch.no_grad():
        log_probs, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        for row, (source, previous, target) in enumerate(
            zip(batch["src_tokens"], batch["prev_output_tokens"], batch["target"], strict=True)
        ):
            source, previous, target = (words[words != PAD] for words in (source, previous, target))  # noqa: PLW2901
            expected = reference.read(model, source, previous)
            torch.testing.assert_close(log_probs[row, : len(previous)].exp(), expected.probs, rtol=1e-4, atol=1e-7)
            attention = extra["attn"][0][row, : len(previous)][:, batch["src_tokens"][row] != PAD]
            torch.testing.assert_close(attention, expected.attention, rtol=1e-4, atol=1e-6)
            loss -= expected.probs.gather(1, target.unsqueeze(1)).log().sum()
            loss += expected.coverage_loss.sum() if "coverage" in options else 0.0
        torch.testing.assert_close(model(**batch).loss, loss, rtol=1e-5, atol=1e-5)


def test_a_hardly_attended_word_still_learns():
    """The expected gradient is d -log((1 - g) a_j) / d score_j = -(1 - a_j), which is -1 for attention exp(-90).

    If the loss were computed from probabilities, float32 would round a_j and the gradient to 0.
    """
    model = build()
    batch = collate([torch.tensor([5, BASE, EOS])], [torch.tensor([BASE, EOS])])
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    scores = torch.tensor([[90.0, 0.0, 0.0]], requires_grad=True)
    model.decoder.attention.scores = lambda query, keys, coverage, query_map: scores + 0.0 * query.sum()
    lprobs = choices(model, batch["prev_output_tokens"][:, :1], encoder_out).log_probs(SLOTS)
    (-lprobs[0, 0, BASE]).backward()
    torch.testing.assert_close(scores.grad[0, 1], torch.tensor(-1.0))


def test_the_coverage_loss_is_that_of_a_loop():
    """The oracle applies eq. 10 and 12 position by position, from the attention that the model reports."""
    weight = 0.7
    model, batch = build(coverage=True, coverage_weight=weight), copy_batch(extra_target=2)
    with torch.no_grad():
        _, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        expected = 0.0
        for attention, target in zip(extra["attn"][0].tolist(), batch["target"].tolist(), strict=True):
            covered = [0.0] * len(attention[0])
            for weights, word in zip(attention, target, strict=True):
                expected += sum(map(min, weights, covered)) if word != PAD else 0.0
                covered = [a + b for a, b in zip(covered, weights, strict=True)]
        sums = model(**batch)
    assert expected > 1.0
    assert sums.logged["coverage"].item() == pytest.approx(expected, rel=1e-5)
    assert sums.loss.item() == pytest.approx(sums.nll_loss.item() + weight * expected, rel=1e-5)


def test_the_coverage_loss_pulls_the_attention_away_from_what_is_covered():
    """The loss min(a, c) gives a gradient only to the coverage c if a > c, and only to the attention a if a < c."""
    weights = torch.tensor([[[0.9, 0.1]]], requires_grad=True)
    coverage = torch.tensor([[[0.4, 0.6]]], requires_grad=True)
    coverage_loss(weights, coverage).sum().backward()
    assert weights.grad.tolist() == [[[0.0, 1.0]]]
    assert coverage.grad.tolist() == [[[1.0, 0.0]]]


def test_without_coverage_there_is_no_coverage_loss():
    sums = build()(**copy_batch())
    assert "coverage" not in sums.logged
    torch.testing.assert_close(sums.loss, sums.nll_loss)


@pytest.mark.parametrize("options", [{}, {"coverage": True}])
def test_the_end_symbol_and_padding_are_neither_attended_to_nor_copied(options):
    model, batch = build(options), batch_with_an_empty_source(extra_source=2)
    with torch.no_grad():
        _, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
        copied = choices(model, batch["prev_output_tokens"], encoder_out).copy
    outside = (batch["src_tokens"] == PAD) | (batch["src_tokens"] == EOS)
    assert not extra["attn"][0].transpose(1, 2)[outside].any()
    assert torch.isneginf(copied.transpose(1, 2)[outside]).all()
    sums = extra["attn"][0].sum(-1)
    torch.testing.assert_close(sums, (~outside).any(1).float().unsqueeze(1).expand_as(sums))


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_parameters_of_the_paper():
    """Section 5 of the paper states 21,499,600 parameters, plus 1,153 for the gate and 512 for coverage.

    Each of the three LSTMs has 4 x 256 more parameters here, because PyTorch uses two biases and the paper one.
    """
    task = make_task(make_dictionary(50_000 - 4))
    model = build_model("pointer_generator_see2017", task)
    assert count(model.decoder.gate) == 1_153
    assert count(model) - 3 * 4 * 256 - 1_153 == 21_499_600
    assert count(build_model("pointer_generator_coverage", task)) - count(model) == 512


def test_the_weights_start_as_in_the_release():
    """The expected values come from the release of the paper.

    LSTM weights start within +-0.02, embedding, bridge and output within +-2e-4, and all others at Glorot's bound.
    """
    model = build(weight_init="see2017", embed_dim=31, hidden_size=29, attention_dim=37, coverage=True)
    encoder, decoder = model.encoder, model.decoder
    for lstm in (encoder.lstm, decoder.cell):
        for name, weight in lstm.named_parameters():
            if name.startswith("weight"):
                assert 0.019 < weight.abs().max() <= 0.02
            else:
                forget = 1.0 if name.startswith("bias_ih") else 0.0
                assert weight.tolist() == [0.0] * 29 + [forget] * 29 + [0.0] * 58
    output = decoder.output.score.out_proj
    for linear in (encoder.hidden_bridge, encoder.cell_bridge, output):
        assert 0 < linear.bias.abs().max() <= 2e-4
        assert 1e-4 < linear.weight.abs().max() <= 2e-4
    assert 1e-4 < encoder.embed_tokens.weight.abs().max() <= 2e-4
    assert not encoder.embed_tokens.weight[PAD].any()
    for weight, fans in (
        (decoder.merge.weight, 31 + 58 + 31),
        (decoder.combine.weight, 3 * 29 + 29),
        (decoder.gate.weight, 4 * 29 + 31 + 1),
        (decoder.attention.key_proj.weight, 58 + 37),
        (decoder.attention.query_proj.weight, 58 + 37),
        (decoder.attention.vector, 37 + 37),
        (decoder.attention.coverage_weight, 1 + 37),
    ):
        bound = math.sqrt(6 / fans)
        assert 0.9 * bound < weight.abs().max() <= bound
    for linear in (decoder.merge, decoder.combine, decoder.gate, decoder.attention.query_proj):
        assert not linear.bias.any()


def test_a_model_trained_without_coverage_goes_on_with_it(caplog):
    """All old weights are loaded, the coverage weight keeps its initial value, and no other weight may be missing."""
    old, new = build(), build(coverage=True, seed=5)
    fresh = new.decoder.attention.coverage_weight.detach().clone()
    new.load_state_dict(dict(old.state_dict()))
    assert "trained without --coverage" in caplog.text
    state = new.state_dict()
    assert torch.equal(state.pop("decoder.attention.coverage_weight"), fresh)
    assert all(torch.equal(state[name], weight) for name, weight in old.state_dict().items())
    broken = dict(old.state_dict())
    del broken["decoder.gate.bias"]
    with pytest.raises(RuntimeError, match=r"decoder\.gate\.bias"):
        new.load_state_dict(broken)


def test_slots_are_read_as_unknown_words():
    model, batch = build(), copy_batch()
    previous = batch["prev_output_tokens"]
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    unknown = previous.masked_fill(previous >= BASE, UNK)
    assert not torch.equal(unknown, previous)
    assert torch.equal(model.decoder(previous, encoder_out)[0], model.decoder(unknown, encoder_out)[0])


@pytest.mark.parametrize("coverage", [False, True])
def test_the_loss_under_autocast_is_close_to_the_one_without(coverage):
    """bfloat16 has 8 significant bits, so the tolerances are 2% of the loss and 5% of the gradient norm."""
    batch, results = copy_batch(), []
    for enabled in (False, True):
        model = build(coverage=coverage)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(**batch).loss
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        assert all(gradient.dtype == torch.float32 for gradient in gradients)
        results.append((loss.detach(), torch.cat([gradient.flatten() for gradient in gradients])))
    (exact, exact_gradient), (half, half_gradient) = results
    torch.testing.assert_close(half, exact, rtol=0.02, atol=0.0)
    assert (half_gradient - exact_gradient).norm() <= 0.05 * exact_gradient.norm()


def test_contradictory_options_are_refused():
    with pytest.raises(UserError, match="--coverage-weight must be 0 or more, but is -1"):
        build(coverage_weight=-1.0)
    with pytest.raises(UserError, match="needs queries as wide as the embeddings, but they are 5 and 6 wide"):
        build(QUERIES, query_score="dot")
    task = copy_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="pointer_generator shares its words"):
        build_model("pointer_generator", task, **TINY)


def adagrad(**options: Any) -> tuple[torch.nn.Parameter, AccumulatorAdagrad]:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    cfg = AccumulatorAdagradConfig(**options)
    cfg.lr = [0.15]
    return weight, AccumulatorAdagrad(cfg, [weight])


def test_adagrad_starts_from_the_papers_accumulator():
    """The expected weights are computed by hand with w -= lr g / sqrt(0.1 + sum of g^2) for two updates."""
    weight, optimizer = adagrad()
    expected, squares = 1.0, 0.1
    for gradient in (0.3, -2.0):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        squares += gradient**2
        expected -= 0.15 * gradient / math.sqrt(squares)
    assert weight.item() == pytest.approx(expected, rel=1e-6)


def test_adagrad_refuses_a_negative_accumulator():
    with pytest.raises(UserError, match="--initial-accumulator-value must be 0 or more, but is -1"):
        adagrad(initial_accumulator_value=-1.0)
