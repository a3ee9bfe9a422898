"""Test that fairseq's commands report wrong names in one sentence, and show the options of an arch in --help."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

import wean_fairseq
from tests.families import families
from wean_fairseq.capabilities import capabilities_of
from wean_fairseq.errors import UserError
from wean_fairseq.host.command_line import check_pairing

wean_fairseq.register()

TRAIN = ["data", "--task", "paraphrase", "--arch", "wean_lstm", "--criterion", "query_embedding"]


def parse(command: str, *words: str) -> Namespace:
    parsers = {"train": options.get_training_parser, "generate": options.get_generation_parser}
    parser = (parsers | {"validate": options.get_validation_parser})[command]()
    parser.prog = f"fairseq-{command}"
    return options.parse_args_and_arch(parser, [*words])


def changed(name: str, value: str) -> list[str]:
    return [value if TRAIN[place - 1] == f"--{name}" else word for place, word in enumerate(TRAIN)]


@pytest.mark.parametrize(
    ("option", "typed", "meant"),
    [
        ("arch", "wean-lstm", "wean_lstm"),
        ("arch", "granularity_transformer_prodct", "granularity_transformer_product"),
        ("arch", "pointer_genrator", "pointer_generator"),
        ("task", "paraphrse", "paraphrase"),
        ("task", "topic_essays", "topic_essay"),
        ("criterion", "query_embeding", "query_embedding"),
        ("criterion", "modelloss", "model_loss"),
    ],
)
def test_a_misspelt_name_is_corrected(option: str, typed: str, meant: str):
    with pytest.raises(UserError) as refused:
        parse("train", *changed(option, typed))
    assert str(refused.value) == f"there is no --{option} {typed} (did you mean {meant}?)."


def test_only_names_of_this_package_are_offered():
    with pytest.raises(UserError, match=r"^there is no --arch xyzzy: those of wean_fairseq are ") as refused:
        parse("train", *changed("arch", "xyzzy"))
    offered = str(refused.value).rstrip(".").rpartition(" are ")[2].split(", ")
    assert {"wean_lstm", "seq2seq_lstm", "copynet", "dnpg"} <= set(offered)
    assert not {"transformer", "lstm", "transformer_iwslt_de_en"} & set(offered)
    assert parse("train", "data", "--arch", "transformer").arch == "transformer"  # an arch of fairseq itself


def test_a_missing_arch_is_reported():
    with pytest.raises(UserError, match=r"^fairseq-train needs --arch: those of wean_fairseq are .*wean_lstm"):
        parse("train", "data", "--task", "paraphrase")


@pytest.mark.parametrize(
    "words", [["--no\x1b[2J\x85\u2028\u202e"], ["--seed", "\x1b]0;x\x07"], ["--log-format", "\x9b1m"]]
)
def test_wrong_arguments_are_one_line_without_control_characters(words: list[str], capsys: pytest.CaptureFixture[str]):
    """Without this patch, argparse prints its usage and the argument verbatim."""
    with pytest.raises(SystemExit, match="2"):
        parse("train", *TRAIN, *words)
    error = capsys.readouterr().err
    assert error.startswith("fairseq-train: error: ") and error.endswith("; see --help.\n")
    assert len(error.splitlines()) == 1 and error[:-1].isprintable()


def test_the_task_of_the_model_is_required(tmp_path: Path):
    """Without --task, fairseq would use ``translation`` and drop sentences, or raise a KeyError."""
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"model": {}, "cfg": {"task": {"_name": "paraphrase"}, "model": {"_name": "wean_lstm"}}}, path)
    for command in ("generate", "validate"):
        with pytest.raises(UserError) as refused:
            parse(command, "data", "--path", str(path))
        expected = f"{path} was trained with --task paraphrase: give fairseq-{command} the same option."
        assert str(refused.value) == expected
        assert parse(command, "data", "--path", str(path), "--task", "paraphrase").task == "paraphrase"
        assert parse(command, "data", "--path", str(path), "--task", "translation").task == "translation"
    with pytest.raises(UserError, match=r"^fairseq-validate needs --task: that of the training"):
        parse("validate", "data", "--path", str(tmp_path / "none.pt"))
    assert (
        parse("generate", "data", "--path", str(tmp_path / "none.pt")).task == "translation"
    )  # the missing file is reported later, when it is read


@pytest.mark.parametrize("arch", families())
def test_every_arch_accepts_the_losses_of_this_package_only(arch: str):
    for criterion in ("model_loss", "query_embedding"):
        check_pairing(arch, criterion)
    with pytest.raises(UserError, match=rf"^--arch {arch} cannot .* ctc: use --criterion model_loss\.$"):
        check_pairing(arch, "ctc")


def test_additional_losses_are_not_dropped_silently():
    archs = {arch: capabilities_of(ARCH_MODEL_REGISTRY[arch]).adds_losses for arch in families()}
    assert len(archs) > sum(archs.values()) > 3
    for arch in (name for name, adds_losses in archs.items() if adds_losses):
        with pytest.raises(UserError, match=f"^--arch {arch} has additional losses, which --criterion cross_entropy"):
            check_pairing(arch, "cross_entropy")
    for arch in ("transformer", *(name for name, adds_losses in archs.items() if not adds_losses)):
        check_pairing(arch, "cross_entropy")
    # --criterion is not given, so the default criterion is used
    with pytest.raises(UserError, match="has additional losses"):
        parse("train", "data", "--task", "paraphrase", "--arch", "dnpg")


def test_help_with_an_arch_has_its_options_and_defaults(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        parse("train", "--arch", "seq2seq_lstm_lcsts", "--criterion", "model_loss", "--help")
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--arch seq2seq_lstm_lcsts:" in said
    # The first two defaults come from the preset instead of the family (256 and general), and the third from the
    # family.
    for text in ("output (sec. 2.1) (default: 512)", "baseline (default: linear)", "(default: 2)"):
        assert text in said
    assert "--label-smoothing" in said
    assert "${" not in said
    assert "--max-epoch" not in said  # --help --arch lists no options that all archs share


def test_help_without_an_arch_is_that_of_fairseq(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse("train", "--help")
    assert "--max-epoch" in capsys.readouterr().out


def test_every_arch_of_the_package_has_help(capsys: pytest.CaptureFixture[str]):
    archs = [name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")]
    assert len(archs) > 30
    for arch in archs:
        with pytest.raises(SystemExit):
            parse("train", "--arch", arch, "--help")
        assert f"--arch {arch}:" in capsys.readouterr().out
