"""Models with random weights and the text settings of a training."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store

from wean_fairseq.checkpoints.loading import Loaded
from wean_fairseq.generation import TextModel
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask
from wean_fairseq.tasks.topic_essay import TopicEssayConfig, TopicEssayTask
from wean_fairseq.text import TOKENS, Text, TextSettings

MOSES = TextSettings(unit="moses", lowercase=True)
WORDS = "what 's the best way to learn python ? how do i lose weight café , . \" friend is who".split()
TRANSFORMER = {"encoder_layers": 2, "decoder_layers": 2, "attention_heads": 2, "ffn_dim": 12, "embed_dim": 8}
RECURRENT = {"embed_dim": 6, "hidden_size": 10}
ARCHS: dict[str, dict[str, Any]] = {
    "wean_lstm": RECURRENT,
    "copynet": RECURRENT,
    "pointer_generator": RECURRENT,
    "residual_lstm": RECURRENT,
    "copy_transformer": TRANSFORMER,
    "granularity_transformer": {**TRANSFORMER, "ga_start_layer": 2},
    "fset": {**TRANSFORMER, "edit_layers": 1, "edit_dim": 4, "micro_dim": 6},
    "sc_lstm": RECURRENT,
    "mta_lstm": RECURRENT,
    "nts": RECURRENT,
    "srb": RECURRENT,
    "rnn_distract": RECURRENT,
    "drgd": RECURRENT,
    "dnpg": TRANSFORMER,
    "ppg": RECURRENT,
    "pc_san": {**TRANSFORMER, "bert_layers": "none"},
}
ESSAYS = ("sc_lstm", "mta_lstm", "ppg", "pc_san")


def words_dictionary(*more: str) -> Dictionary:
    """Return the dictionary of both sides."""
    dictionary = Dictionary()
    for word in [*WORDS, *more]:
        dictionary.add_symbol(word)
    return dictionary


def data_directory(folder: Path, *more: str) -> Path:
    """Return a data directory of that dictionary."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("src", "tgt"):
        words_dictionary(*more).save(str(folder / f"dict.{language}.txt"))
        (folder / f"test.src-tgt.{language}").write_text("what\n", encoding="utf-8")
    return folder


def build(folder: Path, arch: str, settings: TextSettings = TOKENS, **task_options: Any) -> TextModel:
    """Return a model with random weights, large enough that outputs differ."""
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
