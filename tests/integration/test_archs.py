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
    "wean_lstm": {"query_score": "general", "detach_query_embedding": False, **ENGLISH},
    "wean_lstm_pwkp": {"query_score": "general", **ENGLISH},
    "wean_lstm_ew_sew": {"query_score": "general", **ENGLISH},
    "wean_lstm_lcsts": {"query_score": "general", **CHINESE},
    "seq2seq_lstm": {"query_score": "linear", **ENGLISH},
    "seq2seq_lstm_lcsts": {"query_score": "linear", **CHINESE},
}

# CopyNet paper sec. 5.1 and 5.2, and the authors' released configuration; all three systems have the same sizes.
SYMBOLS = {"embed_dim": 150, "hidden_size": 300, "cell": "gru", "readout": "state", "location_width": 0, "dropout": 0.0}
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
    "copynet_lcsts_release": {
        "system": "copynet",
        **RELEASE,
        "embed_dim": 500,
        "hidden_size": 750,
        "location_width": 0,
    },
    "rnnsearch_lcsts": {"system": "rnnsearch", **SUMMARIES},
    "enc_dec_lcsts": {"system": "enc_dec", **SUMMARIES},
    "copynet_release": {"system": "copynet", **RELEASE},
    "pointer_generator": POINTER,
    "pointer_generator_see2017": POINTER,
    "pointer_generator_coverage": POINTER | {"coverage": True},
    "copy_transformer": {"copy_mode": "gate", **TRANSFORMER},
    "paraphrase_transformer": {"copy_mode": "none", **TRANSFORMER},
}
GRANULARITY = {"ga_length": "true", "ga_cross": "none", **TRANSFORMER}
# DNPG (Li et al., ACL 2019), sec. 4: the table of its two levels; it copies.
LEVELS = {"phrase_dim": 300, "phrase_heads": 6, "sentence_dim": 150, "sentence_heads": 3, "encoder_layers": 3}
COPYING["dnpg"] = LEVELS | {"attention_dropout": 0.1}
# Residual LSTM (Prakash et al., COLING 2016), sec. 3.2.
STACK = {"embed_dim": 512, "hidden_size": 512, "num_layers": 4, "dropout": 0.5, "residual_recurrent": False}
# FSET (Kazemnejad et al., ACL 2020): its authors' research code.
FSET = {"embed_dim": 128, "ffn_dim": 512, "encoder_layers": 6, "decoder_layers": 6, "attention_heads": 8}
FSET |= {"edit_layers": 4, "edit_dim": 128, "micro_dim": 64, "dropout": 0.3, "attention_dropout": 0.3}
# NTS (Nisioi et al., ACL 2017), sec. 2; its release reads the source as it is, and starts words like other weights.
NTS = {"embed_dim": 500, "hidden_size": 500, "num_layers": 2, "dropout": 0.3, "attention_score": "general"}
NTS |= {"reverse_source": False, "local_dim": 0, "missing_vector_std": 0.0}
# Archs whose dictionary has no slots.
PLAIN = {
    "granularity_transformer": {"ga_variant": "product", **GRANULARITY},
    **{
        f"granularity_transformer_{kind}": {"ga_variant": kind, **GRANULARITY}
        for kind in ("resonance", "scope", "product", "mean")
    },
    "granularity_transformer_release": GRANULARITY | {"ga_length": "padded", "ga_cross": "resonance"},
    "residual_lstm": {"residual_every": 2, **STACK},
    # SRB (Ma et al., ACL 2017): its release; RNN-distract (Chen et al., IJCAI 2016): sizes of CopyNet for LCSTS;
    # DRGD (Li et al., EMNLP 2017): its release.
    "srb": {"embed_dim": 400, "hidden_size": 500, "relevance_weight": 0.0001, "dropout": 0.0},
    "rnn_distract": {"embed_dim": 350, "hidden_size": 500, "distract_content": 0.0},
    "drgd": {"embed_dim": 350, "hidden_size": 500, "latent_dim": 0, "kl_weight": 1.0},
    "fset": FSET,
    "stacked_lstm": {"residual_every": 0, **STACK},
    "nts": NTS,
    "nts_w2v": NTS | {"local_dim": 200, "missing_vector_std": 0.9},
    # EncDecA (Zhang and Lapata, EMNLP 2017), sec. 5.
    "enc_dec_a": {
        "embed_dim": 300,
        "hidden_size": 256,
        "attention_score": "dot",
        "dropout": 0.2,
        "reverse_source": True,
    },
    # DRESS-LS: EncDecA's sizes, and those of the release's train_lexical_simp.sh and run_std.sh.
    "dress_ls": {"embed_dim": 300, "hidden_size": 256, "lexical_dim": 256, "lexical_share": 0.1, "dropout": 0.2},
}
# MTA-LSTM (Feng et al., IJCAI 2018), sec. 4.2, which trains SC-LSTM in its own sizes; PPG (Wang et al., 2016); PC-SAN.
LSTM = {"embed_dim": 300, "hidden_size": 800, "num_layers": 2, "dropout": 0.5}
SMALL = {"embed_dim": 128, "hidden_size": 256}
SMALL_TRANSFORMER = {"embed_dim": 128, "ffn_dim": 512, "decoder_layers": 2, "attention_heads": 4}
ESSAYS = {
    "mta_lstm": {"topic_mode": "mta", "init_range": 0.04, "coverage_loss_weight": 0.1, **LSTM},
    "tat_lstm": {"topic_mode": "tat", **LSTM},
    "tav_lstm": {"topic_mode": "tav", **LSTM},
    "mta_lstm_small": {"topic_mode": "mta", **SMALL},
    "sc_lstm": {"control_loss_weight": 0.0, **LSTM},
    "sc_lstm_small": SMALL,
    "ppg": {"embed_dim": 512, "hidden_size": 512, "dropout": 0.0, "init_range": 0.0},
    "ppg_small": SMALL | {"dropout": 0.3},
    "pc_san": {"embed_dim": 768, "ffn_dim": 3072, "decoder_layers": 6, "attention_heads": 8},
    "pc_san_small": SMALL_TRANSFORMER,
}


def configuration(data, *arguments: str, task: str = "paraphrase") -> DictConfig:
    line = [str(data), "--user-dir", USER_DIR, "--task", task, "--criterion", "query_embedding", *arguments]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=line)
    return convert_namespace_to_omegaconf(args)


def test_every_arch_of_this_package_is_listed_here():
    assert wean_fairseq.models is not None
    models = {arch: model.__module__.split(".")[0] for arch, model in ARCH_MODEL_REGISTRY.items()}
    assert {arch for arch, package in models.items() if package == "wean_fairseq"} == {
        *EXPECTED,
        *COPYING,
        *PLAIN,
        *ESSAYS,
    }


@pytest.mark.parametrize("arch", EXPECTED)
def test_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    cfg = configuration(data, "--arch", arch)
    assert {name: cfg.model[name] for name in EXPECTED[arch]} == EXPECTED[arch]
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert model.decoder.output.score.__class__.__name__.lower().startswith(EXPECTED[arch]["query_score"])


@pytest.mark.parametrize("arch", COPYING)
def test_copying_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    cfg = configuration(data, "--arch", arch)
    assert {name: cfg.model[name] for name in COPYING[arch]} == COPYING[arch]
    task = tasks.setup_task(cfg.task)
    words = len(task.source_dictionary)
    model = task.build_model(cfg.model)
    assert (model.decoder.num_base, model.decoder.num_slots) == (words, 64)


@pytest.mark.parametrize("arch", PLAIN)
def test_plain_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    word = (data / "dict.src.txt").read_text().split()[0]  # data without retrieved pairs
    cfg = configuration(data, "--arch", arch, *(["--pair-symbol", word] if arch == "fset" else []))
    assert {name: cfg.model[name] for name in PLAIN[arch]} == PLAIN[arch]
    task = tasks.setup_task(cfg.task)
    task.build_model(cfg.model)
    assert task.source_dictionary.num_slots == 0


@pytest.mark.parametrize("arch", ESSAYS)
def test_essay_arch_has_the_settings_of_the_paper_and_builds(data, arch):
    word = (data / "dict.src.txt").read_text().split()[0]  # data without a BERT, and without chunks
    needs = {"pc_san": ["--bert-layers", "none"], "ppg": ["--chunk-symbol", word]}.get(arch.removesuffix("_small"), [])
    cfg = configuration(data, "--arch", arch, *needs, task="topic_essay")
    assert {name: cfg.model[name] for name in ESSAYS[arch]} == ESSAYS[arch]
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    assert model.computes_loss


def test_the_command_line_wins_over_the_preset(data):
    cfg = configuration(data, "--arch", "seq2seq_lstm_lcsts", "--embed-dim", "20", "--query-score", "concat")
    assert (cfg.model.embed_dim, cfg.model.hidden_size, cfg.model.query_score) == (20, 512, "concat")
