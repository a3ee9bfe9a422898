"""Test that every registered arch can be parsed and built as in fairseq-train, without starting a command for each."""

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from omegaconf import DictConfig

from tests.families import CHUNK, NEEDS, flags
from tests.integration.commands import USER_DIR
from tests.training import declared, wean_lstm

# Hydra warns about the way in which fairseq uses it. These tests ignore the warnings.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SETTINGS = {arch: settings for file in declared().values() for arch, settings in file.SETTINGS.items()}


def configuration(data, arch: str, *arguments: object, task: str = "paraphrase") -> DictConfig:
    line = [data, "--user-dir", USER_DIR, "--task", task, "--criterion", "query_embedding", "--arch", arch, *arguments]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=[str(part) for part in line])
    return convert_namespace_to_omegaconf(args)


def test_every_arch_of_this_package_has_settings():
    models = {arch: model.__module__.split(".")[0] for arch, model in ARCH_MODEL_REGISTRY.items()}
    assert {arch for arch, package in models.items() if package == "wean_fairseq"} == set(SETTINGS)


@pytest.mark.parametrize("arch", SETTINGS)
def test_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    family = ARCH_MODEL_NAME_REGISTRY[arch]
    file = declared()[family]
    # any word can be the separator, as the data has no chunks or pairs
    word = (data / "dict.src.txt").read_text().split()[0]
    needs = {name: word if value == CHUNK else value for name, value in NEEDS.get(family, {}).items()}
    cfg = configuration(data, arch, *flags(needs), task=getattr(file, "TASK", "paraphrase"))
    settings = {name: value for name, value in SETTINGS[arch].items() if name not in needs}
    assert {name: cfg.model[name] for name in settings} == settings
    task = tasks.setup_task(cfg.task)
    words = len(task.source_dictionary)
    model = task.build_model(cfg.model)
    assert model.capabilities.computes_loss
    assert task.source_dictionary.num_slots == getattr(file, "SLOTS", 0)
    assert len(task.source_dictionary) == words + getattr(file, "SLOTS", 0)
    assert getattr(model.decoder, "num_slots", 0) == getattr(file, "SLOTS", 0)


@pytest.mark.parametrize("arch", wean_lstm.SETTINGS)
def test_wean_shares_one_embedding_and_scores_as_its_arch_says(data, arch):
    cfg = configuration(data, arch)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.output.score.__class__.__name__.lower().startswith(wean_lstm.SETTINGS[arch]["query_score"])


def test_the_command_line_wins_over_the_preset(data):
    cfg = configuration(data, "seq2seq_lstm_lcsts", "--embed-dim", 20, "--query-score", "concat")
    assert (cfg.model.embed_dim, cfg.model.hidden_size, cfg.model.query_score) == (20, 512, "concat")
