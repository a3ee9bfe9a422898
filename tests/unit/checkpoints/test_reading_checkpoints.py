"""Test that a faulty checkpoint is reported in one sentence.

A checkpoint that would run code is refused, and its code does not run.
"""

import argparse
import math
import os
import pickle
import re
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.optim.adafactor import Adafactor

from tests.fuzz.wrong_types import GONE
from wean_fairseq.checkpoints.average import average
from wean_fairseq.checkpoints.export import export
from wean_fairseq.checkpoints.reading import Hostile, read_checkpoint, same_tensors
from wean_fairseq.checkpoints.structure import align_state, odd_value, without_state, wrong_in_optimizer
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.layer_mixture import load_mixture
from wean_fairseq.host import safe_globals
from wean_fairseq.storage.archive import LARGEST_PICKLE, MOST_MEMBERS
from wean_fairseq.storage.files import sha256_of
from wean_fairseq.storage.manifest import Damaged, Manifest


def state(**more):
    return {
        "args": None,
        "cfg": {"model": {"_name": "wean_lstm", "embed_dim": 4}, "task": {"_name": "paraphrase", "data": "here"}},
        "model": {"weight": torch.arange(6.0).view(2, 3)},
        "optimizer_history": [{"num_updates": 7, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": {"state": {0: {"exp_avg": torch.ones(2, 3)}}},
        **more,
    }


class Attack:
    """Object whose pickle creates a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch '{self.mark}'",)


class Nested:
    """Object whose pickle unpickles bytes that contain an attack."""

    def __init__(self, mark):
        self.content = pickle.dumps(Attack(mark))

    def __reduce__(self):
        return pickle.loads, (self.content,)


class InStorage(Nested):
    """Like ``Nested``, but torch's function that loads the storage of old tensors unpickles the bytes."""

    def __reduce__(self):
        return torch.storage._load_from_bytes, (self.content,)


ATTACKS = {
    "whole file": Attack,
    "in the model": lambda mark: state(model={"weight": Attack(mark)}),
    "nested bytes": lambda mark: state(extra_state={"harmless": 1, "deep": [{"er": Nested(mark)}]}),
    "nested storage": lambda mark: state(model={"weight": InStorage(mark)}),
    "in the optimiser": lambda mark: state(last_optimizer_state={"state": {0: {"exp_avg": Attack(mark)}}}),
    "in the configuration": lambda mark: state(cfg={"model": {"_name": Attack(mark)}}),
    "options of an old arch": lambda mark: state(args=argparse.Namespace(arch="lstm", seed=Attack(mark))),
}
READERS = {
    "own": read_checkpoint,
    "fairseq's": checkpoint_utils.load_checkpoint_to_cpu,
    "ensemble": lambda path: checkpoint_utils.load_model_ensemble([str(path)]),
    "average": lambda path: average([path, path], path.parent / "average.pt"),
    "average, second": lambda path: average([good(path.parent), path], path.parent / "average.pt"),
    "export": lambda path: export(path, path.parent / "export"),
    "evaluation": load_mixture,
}


def good(folder):
    torch.save(state(), folder / "good.pt")
    return folder / "good.pt"


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_by_every_reader_and_nothing_runs(tmp_path, attack, read):
    path, mark = tmp_path / "hostile.pt", tmp_path / "ran"
    torch.save(attack(mark), path)
    with pytest.raises((Hostile, UserError)):
        read(path)
    assert not mark.exists()
    assert not (tmp_path / "average.pt").exists()
    torch.load(path, weights_only=False) if attack is not ATTACKS["nested storage"] else None
    assert mark.exists() or attack is ATTACKS["nested storage"]  # this shows that the attack works without protection


def test_an_attack_in_a_file_of_old_torch_is_refused(tmp_path):
    path, mark = tmp_path / "hostile.pt", tmp_path / "ran"
    torch.save(state(model={"weight": Attack(mark)}), path, _use_new_zipfile_serialization=False)
    with pytest.raises(Hostile, match=r"would call (posix|nt)\.system"):
        read_checkpoint(path)
    assert not mark.exists()


def old_with_an_archive_behind(attack: Any, path: Path) -> None:
    """Write an old checkpoint followed by an archive. torch reads the first bytes of a file, and zipfile the last."""
    torch.save(attack, path, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("harmless", b"")


PROTOCOLS = {
    "torch, protocol 4": lambda attack, path: torch.save(attack, path, pickle_protocol=4),
    "torch, protocol 5": lambda attack, path: torch.save(attack, path, pickle_protocol=5),
    "old torch, protocol 4": lambda attack, path: torch.save(
        attack, path, pickle_protocol=4, _use_new_zipfile_serialization=False
    ),
    "old torch, an archive behind": old_with_an_archive_behind,
    "bare, protocol 4": lambda attack, path: path.write_bytes(pickle.dumps(attack, protocol=4)),
    "bare, protocol 0": lambda attack, path: path.write_bytes(b"S'x'\n0" + pickle.dumps(attack, protocol=0)),
    "bare, built": lambda attack, path: path.write_bytes(
        b"(S'touch " + os.fsencode(attack["model"]["w"].mark) + b"'\niposix\nsystem\n."
    ),
}


@pytest.mark.parametrize("write", PROTOCOLS.values(), ids=PROTOCOLS)
def test_an_attack_that_torchs_loader_cannot_even_read_is_hostile_too(tmp_path, write):
    """Test that a hostile file that torch cannot read is not skipped as if it were damaged by accident."""
    path, mark = tmp_path / "checkpoint_last.pt", tmp_path / "ran"
    write(state(model={"w": Attack(mark)}), path)
    with pytest.raises(Hostile, match=r"loading it would call (posix|nt)\.system,"):
        read_checkpoint(path)
    assert not mark.exists()


def test_a_checkpoint_in_another_protocol_that_calls_nothing_is_no_attack(tmp_path):
    torch.save(state(), tmp_path / "checkpoint.pt", pickle_protocol=4)
    with pytest.raises(Damaged, match="was not written by fairseq-train"):
        read_checkpoint(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("place", range(4))
def test_a_flipped_bit_at_the_beginning_is_damage(tmp_path, place, lazily):
    """Test a flipped bit that makes the file look like a file of an old torch version, which has no checksums."""
    path = good(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged):
        read_checkpoint(path, lazily)


@pytest.mark.parametrize("why", ["unable to mmap 99 bytes", "DefaultCPUAllocator: can't allocate memory: 9 bytes"])
def test_a_computer_without_memory_is_no_damage(tmp_path, monkeypatch, why):
    """Test that a lack of memory does not make the user delete the file, or the training use an older one."""
    path = good(tmp_path)

    def fail(*_, **__):
        raise RuntimeError(why)

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(UserError, match="cannot be read into memory") as caught:
        read_checkpoint(path)
    assert not isinstance(caught.value, Damaged)


def test_the_environment_cannot_turn_the_safe_loader_off(tmp_path, monkeypatch):
    path, mark = tmp_path / "hostile.pt", tmp_path / "ran"
    torch.save(state(model={"weight": Attack(mark)}), path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    safe_globals.use_safe_loader()  # the registration of the plugin does the same
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path)
    assert not mark.exists()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazily", [False, True])
def test_a_good_checkpoint_is_read(tmp_path, lazily):
    found = read_checkpoint(good(tmp_path), lazily)
    assert torch.equal(found["model"]["weight"], state()["model"]["weight"])
    assert found["optimizer_history"][-1]["num_updates"] == 7


def spoilt(path, kind):
    whole = path.read_bytes()
    place = whole.index(torch.arange(6.0).numpy().tobytes()) + 5
    contents = {
        "empty": b"",
        "cut in the middle": whole[: len(whole) // 2],
        "cut at the end": whole[:-1],
        "one bit": whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :],
        "zeros": bytes(len(whole)),
        "text": b"not a checkpoint\n",
    }
    path.write_bytes(contents[kind])


@pytest.mark.parametrize("read", [read_checkpoint, checkpoint_utils.load_checkpoint_to_cpu])
@pytest.mark.parametrize("kind", ["empty", "cut in the middle", "cut at the end", "one bit", "zeros", "text"])
def test_damage_is_one_sentence_with_the_file_and_what_to_do(tmp_path, kind, read):
    path = good(tmp_path)
    spoilt(path, kind)
    with pytest.raises(Damaged, match=rf"^{path} .*use another checkpoint") as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [[1], {"weight": torch.ones(1)}, {"model": 5}])
def test_what_is_no_checkpoint_is_said_to_be_none(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(Damaged, match="is not a checkpoint of fairseq-train"):
        read_checkpoint(tmp_path / "other.pt")


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"there is no checkpoint .*gone\.pt"):
        read_checkpoint(tmp_path / "gone.pt")


def test_tied_tensors_are_found_and_others_are_not():
    one, other = torch.ones(2, 2), torch.ones(2, 2)
    assert same_tensors({"a": one, "b": other, "c": one, "d": one.t(), "e": one[0]}) == {"c": "a"}


def shadowed(**attributes):
    """Return a dictionary whose attributes shadow its methods."""
    made = OrderedDict(state()["model"])
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize("attributes", [{"get": 1}, {"keys": dict}])
def test_a_checkpoint_whose_methods_are_no_methods_is_read(tmp_path, attributes):
    content = shadowed(**attributes)
    content.update(state())
    torch.save(content, tmp_path / "c.pt")
    assert read_checkpoint(tmp_path / "c.pt")["optimizer_history"] == state()["optimizer_history"]


@pytest.mark.parametrize(
    ("named", "member"),
    {
        "model.weight": {"model": {"weight": [1.0]}},
        "model": {"model": {3: torch.ones(1)}},
        "optimizer_history[0]": {"optimizer_history": [shadowed(get=1)]},
        "extra_state": {"extra_state": shadowed(keys=dict)},
        "cfg.task": {"cfg": {"task": "paraphrase"}},
        "task._name": {"cfg": {"task": {"_name": 7}}},
        "task.max_pair_length": {"cfg": {"task": {"_name": "paraphrase", "max_pair_length": "long"}}},
        "model.hidden_size": {"cfg": {"model": {"_name": "wean_lstm", "hidden_size": None}}},
        "common.seed": {"cfg": {"common": {"seed": [1]}}},
        "optimizer_history": {"optimizer_history": []},
        "optimizer_history[0].num_updates": {"optimizer_history": [{"num_updates": True}]},
        "optimizer_history[0].num_updates ": {"optimizer_history": [{"num_updates": -1}]},
        "optimizer_history[0].lr_scheduler_state.best": {"optimizer_history": [{"lr_scheduler_state": {"best": "a"}}]},
        "extra_state.ParaphraseTask.patience.best": {"extra_state": {"ParaphraseTask": {"patience": {"best": "a"}}}},
        "extra_state.TopicEssayTask.patience.num_runs": {
            "extra_state": {"TopicEssayTask": {"patience": {"num_runs": None}}}
        },
        "extra_state.train_iterator.epoch ": {"extra_state": {"train_iterator": {"epoch": -1}}},
        "extra_state.train_iterator.iterations_in_epoch": {
            "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1 << 62}}
        },
        "extra_state.train_iterator.epoch": {"extra_state": {"train_iterator": {"iterations_in_epoch": 3}}},
        "extra_state.best": {"extra_state": {"best": "2.9"}},
        "extra_state.best ": {"extra_state": {"best": 10**400}},
        "extra_state.val_loss": {"extra_state": {"val_loss": torch.zeros(2)}},
        "extra_state.previous_training_time": {"extra_state": {"previous_training_time": torch.zeros(2)}},
        "model  ": {"model": {"a\ud800": torch.zeros(2)}},
        "task_state.dictionaries.src.sorted": {"task_state": {"dictionaries": {"src": {"size": 9, "words": "0"}}}},
        "last_optimizer_state": {"last_optimizer_state": [1]},
        "criterion": {"criterion": 1},
    }.items(),
)
def test_a_member_of_another_type_is_damage_and_named(tmp_path, named, member):
    torch.save(state(**member), tmp_path / "c.pt")
    with pytest.raises(
        Damaged, match=rf"was not written by fairseq-train: its {re.escape(named.strip())} has the wrong type"
    ):
        read_checkpoint(tmp_path / "c.pt")


def rewritten(path: Path, **options: Any) -> None:
    """Write the members of an archive again with ``zipfile``.

    Unlike ``torch.save``, this function compresses the members.
    """
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_overlaps(path: Path) -> None:
    """Add a second name for the same bytes, as in archives that grow to petabytes (Fifield, "A better zip bomb")."""
    with zipfile.ZipFile(path, "a") as archive:
        first = archive.infolist()[0]
        second = zipfile.ZipInfo("archive/data/9")
        second.header_offset, second.CRC = first.header_offset, first.CRC
        second.file_size = second.compress_size = first.file_size
        archive.filelist.append(second)
        archive.NameToInfo[second.filename] = second
        archive._didModify = True


def with_a_large_pickle(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive, archive.open("archive/more.pkl", "w") as file:
        for _ in range(LARGEST_PICKLE >> 20):
            file.write(bytes(1 << 20))


def with_many_members(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(MOST_MEMBERS):
            member = zipfile.ZipInfo(f"archive/data/m{number}")
            member.header_offset = member.CRC = 0
            archive.filelist.append(member)
        archive._didModify = True


def twice_the_same(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(archive.namelist()[0], b"other")


def with_two_directories(path: Path) -> None:
    """Add a second directory to an archive.

    ``zipfile`` reads the directory before the end record, but torch reads the directory that the record names.
    """
    rewritten(path, compression=zipfile.ZIP_STORED)
    content = path.read_bytes()
    end = content.rindex(b"PK\x05\x06")
    directory = content[int.from_bytes(content[end + 16 : end + 20], "little") : end]
    path.write_bytes(content[:end] + directory + content[end:])


def renamed(path: Path, old: str, new: str) -> None:
    """Rename the pickle in the two places where an archive stores its name. Both names have the same length."""
    rewritten(path, compression=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))


def in_two_cases(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(archive.namelist()[0].upper(), b"other")


BOMBS = {
    "a directory that is not where its end says": with_two_directories,
    "compressed members": lambda path: rewritten(path, compression=zipfile.ZIP_DEFLATED),
    "members that overlap": with_overlaps,
    "pickles of more than 64 MiB": with_a_large_pickle,
    "more than 100,000 members": with_many_members,
    "two members of one name": twice_the_same,
    "two members of one name; in two cases": in_two_cases,
    "members with capital letters or NUL in their names": lambda path: renamed(path, "data.pkl", "DATA.PKL"),
    "members with capital letters or NUL in their names; one of them": lambda path: renamed(path, "a.pkl", "a.pkL"),
    "members with capital letters or NUL in their names; a NUL": lambda path: renamed(path, "data.pkl", "data.pk\0"),
}


# "average, second" is left out, because it reads another file before this checkpoint.
@pytest.mark.parametrize("read", [name for name in READERS if name != "average, second"])
@pytest.mark.parametrize("said", BOMBS)
def test_an_archive_that_would_take_hours_is_refused_before_a_member_is_read(tmp_path, monkeypatch, said, read):
    path = good(tmp_path).rename(tmp_path / "bomb.pt")
    BOMBS[said](path)
    monkeypatch.setattr(zipfile.ZipFile, "testzip", None)
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(UserError, match=f"has {said.partition(';')[0]}, which torch.save does not write"):
        READERS[read](path)


def of_a_later_version(content: bytearray) -> None:
    """Change the members so that they require version 9.9 of the format.

    ``zipfile`` rejects this version, and torch ignores it.
    """
    start = content.find(b"PK\x01\x02")
    while start >= 0:
        content[start + 6] = 99
        start = content.find(b"PK\x01\x02", start + 1)


def longer(content: bytearray) -> None:
    """Make the directory longer than the content before the end record."""
    content[-10:-6] = (len(content)).to_bytes(4, "little")


@pytest.mark.parametrize("spoil", [of_a_later_version, longer])
def test_an_archive_whose_directory_zipfile_cannot_read_is_not_given_to_torch(tmp_path, monkeypatch, spoil):
    """Test archives in which torch may find unchecked members, even with a manifest, which an attacker can write."""
    path = good(tmp_path)
    rewritten(path, compression=zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    spoil(content)
    path.write_bytes(content)
    Manifest(tmp_path).confirm({path.name: sha256_of(path)})
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(Damaged, match="is damaged, it is cut off"):
        read_checkpoint(path)


def test_the_archive_in_a_file_that_torch_takes_for_none_is_not_read(tmp_path, monkeypatch):
    """torch recognises an archive by its first bytes only.

    If a file starts with other bytes, it must be refused without unpacking the archive in it.
    """
    path = good(tmp_path)
    rewritten(path, compression=zipfile.ZIP_DEFLATED)
    path.write_bytes(b"XX" + path.read_bytes())
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(UserError, match=r"good\.pt is damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize("in_archive", [False, True])
@pytest.mark.parametrize(
    ("length", "error"), [(998, "loading it would call a+.f,"), (999, "names functions of more than 1,000 characters")]
)
def test_a_function_with_a_long_name_is_refused_before_torch_reports_it(
    tmp_path, monkeypatch, in_archive, length, error
):
    """Test a long name, for which torch takes time proportional to the square of its length.

    A million characters take minutes.
    """
    path = good(tmp_path)
    pickled = b"\x80\x02c" + b"a" * length + b"\nf\n."
    path.write_bytes(pickled)
    if in_archive:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises((Damaged, Hostile), match=error):
        read_checkpoint(path)


@pytest.mark.parametrize("values", [[1], [None]], ids=str)
def test_a_pickle_of_millions_of_values_is_refused_before_it_is_loaded(tmp_path, monkeypatch, values):
    """Test a pickle of 4 MB for which the unpickler would take half a minute."""
    torch.save({"model": {"weight": torch.ones(2)}, "extra_state": {"x": values * 2_000_000}}, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(Damaged, match="has a pickle of more than 1,000,000 operations"):
        read_checkpoint(tmp_path / "a.pt")


DANGEROUS_PICKLES = {
    "copies": (b"}q\0(" + b"K\1N" * 2000 + b"ucbuiltins\ndict\nq\1(" + b"h\1h\0\x85R" * 3000 + b"l", "makes more than"),
    "bytes": (b"X\0\0\x10\0" + b"a" * 2**20 + b"q\0(" + b"c_codecs\nencode\nh\0\x85R" * 300 + b"l", "makes more than"),
    "nested tuples": (b")q\0" + b"h\0h\0\x86q\0" * 40, "makes more than"),
    "nested lists": (b"]q\0" + b"](h\0h\0eq\0" * 40, "makes more than"),
    "in itself": (b"]q\0h\0a", "of values that are in themselves"),
    "filled later": (b"]q\0h\0\x85h\0Na", "of values that are in themselves"),
    # In Python, -1 and -2 have the same hash, and so have tuples of them.
    "keys of one hash": (
        b"}(K\1NJ\xff\xff\xff\xffJ\xfe\xff\xff\xff\x86Nu",
        "with keys that are neither texts nor numbers",
    ),
    "a key of one hash": (b"}K\1\x85Ns", "with keys that are neither texts nor numbers"),
    "set of tuples": (b"cbuiltins\nset\n](K\1\x85e\x85R", "with keys that are neither texts nor numbers"),
    "pairs of keys": (
        b"ccollections\nOrderedDict\n](K\1\x85N\x86e\x85R",
        "with keys that are neither texts nor numbers",
    ),
    "complex numbers": (b"}cbuiltins\ncomplex\nK\1K\2\x86RNs", "with keys that are neither texts nor numbers"),
    "state in pairs": (
        b"ccollections\nOrderedDict\n)R](K\1\x85N\x86eb",
        "with keys that are neither texts nor numbers",
    ),
    "state in a tuple": (
        b"ccollections\nOrderedDict\n)RK\1\x85N\x86\x85b",
        "with keys that are neither texts nor numbers",
    ),
    "deep tuples": (b")" + b"\x85" * 19_000, "of more than 500 levels"),
    "deep lists": (b"]" * 9_000 + b"a" * 8_999, "of more than 500 levels"),
    "equal hashes": (b"}(" + (b"\x8a\x09" + b"\2" * 9 + b"N") * 10_001 + b"u", "makes more than"),
    "a storage": (b"(X\7\0\0\0storageNX\2\0\0\x000\0X\3\0\0\0cpuK\1tQ", "by other texts than numbers"),
}


@pytest.mark.parametrize(("pickled", "said"), DANGEROUS_PICKLES.values(), ids=DANGEROUS_PICKLES)
def test_a_pickle_of_which_few_bytes_make_gigabytes_or_hours_is_not_loaded(tmp_path, monkeypatch, pickled, said):
    """The pickles consist of operations that Python documents.

    No file here has more than 20,000 operations, except the file with 1 MB of text.
    """
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\2" + pickled + b".")
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(Damaged, match=rf"a\.pt (has a pickle that |has a pickle |names storages ){said}"):
        read_checkpoint(tmp_path / "a.pt")


def test_values_may_be_shared(tmp_path):
    """fairseq's checkpoints share values, such as text, sizes and options."""
    shared = {"lr": [0.1], "text": "a" * 100}
    torch.save(state(extra_state={str(n): shared for n in range(100)}), tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt")["extra_state"]["99"] == shared


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool, torch.float8_e4m3fn], ids=str)
def test_weights_of_other_kinds_of_numbers_are_refused(tmp_path, dtype):
    """Such weights would silently be rounded, or lose their imaginary parts."""
    torch.save({"model": {"layer.weight": torch.ones(2).to(dtype)}}, tmp_path / "a.pt")
    with pytest.raises(Damaged, match=r"its model\.layer\.weight has the wrong type or value"):
        read_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("side", ["source_lang", "target_lang"])
def test_a_side_of_the_data_that_is_a_path_is_refused(tmp_path, side):
    content = {"model": {"weight": torch.ones(2)}, "cfg": {"task": {"_name": "paraphrase", side: "../../x"}}}
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(Damaged, match=rf"its task\.{side} has the wrong type or value"):
        read_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("section", "option", "value"),
    [
        ("generation", "sampling", "yes"),
        ("generation", "beam", "5"),
        ("common", "fp16", "no"),
        ("task", "max_source_positions", "9"),
    ],
)
def test_a_number_or_a_switch_that_is_text_is_refused(tmp_path, section, option, value):
    """Test numbers and switches that are text: OmegaConf converts them, but readers would take "no" for yes."""
    content = {"model": {"weight": torch.ones(2)}, "cfg": {section: {"_name": "paraphrase", option: value}}}
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(Damaged, match=rf"its {section}\.{option} has the wrong type or value"):
        read_checkpoint(tmp_path / "a.pt")


def test_an_archive_without_compression_is_read_whoever_wrote_it(tmp_path):
    """Test an uncompressed archive, as a tool writes it that copies archives member by member."""
    rewritten(good(tmp_path), compression=zipfile.ZIP_STORED)
    assert read_checkpoint(tmp_path / "good.pt")["model"]["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("lazily", [False, True])
def test_a_checkpoint_whose_name_is_not_utf8_is_intact(tmp_path, lazily):
    """torch cannot memory-map a file with such a name, so an earlier wean-average reported it as damaged."""
    torch.save(state(), tmp_path / "c\udcff.pt")
    assert read_checkpoint(tmp_path / "c\udcff.pt", lazily)["model"].keys() == state()["model"].keys()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_are_nested_up_to_50_times():
    assert odd_value(nested(50)) is None
    assert odd_value(nested(51)) is not None


def with_attribute(name: str) -> torch.Tensor:
    tensor = torch.ones(2)
    setattr(tensor, name, 5)
    return tensor


ODD_TENSORS = {
    "meta": torch.ones(2, device="meta"),
    "sparse": torch.eye(2).to_sparse(),
    "compressed rows": torch.eye(2).to_sparse_csr(),
    "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    **{f"attribute {name}": with_attribute(name) for name in ("numel", "to", "shape_of", "detach")},
    "tensors of other sizes": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "larger than its memory": torch.ones(1).expand(10**6, 10**6),
    "nested too deeply": nested(200),
}


@pytest.mark.filterwarnings("ignore:.*Sparse CSR", "ignore:.*quantiz", "ignore:.*nested tensors")
@pytest.mark.parametrize("place", ["model", "last_optimizer_state", "extra_state"])
@pytest.mark.parametrize("value", ODD_TENSORS.values(), ids=ODD_TENSORS)
def test_values_that_fairseq_does_not_write_are_refused_by_their_place(tmp_path, value, place):
    torch.save(state(**{place: {"odd": value}}), tmp_path / "odd.pt")
    with pytest.raises(UserError, match=rf"its {place}\.odd[.0]* has the wrong type"):
        read_checkpoint(tmp_path / "odd.pt")


def test_tensors_may_share_memory_but_not_multiply_it(tmp_path):
    """Tied tensors and parts of one buffer are usual and must be accepted.

    A thousand views of a few bytes would need gigabytes when used.
    """
    buffer = torch.arange(6.0)
    usual = {"tied": buffer, "whole": buffer, "first": buffer[:4], "last": buffer[4:]}
    torch.save(state(model=usual), tmp_path / "usual.pt")
    assert read_checkpoint(tmp_path / "usual.pt")["model"].keys() == usual.keys()
    # Views of 6, 5 and 2 elements of a buffer with 6 elements.
    torch.save(state(model={str(n): buffer[n:] for n in (0, 1, 4)}), tmp_path / "odd.pt")
    with pytest.raises(Damaged, match=r"its model\.\d has the wrong type or value"):
        read_checkpoint(tmp_path / "odd.pt")


def stepped() -> torch.optim.Adam:
    """Return an optimiser of three parameters, of which two have made a step."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    optimizer = torch.optim.Adam(parameters)
    (parameters[0].sum() + parameters[1].sum()).backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("group", "entry", "wrong"),
    [
        ({}, {}, None),
        ({"lr": 1, "eps": torch.tensor(1e-8)}, {}, None),
        ({"amsgrad": GONE}, {}, None),  # another version of PyTorch may not have this option
        ({"eps": GONE}, {}, "eps"),
        ({"lr": "0.1"}, {}, "lr"),
        ({"lr": torch.ones(2)}, {}, "lr"),
        ({"betas": (0.9,)}, {}, "betas"),
        ({"betas": (0.9, "0.99")}, {}, "betas"),
        ({"betas": 0.9}, {}, "betas"),
        ({"amsgrad": 1}, {}, "amsgrad"),
        ({}, {"exp_avg": [1.0, 1.0]}, "exp_avg"),
        ({}, {"exp_avg": GONE}, "exp_avg"),
        # A fused kernel would read outside of a smaller tensor, and Adam takes roots of betas and of the step.
        ({}, {"exp_avg": torch.zeros(1)}, "exp_avg"),
        ({}, {"exp_avg": torch.zeros(())}, "exp_avg"),
        ({}, {"exp_avg_sq": torch.zeros(2, 1)}, "exp_avg_sq"),
        ({}, {"exp_avg_sq": torch.zeros(5)}, "exp_avg_sq"),
        ({}, {"step": torch.tensor(-5.0)}, "step"),
        ({}, {"step": torch.ones(2)}, "step"),
        ({"betas": (2, 3)}, {}, "betas"),
        ({"betas": (0.9, 1)}, {}, "betas"),
        ({"eps": -1.0}, {}, "eps"),
        ({"lr": math.nan}, {}, "lr"),
    ],
)
def test_a_state_with_which_an_optimiser_makes_no_step_is_named(group, entry, wrong):
    optimizer = stepped()
    for members, changes in ((optimizer.param_groups[0], group), (list(optimizer.state.values())[1], entry)):
        members.update({name: value for name, value in changes.items() if value is not GONE})
        for name in changes:
            if changes[name] is GONE:
                del members[name]
    assert wrong_in_optimizer(optimizer) == wrong


def test_parameters_without_a_state_are_named():
    """They start a new state. If the state is empty, or a parameter is not trained, it is not named."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model[0].parameters())
    assert without_state(optimizer, model) == []
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert without_state(optimizer, model) == []
    del optimizer.state[model[0].bias]
    assert without_state(optimizer, model) == ["0.bias"]


def test_the_state_of_adafactor_is_accepted():
    """It has the means of rows and columns, and a negative option."""
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in ((2,), (2, 3), (2, 3, 4))]
    optimizer = Adafactor(parameters)
    sum(parameter.sum() for parameter in parameters).backward()
    optimizer.step()
    assert wrong_in_optimizer(optimizer) is None


def test_the_parts_of_a_composite_optimiser_are_checked():
    optimizer = stepped()
    composite = argparse.Namespace(optimizers={"a": argparse.Namespace(optimizer=optimizer)}, param_groups=[], state={})
    assert wrong_in_optimizer(composite) is None
    next(iter(optimizer.state.values()))["exp_avg"] = torch.zeros(1)
    assert wrong_in_optimizer(composite) == "exp_avg"


def test_a_state_of_another_memory_layout_is_stored_in_that_of_the_parameter():
    parameter = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    state = optimizer.state[parameter]
    before = state["exp_avg"].clone()
    state["exp_avg"] = state["exp_avg"].t().contiguous().t()
    align_state(optimizer)
    assert state["exp_avg"].stride() == parameter.stride() == (3, 1)
    assert torch.equal(state["exp_avg"], before)


def test_a_state_of_a_parameter_is_a_dictionary():
    optimizer = stepped()
    optimizer.state[optimizer.param_groups[0]["params"][0]] = [1]
    assert wrong_in_optimizer(optimizer) == "state"


def test_a_state_belongs_to_a_parameter():
    """Test a list of parameters with a number that is not in the state. torch then keeps the number as the key."""
    optimizer = stepped()
    saved = optimizer.state_dict()
    saved["param_groups"][0]["params"][0] = "no text"
    optimizer.load_state_dict(saved)
    assert wrong_in_optimizer(optimizer) == "state"
