"""Every registered arch, parsed and built as fairseq-train does it, without starting a command for each."""

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from omegaconf import DictConfig

import wean_fairseq
from tests.integration.commands import USER_DIR

# Hydra warns about the host's use of it, which concerns nobody here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# WEAN paper sec. 3.1.3 (PWKP, EW-SEW) and 3.2.3 (LCSTS); the baseline differs in its output layer alone.
ENGLISH = {"embed_dim": 256, "hidden_size": 256, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.4}
CHINESE = {"embed_dim": 512, "hidden_size": 512, "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.0}
EXPECTED = {
    "wean_lstm": {"query_score": "general", **ENGLISH},
    "wean_lstm_pwkp": {"query_score": "general", **ENGLISH},
    "wean_lstm_ew_sew": {"query_score": "general", **ENGLISH},
    "wean_lstm_lcsts": {"query_score": "general", **CHINESE},
    "seq2seq_lstm": {"query_score": "linear", **ENGLISH},
    "seq2seq_lstm_lcsts": {"query_score": "linear", **CHINESE},
}


def configuration(data, *arguments: str) -> DictConfig:
    line = [str(data), "--user-dir", USER_DIR, "--task", "paraphrase", "--criterion", "query_embedding", *arguments]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=line)
    return convert_namespace_to_omegaconf(args)


def test_every_arch_of_this_package_is_listed_here():
    assert wean_fairseq.models is not None
    ours = {arch for arch, model in ARCH_MODEL_NAME_REGISTRY.items() if model == "wean_lstm"}
    assert ours == set(EXPECTED)


@pytest.mark.parametrize("arch", EXPECTED)
def test_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    cfg = configuration(data, "--arch", arch)
    assert {name: cfg.model[name] for name in EXPECTED[arch]} == EXPECTED[arch]
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.query_embedding.score.__class__.__name__.lower().startswith(EXPECTED[arch]["query_score"])


def test_the_command_line_wins_over_the_preset(data):
    cfg = configuration(data, "--arch", "seq2seq_lstm_lcsts", "--embed-dim", "20", "--query-score", "concat")
    assert (cfg.model.embed_dim, cfg.model.hidden_size, cfg.model.query_score) == (20, 512, "concat")
