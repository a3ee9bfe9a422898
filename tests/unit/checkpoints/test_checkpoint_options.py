"""Test that the configuration of a checkpoint is read unchanged if fairseq wrote it.

Any other content is refused, and the message names this content.
"""

import ast
import collections
import json
import re
from argparse import Namespace
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from tests.unit.checkpoints.test_reading_checkpoints import READERS, state
from wean_fairseq.checkpoints.options import EVALUATED, Refused, plain
from wean_fairseq.checkpoints.reading import Hostile, read_checkpoint
from wean_fairseq.storage.manifest import Damaged

CODE = "__import__('os').system('exit 1')"
WITHOUT_A_CALL = "[x['exit 1'] for x.__class__.__getitem__ in [__import__]]"


def evaluated_by_fairseq() -> set[str]:
    """Return the options that fairseq's source passes to ``eval``, as in ``eval(args.encoder_layers)``."""
    package = Path(fairseq.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        if "examples" in file.relative_to(package).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", ""))
            is_method = name == "eval" and isinstance(node.func, ast.Attribute)
            if name in ("eval", "eval_bool", "eval_str_list", "eval_str_dict") and not is_method and node.args:
                given = node.args[0]
                found.add(given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", ""))
    return found - {"x", "uf", ""}  # these are arguments of the wrappers, and input that is typed in


def test_the_list_of_evaluated_options_is_that_of_fairseqs_source():
    assert evaluated_by_fairseq() == EVALUATED


@pytest.mark.parametrize(
    "options",
    [
        {"model": {"_name": "lstm", "decoder_attention": CODE}},
        {"model": {"_name": "lstm", "decoder_attention": WITHOUT_A_CALL}},
        {"model": Namespace(arch="lstm", decoder_attention=WITHOUT_A_CALL)},
        {"criterion": {"_name": "ctc", "wer_args": "print"}},
        {"model": {"deep": [{"er": ({"conv_feature_layers": "[print]"},)}]}},
        {"model": collections.OrderedDict(encoder_layers="x")},
    ],
)
@pytest.mark.parametrize("reader", ["own", "fairseq's", "ensemble", "average", "export"])
def test_code_where_fairseq_evaluates_is_refused(tmp_path, options, reader):
    path = tmp_path / "hostile.pt"
    torch.save(state(cfg=options), path)
    torch.load(path, weights_only=True)
    with pytest.raises(Hostile, match=r"has the option .* \(\w+\), which is code that fairseq may run"):
        READERS[reader](path)


OTHERS = {
    "interpolation": ({"model": {"a": "${b}"}}, "which refers to other options"),
    "half of one": ({"model": {"a": "x${b}${c}y"}}, "which refers to other options"),
    "of the environment": ({"task": {"data": "${oc.env:HOME}"}}, "which refers to other options"),
    "in the name of a file": ({"checkpoint": {"save_dir": "${model.a}"}}, "which refers to other options"),
    "in a name": ({"model": {"${a}": 1}}, "which refers to other options"),
    "bytes": ({"model": {"decoder_attention": b"True"}}, "a type that fairseq does not write"),
    "bytearray": ({"model": {"a": bytearray(b"a")}}, "would call __builtin__.bytearray"),
    "set": ({"model": {"a": {1}}}, "a type that fairseq does not write"),
    "complex number": ({"model": {"a": 1j}}, "a type that fairseq does not write"),
    "tensor": ({"model": {"a": torch.ones(1)}}, "a type that fairseq does not write"),
    "array": ({"model": {"a": torch.ones(1).long().numpy()}}, "a type that fairseq does not write"),
    "large number": ({"model": {"a": 10**100}}, "a type that fairseq does not write"),
    "DictConfig": ({"model": OmegaConf.create({"a": 1})}, "would call omegaconf"),
    "ListConfig": ({"model": {"a": OmegaConf.create([1])}}, "would call omegaconf"),
    "whole DictConfig": (OmegaConf.create({"model": {"a": 1}}), "would call omegaconf"),
    "list": ([1], "is of a type"),
    "Namespace": (Namespace(a=1), "is of a type"),
    "name of a number": ({"model": {1: 2}}, "a name that fairseq does not write"),
    "name of Python": ({"model": Namespace(__class__x=2)}, "a name that fairseq does not write"),
}


@pytest.mark.parametrize(("options", "why"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("reader", ["own", "fairseq's"])
def test_what_fairseq_does_not_write_is_refused(tmp_path, options, why, reader):
    path = tmp_path / "hostile.pt"
    torch.save(state(cfg=options), path)
    with pytest.raises(Hostile, match=why) as caught:
        READERS[reader](path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", ["own", "fairseq's"])
def test_a_name_of_bytes_is_refused_before_it_is_made(tmp_path, reader):
    """Test keys of bytes, which pickle protocol 2 creates by a function call, so a file could choose their hash."""
    path = tmp_path / "hostile.pt"
    torch.save(state(cfg={"model": {b"a": 2}}), path)
    with pytest.raises(Damaged, match="has a pickle with keys that are neither texts nor numbers"):
        READERS[reader](path)


@pytest.mark.parametrize("reader", ["own", "fairseq's"])
def test_options_of_an_old_checkpoint_are_checked_as_well(tmp_path, reader):
    for number, args in enumerate(
        [Namespace(arch="lstm", decoder_attention=WITHOUT_A_CALL), {"arch": "lstm"}, b"x", "x"]
    ):
        path = tmp_path / f"{number}.pt"
        torch.save(state(args=args), path)
        with pytest.raises(Hostile):
            READERS[reader](path)


def containers_within_each_other():
    inner = {}
    inner["self"] = inner
    yield inner
    yield [inner]
    row = []
    row.append(row)
    yield {"a": row}
    one, other = {}, Namespace()
    one["other"], other.one = other, one
    yield one
    many = []
    for _ in range(60):
        many = [many, many]  # 2^60 lists, but only 60 exist in memory
    yield {"a": many[:]}


@pytest.mark.parametrize("options", [*containers_within_each_other()])
def test_containers_without_an_end_are_refused(options):
    with pytest.raises(Refused, match="nested in each other without end"):
        plain(options)


def nested(containers):
    return {"a": nested(containers - 1)} if containers > 1 else {}


# The largest options that are accepted, which are far larger than the options that fairseq writes. Each entry has a
# function, the size, and the error for a larger size.
LIMITS = {
    "containers": (nested, 21, "nested in each other without end"),
    "values": (lambda size: {str(number): 0 for number in range(size)}, 9_999, "more than 10000 values"),
    "items": (lambda size: {"a": [0] * size}, 1_000, "a list of 1001 values as the option 'a'"),
    "characters": (lambda size: {"a": "x" * size}, 100_000, "the option 'a' of 100001 characters"),
    "whole number": (lambda size: {"a": [size, -size]}, 2**63 - 1, "the option 'a' of a type that fairseq"),
}


@pytest.mark.parametrize(("make", "most", "error"), LIMITS.values(), ids=LIMITS)
def test_options_are_read_up_to_a_size(make, most, error):
    assert plain(make(most)) == make(most)
    with pytest.raises(Refused, match=error):
        plain(make(most + 1))


@pytest.mark.parametrize(("length", "shown"), [(59, "x" * 59), (60, "x" * 60 + "..."), (99, "x" * 60 + "...")])
def test_an_error_shows_the_beginning_of_a_long_option(length, shown):
    with pytest.raises(Refused, match=rf"has the option '{re.escape(shown)}' \(lamb_betas\), which is code"):
        plain({"lamb_betas": "x" * length})


def test_what_fairseq_writes_is_copied():
    options = {
        "common": None,
        "task": {"data": "data-bin(1)", "lengths": (3, 4), "nothing": {}},
        "model": Namespace(arch="lstm", lr=[0.1], decoder_attention="True", adaptive_softmax_cutoff="100,200"),
        "checkpoint": {"save_dir": "out/lr(0.1)", "restore_file": "f(", "best": False},
        "free text": [CODE, "$HOME", "{}", "$ {x}"],  # not evaluated anywhere
    }
    found = plain(options)
    assert found == options
    assert found["task"] is not options["task"] and found["model"] is not options["model"]
    found["model"].arch = "other"
    assert options["model"].arch == "lstm"


def test_fairseq_is_given_the_copy(tmp_path):
    """Test that fairseq gets the copied configuration, even if the file has a dictionary of another type."""
    path = tmp_path / "checkpoint.pt"
    model = collections.OrderedDict(_name="wean_lstm")
    torch.save(state(cfg={"model": model, "task": {"_name": "paraphrase"}}), path)
    assert type(read_checkpoint(path)["cfg"]["model"]) is dict
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path), {"_name": "changed"})
    assert OmegaConf.to_container(loaded["cfg"]) == {"model": {"_name": "changed"}, "task": {"_name": "changed"}}


def test_exports_are_checked_as_well(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(1)}, tmp_path / "model.safetensors")
    config = {"format": 1, "cfg": {"task": {}}, "same_as": {}, "optimizer_history": [], "task_state": {}}
    for model in ({"decoder_attention": WITHOUT_A_CALL}, {"a": "${b}"}, {"a": [[0] * 9] * 1000}):
        config["cfg"]["model"] = model
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(Hostile, match=f"^{tmp_path / 'config.json'} is refused"):
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.safetensors"))
