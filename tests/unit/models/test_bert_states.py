"""Test BERT's states in ``copy_transformer``. They are added to the encoder's input if the model is built with BERT."""

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from tests.copy_contract import copy_task
from tests.model_contract import EOS, PAD, build_model, log_probs, make_batch
from tests.reference import transformer as reference
from tests.reference.transformer import lively
from wean_fairseq.capabilities import reads_inputs
from wean_fairseq.checkpoints.ctranslate2_format import convert
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.layer_mixture import load_mixture
from wean_fairseq.training.defaults import ARCHS, BERT_ARCHS

LAYERS, WIDTH, DIM = 3, 5, 6  # number of layers and width of BERT, and width of the model
TINY = {"embed_dim": DIM, "ffn_dim": 10, "attention_heads": 3, "encoder_layers": 2, "decoder_layers": 2}
MODES = {"gate": "copy_transformer", "shared-softmax": "copy_transformer", "none": "paraphrase_transformer"}
ADDED = {f"encoder.bert_states.{name}" for name in ("digest", "mixture.logits", "proj.weight", "proj.bias")}


def bert(**changed: Any) -> Namespace:
    return Namespace(**{"num_layers": LAYERS, "dim": WIDTH, "digest": "5a" * 32, "path": "some/bert"} | changed)


def build(arch: str = "copy_transformer", with_bert: Namespace | None = None, **options: Any) -> torch.nn.Module:
    return build_model(arch, Namespace(**vars(copy_task()), bert=with_bert), **TINY | options)


def features(src_tokens: torch.Tensor) -> torch.Tensor:
    """Return made-up features (B, S, L, H) of the words, which are 0 for padding and end symbols."""
    table = torch.randn(30, LAYERS, WIDTH, generator=torch.Generator().manual_seed(2))
    table[[PAD, EOS]] = 0.0
    return table[src_tokens]


@pytest.mark.parametrize(("mode", "arch"), MODES.items())
@pytest.mark.parametrize("left_pad_source", [False, True])
def test_the_encoder_reads_the_sum_of_words_and_bert(mode, arch, left_pad_source):
    """The expected values are W sum_l alpha_l h^l + b in loops, and come from ``tests/reference/transformer.py``."""
    model, batch = lively(build(arch, bert(), copy_mode=mode)), make_batch(left_pad_source=left_pad_source)
    tokens = batch["src_tokens"]
    read = model.encoder.bert_states
    alphas = [torch.exp(logit) for logit in read.mixture.logits[0]]
    with torch.no_grad():
        found = model.encoder(tokens, bert_features=features(tokens))["encoder_out"]
        for row in range(3):
            words = tokens[row] != PAD
            mixed = [sum(alphas[k] * h[k] for k in range(LAYERS)) / sum(alphas) for h in features(tokens[row][words])]
            added = [reference.linear(read.proj, state) for state in mixed]
            expected = reference.encode(model.encoder.network, tokens[row][words].tolist(), added)
            torch.testing.assert_close(found[row][words], torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_mixture_and_projection_are_trained_and_bert_is_not():
    model, batch = build(with_bert=bert()), make_batch()
    given = features(batch["src_tokens"])
    model(**batch, bert_features=given).loss.backward()
    of_bert = {name: weights for name, weights in model.named_parameters() if "bert" in name}
    assert set(of_bert) == ADDED - {"encoder.bert_states.digest"}
    assert all(weights.grad.any() for weights in of_bert.values())
    assert given.grad is None


@pytest.mark.parametrize(("mode", "arch"), MODES.items())
def test_without_bert_the_model_is_the_same(mode, arch):
    """Test that BERT adds only its own parameters, and that the others have the same values for the same seed."""
    plain, reading = build(arch, copy_mode=mode).state_dict(), build(arch, bert(), copy_mode=mode).state_dict()
    assert reading.keys() - plain.keys() == ADDED
    assert plain.keys() < reading.keys()
    for name, value in plain.items():
        # these are initialised after the BERT parameters
        if not name.startswith(("decoder.copy_gate", "decoder.copy_proj")):
            assert torch.equal(value, reading[name])


def test_all_layers_count_the_same_at_the_start():
    """The layer weights are a softmax of zeros, and the map starts at N(0, 0.02) with bias 0, like all maps here."""
    read = build(with_bert=bert(dim=400), embed_dim=60).encoder.bert_states
    torch.testing.assert_close(read.mixture.alphas(), torch.full((1, LAYERS), 1 / LAYERS))
    # for 24,000 draws, the relative standard error is 0.5 %
    assert read.proj.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert not read.proj.bias.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_features_are_read_in_the_precision_of_the_model(dtype):
    model, tokens = build(with_bert=bert()).to(dtype), make_batch()["src_tokens"]
    states = model.encoder(tokens, bert_features=features(tokens))["encoder_out"]
    assert states.dtype == dtype
    assert states.isfinite().all()


def test_checkpoints_of_another_bert_of_one_and_of_none_are_refused():
    state, plain = build(with_bert=bert()).state_dict(), build().state_dict()
    other = build(with_bert=bert(digest="0f" * 32, path="other/bert"))
    with pytest.raises(UserError, match=r"SHA-256 5a5a5a5a5a5a, but that of other/bert is 0f0f0f0f0f0f: give --bert"):
        other.load_state_dict(state)
    with pytest.raises(UserError, match="was trained with --bert DIR: give --bert"):
        build().load_state_dict(state)
    with pytest.raises(UserError, match="was trained without --bert: leave it out"):
        other.load_state_dict(plain)
    build(with_bert=bert(path="moved/bert")).load_state_dict(state)
    build().load_state_dict(plain)


def test_a_batch_without_features_is_refused():
    with pytest.raises(UserError, match="the data has none: give --bert"):
        log_probs(build(with_bert=bert()), make_batch())


def test_ctranslate2_is_told_to_have_no_bert(tmp_path):
    pytest.importorskip("ctranslate2")
    with pytest.raises(UserError, match="CTranslate2 cannot read the states of --bert"):
        convert(build("paraphrase_transformer", bert()), copy_task(), tmp_path / "ctranslate2")


def test_the_mixture_can_be_exported(tmp_path):
    model = lively(build(with_bert=bert()))
    torch.save({"model": model.state_dict()}, tmp_path / "checkpoint.pt")
    exported = load_mixture(str(tmp_path / "checkpoint.pt"))
    torch.testing.assert_close(exported, model.encoder.bert_states.mixture.alphas().detach())


def test_recipes_and_wean_train_know_the_archs_that_read_bert():
    assert {arch for arch in ARCHS if reads_inputs(ARCH_MODEL_REGISTRY[arch], ["bert_features"])} == set(BERT_ARCHS)
