"""Build small models with random weights, together with the text settings that a training stores."""

from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from fairseq.models import MODEL_DATACLASS_REGISTRY

from tests.families import families
from wean_fairseq.checkpoints.loading import Loaded
from wean_fairseq.generation import TextModel
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask
from wean_fairseq.tasks.topic_essay import TopicEssayConfig, TopicEssayTask
from wean_fairseq.text import TOKENS, Text, TextSettings

MOSES = TextSettings(unit="moses", lowercase=True)
WORDS = "what 's the best way to learn python ? how do i lose weight café , . \" friend is who".split()
TRANSFORMER = {"encoder_layers": 2, "decoder_layers": 2, "attention_heads": 2, "ffn_dim": 12, "embed_dim": 8}
RECURRENT = {"embed_dim": 6, "hidden_size": 10}
MORE = {"granularity_transformer": {"ga_start_layer": 2}, "fset": {"edit_layers": 1, "edit_dim": 4, "micro_dim": 6}}
MORE["pc_san"] = {"bert_layers": "none"}


def sizes(family: str) -> dict[str, Any]:
    """Return options that make a model of this family small."""
    options = {option.name for option in fields(MODEL_DATACLASS_REGISTRY[family])}
    return (RECURRENT if "hidden_size" in options else TRANSFORMER) | MORE.get(family, {})


ARCHS = {family: sizes(family) for family in families()}
ESSAYS = ("sc_lstm", "mta_lstm", "ppg", "pc_san")


def words_dictionary(*more: str) -> Dictionary:
    """Return the dictionary that is used for both the source and the target."""
    dictionary = Dictionary()
    for word in [*WORDS, *more]:
        dictionary.add_symbol(word)
    return dictionary


def data_directory(folder: Path, *more: str) -> Path:
    """Write a data directory with this dictionary for both languages, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("src", "tgt"):
        words_dictionary(*more).save(str(folder / f"dict.{language}.txt"))
        (folder / f"test.src-tgt.{language}").write_text("what\n", encoding="utf-8")
    return folder


def build(folder: Path, arch: str, settings: TextSettings = TOKENS, **task_options: Any) -> TextModel:
    """Return a model whose random weights are large enough to give different outputs."""
    kinds = (TopicEssayConfig, TopicEssayTask) if arch in ESSAYS else (ParaphraseConfig, ParaphraseTask)
    more = {"ppg": ["<chunk>"], "fset": ["<pair>"]}.get(arch, [])
    cfg = kinds[0](data=str(data_directory(folder, *more)), source_lang="src", target_lang="tgt", dataset_impl=None)
    for name, value in task_options.items():
        setattr(cfg, name, value)
    task = kinds[1].setup_task(cfg)
    torch.manual_seed(3)
    model = task.build_model(Namespace(_name=arch, arch=arch, **ARCHS[arch])).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
    return TextModel(Loaded(model, task, {"beam": 4, "max_len_b": 12}), Text(settings))
