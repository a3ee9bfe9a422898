"""Test that fairseq's commands report wrong names in one sentence, and show the options of an arch in --help."""

import logging
import os
import sys
import tty
from argparse import Namespace
from dataclasses import fields
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

MASKED = "--ga-variant resonance or scope or product or mean or --ga-cross resonance"
TRAIN = ["data", "--task", "paraphrase", "--arch", "wean_lstm", "--criterion", "query_embedding"]


def parse(command: str, *words: str) -> Namespace:
    parsers = {"train": options.get_training_parser, "generate": options.get_generation_parser}
    parsers |= {"interactive": options.get_interactive_generation_parser}
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


@pytest.mark.parametrize(
    ("arch", "given", "missing"),
    [
        ("seq2seq_lstm", "--detach-query-embedding", "--query-score dot or general or concat"),
        ("copynet", "--query-score dot", "--output-layer query_embedding"),
        ("enc_dec", "--attention-dim 8", "--system copynet or rnnsearch"),
        ("rnnsearch", "--oov-input copy", "--system copynet"),
        ("pointer_generator", "--query-score dot", "--output-layer query_embedding"),
        ("pointer_generator", "--coverage-weight 2", "--coverage"),
        ("residual_lstm", "--query-score dot", "--output-layer query_embedding"),
        ("stacked_lstm", "--residual-recurrent", "--residual-every"),
        ("nts", "--query-score dot", "--output-layer query_embedding"),
        ("nts", "--local-dim 8", "--global-vectors or --local-source-vectors or --local-target-vectors"),
        ("nts", "--missing-vector-std 1", "--global-vectors"),
        ("nts", "--lexical-share 0.2", "--lexical-dim"),
        ("granularity_transformer", "--ga-encoder-length 9", "--ga-length padded"),
        ("granularity_transformer", "--ga-decoder-length 9", "--ga-length padded"),
        ("granularity_transformer_resonance", "--ga-length padded", "--ga-variant scope or product or mean"),
        ("granularity_transformer", "--ga-variant none --ga-normalize none", MASKED),
        ("granularity_transformer", "--ga-variant none --ga-start-layer 2", MASKED),
        ("tav_lstm", "--attention-dim 8", "--topic-mode mta or tat"),
        ("tat_lstm", "--topic-slots 8", "--topic-mode mta"),
        ("tat_lstm", "--coverage-loss-weight 1", "--topic-mode mta"),
        ("pc_san", "--bert-layers none --topic-fuse sequence", "--bert-layers dynamic or static or last"),
        ("pc_san", "--bert-layers last --bert-mix free", "--bert-layers dynamic or static"),
    ],
)
def test_an_option_without_effect_is_reported(arch: str, given: str, missing: str, caplog):
    """The dependencies are those of the family's ``build``."""
    parse("train", "data", "--arch", arch, "--criterion", "model_loss", *given.split())
    assert caplog.messages == [f"{last_option(given)} has no effect without {missing}"]


@pytest.mark.parametrize(
    ("given", "needed", "is_warned"),
    [
        ("--eval-bleu-args {}", "--eval-bleu", False),  # the default
        ('--eval-bleu-args {"beam":2}', "--eval-bleu", True),
        ("--eval-tokenized-bleu", "--eval-bleu", True),
        ("--eval-bleu-print-samples", "--eval-bleu", True),
        ("--keep-interval-updates 1", "--save-interval-updates 10", True),
        ("--ema-decay 0.9", "--store-ema", True),
    ],
)
def test_a_training_option_without_effect_is_reported(given: str, needed: str, is_warned: bool, caplog):
    """fairseq reads it only together with the other option."""
    line = ["train", "data", "--task", "paraphrase", "--arch", "wean_lstm", "--criterion", "model_loss", *given.split()]
    parse(*line, *needed.split())
    assert caplog.messages == []
    parse(*line)
    assert (
        caplog.messages
        == [f"{given.split(maxsplit=1)[0]} has no effect without {needed.split(maxsplit=1)[0]}"] * is_warned
    )


@pytest.mark.parametrize("text", ["__import__('os')", "{", "{'beam': 10**9}", "[1]", "['path']", "{1: 2}", "None"])
@pytest.mark.parametrize("command", ["generate", "interactive", "validate"])
def test_overrides_that_are_no_dictionary_are_named(command: str, text: str):
    with pytest.raises(
        UserError, match=r"^--model-overrides must be a dictionary, such as \{'num_candidates': 5000\}, bu"
    ):
        parse(command, "data", "--path", "nowhere.pt", "--task", "paraphrase", "--model-overrides", text)


def last_option(words: str) -> str:
    return next(word for word in reversed(words.split()) if word.startswith("--"))


def test_every_option_that_needs_another_is_tested():
    marked = {
        (model.family, item.name)
        for model in {*ARCH_MODEL_REGISTRY.values()}
        if hasattr(model, "options")
        for item in fields(model.options)
        if item.metadata.get("needs")
    }
    (mark,) = test_an_option_without_effect_is_reported.pytestmark
    tested = {
        (ARCH_MODEL_REGISTRY[arch].family, last_option(given).lstrip("-").replace("-", "_"))
        for arch, given, _ in mark.args[1]
    }
    # dnpg and the families of essays have the same output layer
    assert {option for option in marked if option[1] != "query_score"} <= tested


def test_options_with_an_effect_are_not_reported(caplog):
    """The options of the last four lines come from recipes, or change a default of the arch."""
    for words in (
        "copynet --query-score dot --output-layer query_embedding",
        "nts --local-dim 8 --local-target-vectors vectors",
        "nts_w2v --global-vectors vectors --local-dim 0",
        "granularity_transformer --ga-variant none --ga-cross resonance --ga-normalize none",
        "enc_dec --system rnnsearch --attention-dim 8",
        "pointer_generator_coverage --coverage-weight 2",
        "enc_dec_a --freeze-vectors --finetune-from-model base.pt",
        "dress_ls --freeze-vectors --base-checkpoint base.pt",
    ):
        parse("train", "data", "--criterion", "model_loss", "--arch", *words.split())
    assert not caplog.messages


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


@pytest.mark.parametrize("option", ["--task", "--criterion", "--arch"])
def test_an_option_without_its_value_is_reported(option: str, capsys: pytest.CaptureFixture):
    """The message was that --arch is missing, although it was given."""
    for line in ([option], [option, "--cpu"]):
        with pytest.raises(SystemExit):
            parse("train", "data", "--arch", "copynet", *line)
        assert f"error: argument {option}" in capsys.readouterr().err


def test_a_list_of_numbers_that_is_none_is_reported(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        parse("train", "data", "--arch", "copynet", "--lr", "abc")
    assert "error: argument --lr: invalid value: 'abc'" in capsys.readouterr().err


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


@pytest.mark.parametrize(("command", "option"), [("train", "--save-dir"), ("generate", "--path")])
def test_a_value_that_the_configuration_would_replace_is_refused(command: str, option: str):
    words = TRAIN if command == "train" else ["data", "--task", "paraphrase"]
    with pytest.raises(UserError, match=rf"^{option} out\$\{{oc\.env:HOME\}} has \$\{{ in it, which fairseq replaces"):
        parse(command, *words, option, "out${oc.env:HOME}")


def test_a_search_is_checked_before_a_model_is_loaded():
    """There is no model. fairseq-generate has other search options than other tasks of fairseq need."""
    words = ["data", "--path", "nowhere.pt", "--beam", "4"]
    with pytest.raises(UserError, match="--sampling and --diverse-beam-groups are different kinds of search"):
        parse("generate", *words, "--task", "paraphrase", "--sampling", "--diverse-beam-groups", "2")
    with pytest.raises(UserError, match="--search-preset wean is plain beam search and does not go with --sampling"):
        parse("generate", *words, "--task", "paraphrase", "--search-preset", "wean", "--sampling")
    assert parse("generate", *words, "--task", "translation_lev", "--print-step").print_step


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--score-reference"], "--score-reference is for fairseq-generate: leave it out"),
        (["--num-shards", "2"], "--num-shards is for fairseq-generate: leave it out"),
        (["--scoring", "chrf"], "--scoring is for fairseq-generate"),
        (["--prefix-size", "2"], "--prefix-size is for fairseq-generate"),
        (["--lm-path", "nope"], "--lm-path is for fairseq-generate"),
        (["--print-alignment", "soft"], "--print-alignment soft is for fairseq-generate"),
    ],
)
def test_options_that_fairseq_interactive_ignores_are_refused(words: list[str], message: str):
    """It ignored them, or ended with a traceback after the first line."""
    line = ["data", "--path", "nowhere.pt", "--task", "paraphrase", *words]
    with pytest.raises(UserError, match=message):
        parse("interactive", *line)
    assert parse("generate", *line)


OUT_OF_RANGE = {"--min-loss-scale": ("nan", "inf", "-7"), "--required-seq-len-multiple": ("0", "99999999999999999999")}
OUT_OF_RANGE |= {"--patience": ("-7", "3000000000"), "--keep-last-epochs": ("-7",), "--bucket-cap-mb": ("0",)}
OUT_OF_RANGE |= {"--loss-limit": ("nan", "inf"), "--fp16-scale-tolerance": ("1e300",), "--max-valid-steps": ("-1",)}
OUT_OF_RANGE |= {"--fixed-validation-seed": ("-7",)}


@pytest.mark.parametrize("option", OUT_OF_RANGE)
@pytest.mark.parametrize("command", ["train", "generate", "interactive"])
def test_numbers_out_of_range_are_refused_by_every_command(command: str, option: str):
    """Each value had no effect and exit status 0, or ended with a traceback after the data was loaded."""
    line = TRAIN if command == "train" else ["data", "--path", "nowhere.pt", "--task", "paraphrase"]
    for value in OUT_OF_RANGE[option]:
        with pytest.raises(UserError, match=f"^{option} must be .*, but is {value.replace('1e300', '1e.300')}"):
            parse(command, *line, f"{option}={value}")


@pytest.mark.parametrize("command", ["generate", "interactive"])
@pytest.mark.parametrize(
    ("option", "value"),
    [("--batch-size", "0"), ("--max-tokens", "0"), ("--num-workers", "-1")],
)
def test_batches_of_a_decoding_are_checked_before_the_model_is_loaded(command: str, option: str, value: str):
    """fairseq-generate refused them when the model was loaded, which is after the training of a recipe."""
    with pytest.raises(UserError, match=f"^{option} must be .*, but is {value}"):
        parse(command, "data", "--path", "nowhere.pt", "--task", "paraphrase", option, value)


@pytest.mark.parametrize(
    "option", "--lr --update-freq --valid-subset --source-lang --save-dir --finetune-from-model".split()
)
def test_an_empty_value_names_its_option(option: str):
    """fairseq failed on an empty list without the name of the option, and saved into a folder without a name."""
    parser = options.get_training_parser()
    line = ["data", "--task", "paraphrase", "--arch", "seq2seq_lstm", option, ""]
    with pytest.raises(UserError, match=f"^{option} is empty: give a value, or leave it out"):
        options.parse_args_and_arch(parser, line)


@pytest.mark.parametrize("option", ["--checkpoint-suffix", "--train-subset", "--valid-subset"])
@pytest.mark.parametrize("value", ["../..", "/tmp/x"])
def test_a_part_of_a_file_name_has_no_slash(option: str, value: str):
    """The checksums of data in another folder would not be compared."""
    parser = options.get_training_parser()
    line = ["data", "--task", "paraphrase", "--arch", "seq2seq_lstm", option, value]
    with pytest.raises(UserError, match=f"^{option} {value} has a slash: "):
        options.parse_args_and_arch(parser, line)


def test_numbers_without_a_bound_are_accepted():
    """An infinite penalty means that <unk> is never written. A seed may have 32 bits.

    fairseq's parser keeps the number of updates as text.
    """
    schedule = ["--lr-scheduler", "polynomial_decay", "--total-num-update", "50"]
    assert float(parse("train", *TRAIN, *schedule).total_num_update) == 50
    line = ["data", "--path", "nowhere.pt", "--task", "paraphrase"]
    assert parse("generate", *line, "--unkpen", "inf", "--seed", str(2**32 - 1)).seed == 2**32 - 1


@pytest.mark.parametrize("command", ["generate", "interactive"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gpt2", r"--bpe gpt2 needs a local file as --gpt2-encoder-json, which is https://.*encoder.json"),
        ("bert", "--bpe bert needs a local file as --bpe-vocab-file, which is None"),
        ("fastbpe", r"--bpe fastbpe needs a local file as --bpe-codes, which is \?\?\?"),
        ("subword_nmt --bpe-codes /", "--bpe subword_nmt needs a local file as --bpe-codes, which is /"),
        ("sentencepiece --sentencepiece-model s3://a/b", "needs a local file as --sentencepiece-model, which is s3:"),
        ("characters", "--bpe characters cannot be used by commands of fairseq: choose from .*, subword_nmt"),
        ("bytes", "--bpe bytes cannot be used by commands of fairseq"),
    ],
)
def test_a_bpe_is_never_downloaded(command: str, words: str, message: str):
    """fairseq and transformers would try to download files for minutes."""
    with pytest.raises(UserError, match=message):
        parse(command, "data", "--path", "nowhere.pt", "--task", "paraphrase", "--bpe", *words.split())


def test_a_score_that_fails_after_decoding_is_refused():
    """NLTK 3.6.6 and later accept only tokenised texts, and fairseq passes whole ones."""
    with pytest.raises(UserError, match="--scoring meteor fails in fairseq with this NLTK: use wean-evaluate --metric"):
        parse("generate", "data", "--path", "nowhere.pt", "--task", "paraphrase", "--scoring", "meteor")


def test_a_command_sends_no_control_characters_to_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """fairseq-interactive prints its input, and commands log names of files. Files get them unchanged."""
    leader, terminal = os.openpty()
    tty.setraw(terminal)
    monkeypatch.setattr(sys, "argv", ["fairseq-generate", "data", "--path", "nowhere.pt", "--task", "paraphrase"])
    with os.fdopen(terminal, "w", encoding="utf-8") as stream, (tmp_path / "out").open("w", encoding="utf-8") as file:
        for output in (stream, file):
            handler = logging.StreamHandler(output)
            monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
            monkeypatch.setattr(sys, "stdout", output)
            options.parse_args_and_arch(options.get_generation_parser())
            print("S-0\ta\x1b[2Jb\u202ec", flush=True)
            handler.handle(logging.makeLogRecord({"msg": "loading \x1b]0;x\x07\nb"}))
        expected, shown = b"S-0\ta\\x1b[2Jb\\u202ec\nloading \\x1b]0;x\\x07\nb\n", b""
        while len(shown) < len(expected):  # a terminal may pass the text on in parts
            shown += os.read(leader, 100)
        assert shown == expected
    assert (tmp_path / "out").read_text(encoding="utf-8") == "S-0\ta\x1b[2Jb\u202ec\nloading \x1b]0;x\x07\nb\n"
    os.close(leader)


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
