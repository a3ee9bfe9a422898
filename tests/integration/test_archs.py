"""Every registered arch, parsed and built as fairseq-train does it, without starting a command for each."""

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
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

# CopyNet paper sec. 5.1 and 5.2, and the authors' released configuration; all three systems have the same sizes.
SYMBOLS = {"embed_dim": 150, "hidden_size": 300, "cell": "gru", "readout": "state", "location_width": 0}
SUMMARIES = SYMBOLS | {"embed_dim": 350, "hidden_size": 500}
RELEASE = SYMBOLS | {"attention_dim": 1000, "readout": "full", "attention_coverage": True, "location_width": 57}
# See et al., ACL 2017, sec. 5.
POINTER = {"embed_dim": 128, "hidden_size": 256, "attention_dim": 512, "coverage": False, "coverage_weight": 1.0}
# C-DNPG (Gu et al., COLING 2022), sec. 4 and released code.
TRANSFORMER = {"embed_dim": 450, "ffn_dim": 1024, "encoder_layers": 3, "decoder_layers": 3, "attention_heads": 9}
COPYING = {
    "copynet": {"system": "copynet", **SYMBOLS},
    "rnnsearch": {"system": "rnnsearch", **SYMBOLS},
    "enc_dec": {"system": "enc_dec", **SYMBOLS},
    "copynet_lcsts": {"system": "copynet", **SUMMARIES},
    "rnnsearch_lcsts": {"system": "rnnsearch", **SUMMARIES},
    "enc_dec_lcsts": {"system": "enc_dec", **SUMMARIES},
    "copynet_release": {"system": "copynet", **RELEASE},
    "pointer_generator": POINTER,
    "pointer_generator_see2017": POINTER,
    "copy_transformer": {"copy_mode": "gate", **TRANSFORMER},
    "paraphrase_transformer": {"copy_mode": "none", **TRANSFORMER},
}


def configuration(data, *arguments: str) -> DictConfig:
    line = [str(data), "--user-dir", USER_DIR, "--task", "paraphrase", "--criterion", "query_embedding", *arguments]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=line)
    return convert_namespace_to_omegaconf(args)


def test_every_arch_of_this_package_is_listed_here():
    assert wean_fairseq.models is not None
    models = {arch: model.__module__.split(".")[0] for arch, model in ARCH_MODEL_REGISTRY.items()}
    assert {arch for arch, package in models.items() if package == "wean_fairseq"} == {*EXPECTED, *COPYING}


@pytest.mark.parametrize("arch", EXPECTED)
def test_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    cfg = configuration(data, "--arch", arch)
    assert {name: cfg.model[name] for name in EXPECTED[arch]} == EXPECTED[arch]
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.query_embedding.score.__class__.__name__.lower().startswith(EXPECTED[arch]["query_score"])


@pytest.mark.parametrize("arch", COPYING)
def test_copying_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    cfg = configuration(data, "--arch", arch)
    assert {name: cfg.model[name] for name in COPYING[arch]} == COPYING[arch]
    task = tasks.setup_task(cfg.task)
    words = len(task.source_dictionary)
    model = task.build_model(cfg.model)
    assert (model.decoder.num_base, model.decoder.num_slots) == (words, 64)


def test_the_command_line_wins_over_the_preset(data):
    cfg = configuration(data, "--arch", "seq2seq_lstm_lcsts", "--embed-dim", "20", "--query-score", "concat")
    assert (cfg.model.embed_dim, cfg.model.hidden_size, cfg.model.query_score) == (20, 512, "concat")
