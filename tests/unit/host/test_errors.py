"""Test which errors of fairseq are shown as one sentence, and which keep their traceback."""

import errno
import logging
import os
import sys

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary, data_utils, encoders, plasma_utils
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed.utils import _infer_single_node_init
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from fairseq.modules import FairseqDropout
from fairseq.optim.lr_scheduler.tri_stage_lr_scheduler import TriStageLRSchedule, TriStageLRScheduleConfig
from fairseq.scoring import _build_scorer
from hydra.errors import HydraException
from omegaconf import OmegaConf

from tests.model_contract import make_dictionary
from wean_fairseq.errors import UserError, sentence_of
from wean_fairseq.host import errors
from wean_fairseq.modules import dropout


def raised(call, *arguments) -> BaseException:
    """Return the error of a call, with its traceback."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each case has a different type
        call(*arguments)
    return caught.value


def ours(error: Exception) -> None:
    """Raise an error in code that is not fairseq's."""
    raise error


@pytest.mark.parametrize(
    ("call", "arguments", "says"),
    [
        (search.DiverseBeamSearch(make_dictionary(), 2, 0.5).step, (0, torch.ones(1, 3, 5), None), "requires --beam"),
        (data_utils.post_process, ("a", "nope"), "Unknown post_process option: nope."),
        (data_utils.numpy_seed(-1).__enter__, (), "Seed must be between 0 and"),
        (_infer_single_node_init, (DistributedTrainingConfig(distributed_world_size=99),), "world size is 99 but have"),
    ],
    ids=["option", "value", "seed", "processes"],
)
def test_messages_of_fairseq_about_options_are_a_sentence(call, arguments, says):
    said = sentence_of(raised(call, *arguments))
    assert said is not None and says in said and said.endswith(".")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("--beam was lost on the way"),
        AssertionError("a table row: --x--"),
        NotImplementedError("--yet"),
        OSError("Model file not found: x"),
        KeyError("--x"),
    ],
    ids=repr,
)
def test_similar_messages_of_other_code_keep_their_traceback(error):
    assert sentence_of(raised(ours, error)) is None


def test_any_other_error_of_fairseq_names_its_place():
    """Errors that this package causes, and errors of torch, keep their traceback."""
    call = (data_utils.collate_tokens, [torch.ones(1)], 1, None, False, False, None, 0)  # pad_to_multiple = 0
    assert sentence_of(raised(*call)) == (
        "fairseq failed in fairseq.data.data_utils (ZeroDivisionError: integer modulo by zero): check the options with "
        "--help; WEAN_TRACEBACK=1 shows the traceback."
    )
    generator = IterativeRefinementGenerator(make_dictionary())  # models of other tasks do not have its methods
    sample = {"net_input": {"src_tokens": torch.ones(1, 1), "src_lengths": torch.ones(1)}}
    said = sentence_of(raised(generator.generate, [torch.nn.Linear(1, 1)], sample))
    assert said is not None and "AttributeError: 'Linear' object has no attribute 'forward_encoder'" in said
    assert sentence_of(raised(FairseqDropout(0.5), "a")) is None
    assert sentence_of(raised(dropout.dropout, "a", 0.5, True)) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"phase_ratio": (1.0, 1.0, 1.0), "max_update": 5}, "phase ratios must add up to 1"),
        ({"phase_ratio": (0.5, 0.25, 0.25), "max_update": 0}, "assert cfg.max_update > 0"),
        (
            {"phase_ratio": None, "warmup_steps": 0, "hold_steps": 0, "decay_steps": 0},
            "please specify steps or phase_ratio",
        ),
    ],
)
def test_assertions_about_a_schedule_are_a_sentence(options, reason):
    """The reasons are fairseq's messages, or the assertion if it has none."""
    cfg = TriStageLRScheduleConfig(lr=[0.1], **options)
    said = sentence_of(raised(TriStageLRSchedule, cfg, None))
    assert said == f"the options of --lr-scheduler do not suit each other ({reason}): see fairseq-train --help."


def test_a_missing_gpu_and_a_missing_package_are_a_sentence(monkeypatch):
    """--profile needs a GPU and --use-plasma-view a package. Without them, each gives one sentence."""
    monkeypatch.setitem(vars(plasma_utils), "PYARROW_AVAILABLE", False)
    said = sentence_of(raised(plasma_utils.PlasmaStore.start, None))
    assert said is not None and "needs what is not here: please run pip install pyarrow to use" in said
    said = sentence_of(AssertionError("Torch not compiled with CUDA enabled"))
    assert said is not None and "needs what is not here: Torch not compiled with CUDA" in said


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("subword_nmt", {}, "Missing mandatory value: bpe_codes"),
        ("subword_nmt", {"bpe_codes": "missing"}, "file missing not found"),
        ("fastbpe", {}, "Missing mandatory value: bpe_codes"),
        ("sentencepiece", {}, "Missing mandatory value: sentencepiece_model"),
        ("byte_bpe", {}, "Missing mandatory value: sentencepiece_model_path"),
        ("hf_byte_bpe", {}, "Missing mandatory value: bpe_vocab"),
        ("gpt2", {"gpt2_encoder_json": "missing"}, "file missing not found"),
    ],
)
def test_a_byte_pair_encoding_that_cannot_be_built_is_named(name, options, reason):
    """The reasons are those of OmegaConf and fairseq."""
    cfg = OmegaConf.create({"_name": name, **options})
    said = sentence_of(raised(encoders.build_bpe, cfg))
    assert said is not None and said.startswith(f"--bpe {name} cannot be used ({reason}"), said
    assert said.endswith("): give the options, files and packages it needs.")


@pytest.mark.parametrize(
    ("build", "option", "name", "package"),
    [
        (encoders.build_tokenizer, "tokenizer", "nltk", "nltk.tokenize"),
        (encoders.build_tokenizer, "tokenizer", "moses", "sacremoses"),
        (_build_scorer, "scoring", "bert_score", "bert_score"),
        (_build_scorer, "scoring", "wer", "editdistance"),
        (_build_scorer, "scoring", "meteor", "nltk"),
    ],
)
def test_a_tokenizer_or_score_without_its_package_is_named(monkeypatch, build, option, name, package):
    monkeypatch.setitem(sys.modules, package, None)  # Python then treats it as not installed
    said = sentence_of(raised(build, OmegaConf.create({"_name": name})))
    assert said is not None and said.startswith(f"--{option} {name} cannot be used (Please install "), said


def test_a_tokenizer_that_fails_on_a_text_is_named():
    tokenizer = encoders.build_tokenizer(OmegaConf.create({"_name": "nltk"}))
    tokenizer.word_tokenize = lambda text: ours(LookupError("\n****\n  Resource x not found.\n"))
    said = sentence_of(raised(tokenizer.encode, "a"))
    assert said.startswith("--tokenizer nltk cannot be used (Resource x not found.): give the options, files")


def test_a_value_that_hydra_does_not_accept_is_a_sentence():
    """fairseq-generate passes source_lang=null to --tokenizer moses if no language is given."""
    said = sentence_of(HydraException("Error merging override tokenizer.source_lang=null"))
    assert said == (
        "an option has a wrong value or none (Error merging override tokenizer.source_lang=null): see --help."
    )


def test_a_limit_on_files_without_a_name_is_a_sentence():
    """Semaphores of multiprocessing are files too, so `ulimit -f 0` ends a training before it writes its first file."""
    said = sentence_of(OSError(errno.EFBIG, os.strerror(errno.EFBIG)))
    assert said == "a file cannot be written (File too large): make room, or raise the limits of ulimit."


def test_an_error_of_the_operating_system_names_the_file(tmp_path):
    """Raised in fairseq's code, as for --tensorboard-logdir /dev/null. One without a file keeps its traceback."""
    path = str(tmp_path / " --x")
    assert sentence_of(raised(Dictionary().add_from_file, path)) == (
        f"{path} cannot be read or written (No such file or directory): look at its disk, or choose another place."
    )
    assert sentence_of(OSError(5, "Input/output error")) is None


@pytest.fixture
def shown(monkeypatch, capsys):
    """Return what Python prints for an error that nothing handles."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.delenv("WEAN_TRACEBACK", raising=False)
    errors.show_errors_as_sentences()
    errors.show_errors_as_sentences()

    def shown(error: BaseException) -> str:
        sys.excepthook(type(error), error, error.__traceback__)
        return capsys.readouterr().err

    return shown


def test_a_user_error_is_one_sentence_unless_a_traceback_is_wanted(shown, monkeypatch):
    error = raised(ours, UserError("too long"))
    assert shown(error) == "wean_fairseq: error: too long\n"
    monkeypatch.setenv("WEAN_TRACEBACK", "1")
    text = shown(error)
    assert text.startswith("Traceback") and text.endswith("UserError: too long\n")


def test_the_log_file_of_a_training_gets_the_sentence_too(shown, tmp_path):
    """fairseq-train adds such a handler for --log-file."""
    handler = logging.FileHandler(tmp_path / "train.log")
    logging.getLogger("fairseq_cli.train").addHandler(handler)
    try:
        printed = shown(UserError("too long"))
    finally:
        logging.getLogger("fairseq_cli.train").removeHandler(handler)
        handler.close()
    assert (tmp_path / "train.log").read_text(encoding="utf-8") == printed == "wean_fairseq: error: too long\n"


def wrapped(kind: type[Exception]) -> None:
    """Raise an error while a user's error is handled, as fairseq's trainer does."""
    try:
        raise UserError("another BERT")
    except UserError:
        raise kind("please ensure that the architectures match")  # noqa: B904


def test_a_user_error_that_the_trainer_wraps_is_one_sentence(shown):
    assert shown(raised(wrapped, Exception)) == "wean_fairseq: error: another BERT\n"


@pytest.mark.parametrize(
    ("call", "argument"), [(ours, ValueError("a bug")), (wrapped, KeyError)], ids=["bug", "wrapped"]
)
def test_other_errors_keep_their_traceback(shown, call, argument):
    assert shown(raised(call, argument)).startswith("Traceback")
