"""Test ``copy_transformer`` with the checks that all models share, and test its equations, gate and options."""

from typing import Any, ClassVar

import pytest
import torch

from tests.copy_contract import BASE, SLOTS, CopyContract, copy_task
from tests.model_contract import EOS, PAD, UNK, build_model, collate, log_probs, make_dictionary, make_task
from tests.reference import transformer as reference
from tests.reference.transformer import lively
from wean_fairseq.errors import UserError

TINY = {"embed_dim": 6, "ffn_dim": 10, "attention_heads": 3, "encoder_layers": 2, "decoder_layers": 2}
MODES = ("gate", "shared-softmax", "none")


def build(mode: str = "gate", slots: int = SLOTS, **options: Any) -> torch.nn.Module:
    return lively(build_model("copy_transformer", copy_task(slots), copy_mode=mode, **TINY | options))


def slot_batch(left_pad_source: bool = True) -> dict[str, torch.Tensor]:
    """Return sources with slots once and twice, a word twice, and <unk>. The targets copy some of the slots."""
    sources = [[5, BASE, 9, 5, BASE, EOS], [7, EOS], [BASE, UNK, BASE + 1, 6, BASE + 2, 8, EOS]]
    targets = [[BASE, 5, 12, EOS], [7, UNK, EOS], [BASE + 2, 8, BASE + 1, UNK, EOS]]
    return collate([torch.tensor(row) for row in sources], [torch.tensor(row) for row in targets], left_pad_source)


class TestCopyTransformerContract(CopyContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "copy_transformer": ("copy_transformer", TINY),
        "paraphrase_transformer": ("paraphrase_transformer", TINY),
        "shared softmax": ("copy_transformer", TINY | {"copy_mode": "shared-softmax"}),
        "query embedding": ("copy_transformer", TINY | {"output_layer": "query_embedding"}),
        "concat": ("copy_transformer", TINY | {"output_layer": "query_embedding", "query_score": "concat"}),
        "no copying, dot": ("paraphrase_transformer", TINY | {"output_layer": "query_embedding", "query_score": "dot"}),
        "one embedding": ("copy_transformer", TINY | {"share_embeddings": True}),
        "more decoder layers": ("copy_transformer", TINY | {"encoder_layers": 1, "decoder_layers": 3}),
    }


@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize(
    ("mode", "options"), [*[(mode, {}) for mode in MODES], ("gate", {"output_layer": "query_embedding"})]
)
def test_the_probabilities_are_those_of_the_equations(mode, options, left_pad_source):
    """The expected values come from the naive forward pass of ``tests/reference/transformer.py``."""
    model = build(mode, **options)
    batch = slot_batch(left_pad_source)
    with torch.no_grad():
        found = log_probs(model, batch).exp()
        assert found.shape[-1] == BASE + SLOTS
        for row in range(3):
            source, previous = (batch[name][row] for name in ("src_tokens", "prev_output_tokens"))
            expected = reference.probabilities(
                model,
                source[source != PAD].tolist(),
                previous[previous != PAD].tolist(),
                num_base=BASE,
                num_slots=SLOTS,
                unk=UNK,
                special={0, PAD, EOS},
            )
            torch.testing.assert_close(found[row, : len(expected)], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_generation_steps_equal_teacher_forcing_with_slots(mode):
    model, batch = build(mode), slot_batch()
    with torch.no_grad():
        expected, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        encoder_out, state, rows = model.encoder(batch["src_tokens"]), {}, torch.arange(3)
        for step in range(5):
            if step == 3:
                rows = torch.tensor([2, 2, 0, 1])
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, rows)
                model.decoder.reorder_incremental_state_scripting(state, rows)
            found, found_extra = model.decoder(batch["prev_output_tokens"][rows, : step + 1], encoder_out, state)
            torch.testing.assert_close(found[:, 0], expected[rows, step], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found_extra["attn"][0][:, 0], extra["attn"][0][rows, step])


def test_a_closed_gate_generates_and_an_open_one_copies():
    """With an extreme bias rho is 0 or 1, so the model only generates or only copies words of the source."""
    batch = slot_batch()
    model, plain = build("gate"), build("none")
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        model.decoder.copy_gate.weight.zero_()
        model.decoder.copy_gate.bias.fill_(-80.0)
        closed = log_probs(model, batch).exp()
        model.decoder.copy_gate.bias.fill_(80.0)
        opened = log_probs(model, batch).exp()
    torch.testing.assert_close(closed, log_probs(plain, batch).exp())
    for row in range(3):
        words = batch["src_tokens"][row]
        in_source = torch.zeros(BASE + SLOTS, dtype=torch.bool)
        in_source[words[(words != PAD) & (words != EOS)]] = True
        torch.testing.assert_close(opened[row][:, in_source].sum(-1), torch.ones(opened.size(1)))


def test_a_word_that_is_hardly_ever_copied_still_gets_a_gradient():
    """With rho = exp(-200), which is 0 in float32, the slot can only be copied, so the gradient of the bias is -1."""
    model = build("gate")
    with torch.no_grad():
        model.decoder.copy_gate.weight.zero_()
        model.decoder.copy_gate.bias.fill_(-200.0)
    batch = collate([torch.tensor([BASE, 5, EOS])], [torch.tensor([BASE])])
    loss = model(**batch).loss
    assert 200 < loss < 250
    loss.backward()
    torch.testing.assert_close(model.decoder.copy_gate.bias.grad, torch.tensor([-1.0]))


def test_without_copying_a_slot_counts_as_unk():
    model, batch = build("none"), slot_batch()
    as_unk = {**batch, "target": batch["target"].masked_fill(batch["target"] >= BASE, UNK)}
    torch.testing.assert_close(model(**batch).loss, model(**as_unk).loss)
    assert torch.equal(model.get_targets(batch, None), as_unk["target"])
    assert torch.equal(build("gate").get_targets(batch, None), batch["target"])


@pytest.mark.parametrize(
    ("mode", "copying"),
    [
        ("gate", {"decoder.copy_gate.weight", "decoder.copy_gate.bias"}),
        ("shared-softmax", {"decoder.copy_proj.weight"}),
    ],
)
def test_with_and_without_copying_the_network_is_the_same(mode, copying):
    """The two networks have the same parameters except for copying. The same seed gives them the same values."""
    with_copying = build_model("copy_transformer", copy_mode=mode, **TINY).state_dict()
    without = build_model("paraphrase_transformer", **TINY).state_dict()
    assert set(with_copying) - set(without) == copying
    assert set(without) <= set(with_copying)
    assert all(torch.equal(with_copying[name], value) for name, value in without.items())


@pytest.mark.parametrize("mode", MODES)
def test_no_parameter_depends_on_the_number_of_slots(mode):
    few, many = (build(mode, slots=slots).state_dict() for slots in (0, 5))
    assert {name: value.shape for name, value in few.items()} == {name: value.shape for name, value in many.items()}


def test_the_defaults_are_those_of_the_cdnpg_table():
    """The expected values are in spec 3.1.

    The number of parameters is counted by hand for d = 450, F = 1024, 512 positions and V = 23.
    """
    model = build_model("paraphrase_transformer")
    d, inner, words = 450, 1024, 23
    attention, norm, feed_forward = 4 * (d * d + d), 2 * d, d * inner + inner + inner * d + d
    embeddings = words * d + 512 * d + d + norm
    layers = 3 * (attention + feed_forward + 2 * norm) + 3 * (2 * attention + feed_forward + 3 * norm)
    head = d * d + d + norm + words
    assert sum(p.numel() for p in model.parameters()) == 2 * embeddings + layers + head
    copying = build_model("copy_transformer")
    assert sum(p.numel() for p in copying.parameters()) - (2 * embeddings + layers + head) == 3 * d + 1
    attentions = [module for module in copying.modules() if hasattr(module, "query_proj")]
    assert len(attentions) == 9
    assert {(module.heads, module.dropout) for module in attentions} == {(9, 0.1)}
    assert {module.p for module in copying.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    assert copying.max_positions() == (512, 512)


def test_a_flag_wins_over_its_preset():
    model = build_model("paraphrase_transformer", **TINY, copy_mode="gate", max_positions=9)
    assert hasattr(model.decoder, "copy_gate")
    assert model.max_positions() == (9, 9)


def test_embeddings_are_two_or_with_the_switch_one():
    for shared in (False, True):
        model = build_model("copy_transformer", **TINY, share_embeddings=shared)
        same = model.encoder.network.embedding.words is model.decoder.network.embedding.words
        assert same is shared
        assert sum(p.shape == (23, 6) for p in model.parameters()) == (1 if shared else 2)


@pytest.mark.parametrize("output_layer", ["linear", "query_embedding"])
def test_words_are_scored_by_the_decoders_embeddings(output_layer):
    model = build_model("copy_transformer", **TINY, output_layer=output_layer)
    states = torch.randn(1, 1, 6)
    decoder = model.decoder
    before = decoder.output.scores(states, decoder.word_embeddings)[0, 0]
    with torch.no_grad():
        decoder.network.embedding.words.weight[7] *= 3.0
    changed = decoder.output.scores(states, decoder.word_embeddings)[0, 0] != before
    assert changed.nonzero().flatten().tolist() == [7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_heads": 4}, "there are 4 heads and 6 units"),
        ({"attention_heads": 0}, "--attention-heads must be 1 or more, but is 0"),
        ({"decoder_layers": 0}, "--decoder-layers must be 1 or more, but is 0"),
        ({"max_positions": 0}, "--max-positions must be 1 or more, but is 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("copy_transformer", **TINY | options)


@pytest.mark.parametrize("side", ["src_tokens", "prev_output_tokens"])
def test_a_sentence_longer_than_the_positions_is_refused_in_one_sentence(side):
    model = build_model("copy_transformer", **TINY, max_positions=4)
    batch = collate([torch.tensor([5, 6, EOS])], [torch.tensor([7, EOS])])
    model(**batch)
    batch[side] = torch.tensor([[5, 6, 7, 8, EOS]])
    with pytest.raises(UserError, match=r"a sentence has 5 tokens, .* at most 4"):
        model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("copy_transformer", task, **TINY)


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the loss may differ by 2%, and gradients above rounding error by 5%."""
    batch, results = slot_batch(), {}
    for enabled in (False, True):
        model = build_model("copy_transformer", copy_task(), **TINY)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(**batch).loss
        loss.backward()
        results[enabled] = loss.detach(), {name: p.grad for name, p in model.named_parameters()}
    torch.testing.assert_close(results[True][0], results[False][0], rtol=0.02, atol=0.0)
    whole = torch.stack([grad.norm() for grad in results[False][1].values()]).norm()
    for name, full in results[False][1].items():
        assert (results[True][1][name] - full).norm() <= 0.05 * full.norm() + 0.005 * whole, name
