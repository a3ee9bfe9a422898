"""Test ``granularity_transformer`` with the checks that all models share, and test its equations and options."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import EOS, PAD, ModelContract, build_model, collate, log_probs, make_batch, unpad
from tests.reference import granularity as reference
from tests.reference.transformer import lively
from wean_fairseq.errors import UserError
from wean_fairseq.modules import GRANULARITY_MASKS

TINY = {"embed_dim": 6, "ffn_dim": 10, "attention_heads": 3, "encoder_layers": 2, "decoder_layers": 2}
ARCH = "granularity_transformer"


def build(**options: Any) -> torch.nn.Module:
    return lively(build_model(ARCH, **TINY | options))


class TestGranularityTransformerContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        ARCH: (ARCH, TINY),
        **{f"{ARCH}_{variant}": (f"{ARCH}_{variant}", TINY) for variant in (*GRANULARITY_MASKS, "release")},
        "none": (ARCH, TINY | {"ga_variant": "none"}),
        "cross alone": (ARCH, TINY | {"ga_variant": "none", "ga_cross": "resonance"}),
        "eq. 9": (ARCH, TINY | {"ga_normalize": "none", "ga_cross": "resonance"}),
        "mean, eq. 9": (ARCH, TINY | {"ga_variant": "mean", "ga_normalize": "none"}),
        "second layer": (ARCH, TINY | {"ga_start_layer": 2, "ga_cross": "resonance"}),
        "padded scope": (ARCH, TINY | {"ga_variant": "scope", "ga_length": "padded", "ga_encoder_length": 9}),
        "query embedding": (ARCH, TINY | {"output_layer": "query_embedding"}),
        "one embedding": (ARCH, TINY | {"share_embeddings": True}),
        "more decoder layers": (ARCH, TINY | {"encoder_layers": 1, "decoder_layers": 3}),
    }


OPTIONS: dict[str, tuple[dict[str, Any], reference.Settings]] = {
    **{variant: ({"ga_variant": variant}, reference.Settings(variant)) for variant in GRANULARITY_MASKS},
    "eq. 9": ({"ga_normalize": "none", "ga_cross": "resonance"}, reference.Settings(normalize=False)),
    "second layer": ({"ga_start_layer": 2, "ga_cross": "resonance"}, reference.Settings()),
    "padded": (
        {"ga_variant": "scope", "ga_length": "padded", "ga_encoder_length": 5, "ga_decoder_length": 4},
        reference.Settings("scope", encoder_length=5, decoder_length=4),
    ),
    "released sizes": ({"ga_variant": "mean", "ga_length": "padded"}, reference.Settings("mean", True, 20, 19)),
}


@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize("case", OPTIONS)
def test_the_probabilities_are_those_of_the_equations(case, left_pad_source):
    """The expected values come from the naive forward pass of ``tests/reference/granularity.py``."""
    options, settings = OPTIONS[case]
    model, batch = build(**options), make_batch(left_pad_source=left_pad_source)
    with torch.no_grad():
        found = log_probs(model, batch).exp()
        for row in range(3):
            source, previous = (batch[name][row] for name in ("src_tokens", "prev_output_tokens"))
            words = source[source != PAD].tolist(), previous[previous != PAD].tolist()
            expected = reference.probabilities(model, *words, settings)
            torch.testing.assert_close(found[row, : len(expected)], expected, rtol=1e-4, atol=1e-6)


def test_without_heads_it_is_the_plain_transformer():
    """The "Transformer" of the paper's table has the same names, sizes and initial values.

    C-DNPG adds heads with D + 1 parameters each.
    """
    plain = build_model("paraphrase_transformer", **TINY).state_dict()
    none = build_model(ARCH, **TINY, ga_variant="none").state_dict()
    assert list(none) == list(plain)
    for options in ({}, {"ga_variant": "mean", "ga_cross": "resonance"}, {"ga_start_layer": 2}):
        model = build_model(ARCH, **TINY | options)
        shared = {name: value for name, value in model.state_dict().items() if ".granularity." not in name}
        assert list(shared) == list(plain)
        assert all(torch.equal(shared[name], value) for name, value in plain.items())
        heads = (3 if "ga_cross" in options else 2) * (1 if "ga_start_layer" in options else 2)
        sizes = [p.numel() for name, p in model.named_parameters() if ".granularity." in name]
        assert sizes == [6, 1] * heads


def test_every_attention_has_its_own_head_from_the_start_layer_on():
    names = {
        name.rsplit(".", 2)[0]
        for name, _ in build(ga_start_layer=2, ga_cross="resonance").named_parameters()
        if ".granularity." in name
    }
    assert names == {
        "encoder.network.layers.1.self_attention",
        "decoder.network.layers.1.self_attention",
        "decoder.network.layers.1.cross_attention",
    }


def test_with_templates_alone_it_computes_what_the_plain_transformer_does():
    model, batch = build(ga_cross="resonance"), make_batch()
    plain = build_model("paraphrase_transformer", **TINY)
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".granularity." in name:
                parameter.fill_(-1e4 if name.endswith("bias") else 0.0)
        torch.testing.assert_close(log_probs(model, batch), log_probs(plain, batch))


@pytest.mark.parametrize("options", [{}, {"ga_start_layer": 2}, {"ga_normalize": "none", "ga_cross": "resonance"}])
def test_granularities_are_returned_layer_by_layer(options):
    """The oracle applies eq. 4 to the input of each layer, in a loop over words, and in the decoder step by step."""
    model, batch = build(**options), make_batch(left_pad_source=False)
    settings = reference.Settings(normalize="ga_normalize" not in options)
    first = options.get("ga_start_layer", 1) - 1
    with torch.no_grad():
        encoder_out = model.encoder(batch["src_tokens"])
        _, extra = model.decoder(batch["prev_output_tokens"], encoder_out)
        source, previous = unpad(batch)[0][2].tolist(), batch["prev_output_tokens"][2][:2].tolist()
        for network, words, found in (
            (model.encoder.network, source, encoder_out["granularity"]),
            (model.decoder.network, previous, extra["granularity"].transpose(1, 2)),
        ):
            assert found.shape[:2] == (3, 2 - first)
            states = reference.embed(network.embedding, words)
            if first:
                below = torch.nn.Module()
                below.embedding, below.layers = network.embedding, network.layers[:1]
                if network is model.encoder.network:
                    states = reference.encode(below, words, settings)
                else:
                    states = reference.decode(
                        below, words, list(encoder_out["encoder_out"][2, : len(source)]), settings
                    )
            head = network.layers[first].self_attention.granularity
            expected = torch.stack([reference.granularity(head, state) for state in states])
            torch.testing.assert_close(found[2, 0, : len(words)], expected, rtol=1e-4, atol=1e-5)
        state: dict[str, Any] = {}
        for step in range(batch["target"].size(1)):
            _, now = model.decoder(batch["prev_output_tokens"][:, : step + 1], encoder_out, state)
            torch.testing.assert_close(now["granularity"][:, 0], extra["granularity"][:, step])


def test_granularities_follow_the_sentences_of_a_beam():
    model, batch = build(), make_batch()
    encoder_out = model.encoder(batch["src_tokens"])
    order = torch.tensor([2, 0, 0])
    moved = model.encoder.reorder_encoder_out(encoder_out, order)
    assert torch.equal(moved["granularity"], encoder_out["granularity"][order])


def test_without_heads_no_granularities_are_returned():
    plain = {"ga_variant": "none", "ga_cross": "resonance"}
    model, batch = build(**plain), make_batch()
    assert "granularity" not in model.encoder(batch["src_tokens"])
    assert "granularity" not in model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])[1]
    assert [build(**options).capabilities.granular_from for options in (plain, {}, {"ga_start_layer": 2})] == [0, 1, 2]


def test_a_word_further_on_changes_no_granularity_before_it():
    model = build(encoder_layers=1)
    words = torch.tensor([[EOS, 5, 9, 4, 8, 7]])
    encoder_out = model.encoder(torch.tensor([[5, 6, EOS]]))
    before = model.decoder(words, encoder_out)
    words[0, 4:] = 11
    after = model.decoder(words, encoder_out)
    torch.testing.assert_close(after[0][:, :4], before[0][:, :4])
    torch.testing.assert_close(after[1]["granularity"][:, :4], before[1]["granularity"][:, :4])


@pytest.mark.parametrize("variant", GRANULARITY_MASKS)
def test_sentences_of_one_word_and_of_nothing_stay_finite(variant):
    model = build_model(ARCH, **TINY, ga_variant=variant, ga_cross="resonance")
    batch = collate([torch.tensor([EOS]), torch.tensor([5, 6, EOS])], [torch.tensor([EOS]), torch.tensor([7, 8, EOS])])
    batch["src_tokens"][0] = PAD
    loss = model(**batch).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_defaults_are_those_of_the_table():
    model = build_model(f"{ARCH}_product")
    attentions = [module for module in model.modules() if hasattr(module, "granularity")]
    assert [(a.kind, a.length, a.normalize, a.heads) for a in attentions] == [("product", 0, True, 9)] * 6
    plain = sum(p.numel() for p in build_model("paraphrase_transformer").parameters())
    assert sum(p.numel() for p in model.parameters()) - plain == 6 * 451
    released = build_model(f"{ARCH}_release")
    lengths = [module.length for module in released.modules() if hasattr(module, "kind")]
    assert lengths == [20] * 3 + [19] * 3
    assert sum(p.numel() for p in released.parameters()) - plain == 9 * 451


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ga_start_layer": 0}, "--ga-start-layer must be a layer of encoder and decoder, 1 to 2, but is 0"),
        ({"ga_start_layer": 3}, "--ga-variant none"),
        ({"ga_encoder_length": 0}, "--ga-encoder-length must be 1 or more, but is 0"),
        ({"ga_decoder_length": -1}, "--ga-decoder-length must be 1 or more, but is -1"),
        ({"attention_heads": 4}, "there are 4 heads and 6 units"),
        ({"encoder_layers": 0}, "--encoder-layers must be 1 or more, but is 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model(ARCH, **TINY | options)


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the tolerance is 2% of the loss."""
    losses = []
    for enabled in (False, True):
        model = build_model(ARCH, **TINY)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            losses.append(model(**make_batch()).loss)
        losses[-1].backward()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(losses[1], losses[0], rtol=0.02, atol=0.0)
