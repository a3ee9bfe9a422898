"""Test that models in CTranslate2's format give the same outputs and scores as in this package."""

import hashlib
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator

from tests.model_contract import EOS, PAD, build_model, make_batch, make_task, token_log_probs, unpad
from wean_fairseq.checkpoints import cli
from wean_fairseq.checkpoints.ctranslate2_format import convert
from wean_fairseq.errors import UserError
from wean_fairseq.models.copy_transformer import CopyTransformerConfig
from wean_fairseq.tasks.paraphrase import ParaphraseConfig

TASK = make_task()
SMALL = {"embed_dim": 12, "ffn_dim": 10, "encoder_layers": 2, "decoder_layers": 2, "attention_heads": 3}
ESSAY = {"encoder_embed_dim": 12, "decoder_embed_dim": 12, "encoder_attention_heads": 3, "decoder_attention_heads": 3}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "paraphrase_transformer": ("paraphrase_transformer", SMALL),
    "one embedding": ("paraphrase_transformer", SMALL | {"share_embeddings": True}),
    "queries": ("paraphrase_transformer", SMALL | {"output_layer": "query_embedding", "query_score": "general"}),
    "essay_transformer": ("essay_transformer_small", ESSAY),
}


def make_model(arch: str, options: dict[str, Any]) -> Any:
    if arch.startswith("essay"):
        args = Namespace(arch=arch, **options)
        ARCH_CONFIG_REGISTRY[arch](args)
        torch.manual_seed(3)
        model = ARCH_MODEL_REGISTRY[arch].build_model(args, TASK).eval()
    else:
        model = build_model(arch, TASK, **options)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def words(tokens: torch.Tensor) -> list[str]:
    """Return words without padding and end symbol, because CTranslate2 adds these itself."""
    return [TASK.target_dictionary.symbols[token] for token in tokens.tolist() if token not in (PAD, EOS)]


@pytest.fixture
def translator(tmp_path):
    """Return a function that converts a model and loads it with CTranslate2.

    Skip the test if the library is not installed.
    """
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

    def make(model: Any) -> Any:
        convert(model, TASK, tmp_path / "converted")
        return ctranslate2.Translator(str(tmp_path / "converted"), device="cpu", compute_type="float32")

    return make


@pytest.mark.parametrize(("arch", "options"), MODELS.values(), ids=MODELS)
def test_a_converted_model_gives_every_word_the_same_probability(arch, options, translator):
    model, batch = make_model(arch, options), make_batch()
    expected = token_log_probs(model, batch)
    sources, targets = unpad(batch)
    found = translator(model).score_batch([words(source) for source in sources], [words(target) for target in targets])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(one.log_probs), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("arch", "options"), MODELS.values(), ids=MODELS)
def test_a_converted_model_writes_the_same(arch, options, translator):
    """Compare with fairseq's greedy search, because the two libraries end a beam search by different rules."""
    model, batch = make_model(arch, options), make_batch()
    search = SequenceGenerator([model], TASK.target_dictionary, beam_size=1, max_len_b=9)
    inputs = {name: batch[name] for name in ("src_tokens", "src_lengths")}
    expected = search.generate([model], {"net_input": inputs})
    sources = [words(source) for source in batch["src_tokens"]]
    found = translator(model).translate_batch(sources, beam_size=1, max_decoding_length=9)
    assert [one.hypotheses[0] for one in found] == [words(hypotheses[0]["tokens"]) for hypotheses in expected]


@pytest.mark.parametrize("case", ["paraphrase_transformer", "essay_transformer"])
def test_an_export_has_the_converted_model_beside_its_own(case, translator, tmp_path):
    """Test that the export of an arch without a dataclass, such as fairseq's archs, can be loaded.

    The export must not contain the folder in which the model was trained.
    """
    arch, options = MODELS[case]
    model = make_model(arch, options)
    if case == "essay_transformer":
        names = {"_name": arch, "arch": arch, "task": "paraphrase"}
        cfg: Any = Namespace(data="secret/place", save_dir="secret/place", **names, **options)
    else:
        cfg = asdict(CopyTransformerConfig(copy_mode="none", **options)) | {"_name": "copy_transformer"}
    task = asdict(ParaphraseConfig(data="secret/place", source_lang="src", target_lang="tgt"))
    others = {
        "dataset_impl": None,
        "required_seq_len_multiple": 1,
        "train_subset": "train",
        "num_shards": 1,
        "shard_id": 0,
    }  # these options belong to other sections
    task |= others | {"_name": "paraphrase"}
    (tmp_path / "data").mkdir()
    for side in ("src", "tgt"):
        TASK.target_dictionary.save(str(tmp_path / "data" / f"dict.{side}.txt"))
    checkpoint = {
        "args": None,
        "cfg": {
            "model": cfg,
            "task": task,
            "criterion": {"_name": "cross_entropy"},
            "generation": asdict(GenerationConfig()),
            "checkpoint": {"save_dir": "secret/place"},
        },
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 7, "optimizer_name": "A", "lr_scheduler_state": {}}],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 2}},
    }
    torch.save(checkpoint, tmp_path / "a.pt")
    arguments = [str(tmp_path / "a.pt"), "--output", str(tmp_path / "e"), "--data", str(tmp_path / "data")]
    assert cli.main_export([*arguments, "--ctranslate2"]) == 0
    assert cli.main_export([*arguments, "--ctranslate2", "--overwrite"]) == 0
    assert "secret" not in (tmp_path / "e" / "config.json").read_text()
    translator(model)
    weights = [(folder / "model.bin").read_bytes() for folder in (tmp_path / "converted", tmp_path / "e/ctranslate2")]
    assert weights[0] == weights[1]
    files = [file for file in (tmp_path / "e/ctranslate2").iterdir() if file.name != "checksums.sha256"]
    assert len(files) >= 3
    lines = {f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files}
    assert lines == set((tmp_path / "e/ctranslate2/checksums.sha256").read_text().splitlines())


@pytest.mark.parametrize(
    ("arch", "options", "message"),
    [
        ("copy_transformer", SMALL, "cannot copy words"),
        ("granularity_transformer_product", SMALL, "knows no granularities"),
        ("paraphrase_transformer", SMALL | {"output_layer": "query_embedding", "query_score": "concat"}, "concat"),
        ("wean_lstm", {"embed_dim": 6, "hidden_size": 6}, "knows Transformers alone"),
        ("essay_transformer_small", ESSAY | {"activation_fn": "tanh"}, "activation-fn tanh is not supported"),
    ],
)
def test_a_model_that_the_format_cannot_hold_is_one_sentence(arch, options, message, translator, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        translator(make_model(arch, options))
    assert "\n" not in str(caught.value) and not (tmp_path / "converted").exists()


def test_a_missing_library_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"needs ctranslate2, .*: pip install 'wean-fairseq\[ctranslate2\]'"):
        convert(make_model(*MODELS["queries"]), TASK, tmp_path / "converted")
