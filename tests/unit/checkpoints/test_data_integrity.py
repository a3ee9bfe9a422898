"""Test that data which has changed, is truncated or does not fit is refused by name before a training starts."""

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from fairseq_cli import preprocess

from tests.model_contract import EOS, make_dictionary
from wean_fairseq.data import integrity
from wean_fairseq.data.bert_features import model_files
from wean_fairseq.data.integrity import check_binary, check_data, record_once
from wean_fairseq.data.word_vectors import load_word_vectors
from wean_fairseq.errors import UserError
from wean_fairseq.storage import data_files
from wean_fairseq.storage.cli import main_checksum
from wean_fairseq.storage.data_files import check_prepared, digests_of
from wean_fairseq.storage.files import sha256_of
from wean_fairseq.storage.manifest import NAME, Manifest
from wean_fairseq.tasks import guarded
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask

DICTIONARY = make_dictionary()


def write_side(folder, split, language, rows):
    prefix = str(folder / f"{split}.src-tgt.{language}")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(DICTIONARY))
    for row in rows:
        builder.add_item(torch.tensor([*row, EOS]))
    builder.finalize(f"{prefix}.idx")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for split in ("train", "valid"):
        for language in ("src", "tgt"):
            write_side(folder, split, language, [[4, 5, 6], [7], [8, 9, 10, 11]])
    for language in ("src", "tgt"):
        DICTIONARY.save(str(folder / f"dict.{language}.txt"))
    (folder / "preprocess.log").write_text("Namespace(...)\n")
    return folder


def make_task(data):
    cfg = ParaphraseConfig(
        data=str(data), source_lang="src", target_lang="tgt", train_subset="train", dataset_impl=None
    )
    # fairseq copies these options from its dataset options
    cfg.required_seq_len_multiple, cfg.num_shards, cfg.shard_id = 1, 1, 0
    return ParaphraseTask.setup_task(cfg)


class Model:
    def set_epoch(self, epoch):
        """Accept the call that the task makes at the start of an epoch."""


def begin_training(data):
    task = make_task(data)
    for split in ("valid", "train"):
        task.load_dataset(split)
    task.begin_epoch(1, Model())


def flip(path, place=-4):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_training_leaves_checksums_and_the_next_accepts_them(data):
    begin_training(data)
    assert set(Manifest(data).digests) == {path.name for path in data.iterdir()} - {NAME}
    before = (data / NAME).read_bytes()
    begin_training(data)
    assert (data / NAME).read_bytes() == before


@pytest.mark.parametrize(
    "name", [f"{split}.src-tgt.{end}" for split in ("train", "valid") for end in ("src.bin", "src.idx", "tgt.bin")]
)
def test_one_changed_bit_in_the_data_is_refused_by_name(data, name):
    begin_training(data)
    flip(data / name)
    with pytest.raises(UserError, match=rf"{name} has changed since .*run wean-checksum"):
        begin_training(data)


@pytest.mark.parametrize("name", ["train.src-tgt.src.bin", "valid.src-tgt.tgt.idx", "dict.src.txt"])
def test_data_that_is_not_in_the_checksums_is_refused_by_name(data, name):
    """Notes of a user are not data. A list of a checkpoint in the same folder says nothing about the data."""
    begin_training(data)
    (data / "notes.txt").write_text("mine")
    manifest = (data / NAME).read_text().splitlines(keepends=True)
    (data / NAME).write_text("".join(line for line in manifest if name not in line))
    with pytest.raises(UserError, match=rf"{name} is not in .*{NAME}: .*run wean-checksum"):
        begin_training(data)
    (data / NAME).write_text(f"{'0' * 64}  checkpoint_last.pt\n")
    begin_training(data)


def test_capital_digits_and_line_ends_of_other_programs_are_read(tmp_path):
    """Test capital digits and line ends of other programs, which ``sha256sum --check`` accepts."""
    lines = [f"{'aB' * 32}  {name}\r\n" for name in ("a", "b c")]
    (tmp_path / NAME).write_text("".join(lines), newline="")
    assert Manifest(tmp_path).digests == {"a": ["ab" * 32], "b c": ["ab" * 32]}


@pytest.mark.parametrize("name", ["valid.src-tgt.tgt.bin", "train1.src-tgt.src.idx"])
def test_a_file_that_is_lost_is_named(data, name):
    for language in ("src", "tgt"):
        write_side(data, "train1", language, [[4, 5]])
    begin_training(data)
    (data / name).unlink()
    with pytest.raises(UserError, match=rf"has lost {name}, which is in its checksums\.sha256"):
        make_task(data).load_dataset(name.split(".")[0].rstrip("1"), combine=True)


def test_training_data_without_target_sentences_is_refused(data):
    for split in ("train", "valid"):
        for end in ("bin", "idx"):
            (data / f"{split}.src-tgt.tgt.{end}").unlink()
        with pytest.raises(UserError, match=rf"^split '{split}' in .* has no target sentences"):
            make_task(data).load_dataset(split)
    task = make_task(data)
    task.load_dataset("valid", task_cfg=None)  # fairseq-generate and fairseq-validate give this argument
    sample = task.dataset("valid").collater([task.dataset("valid")[0]])
    with pytest.raises(UserError, match=r"^the data to validate on has no target sentences"):
        task.valid_step(sample, None, None)


def test_the_folders_of_a_training_have_the_dictionaries_of_the_first(data):
    other = data.parent / "other"
    shutil.copytree(data, other)
    (other / "dict.other.txt").write_text("a 1\n")
    path = other / "dict.tgt.txt"
    path.write_text(path.read_text().replace(" 1\n", " 2\n"))  # the counts may differ
    make_task(f"{data}:{other}")
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(
        UserError, match=r"other/dict\.tgt\.txt numbers the words differently from the one in .*bin, and"
    ):
        make_task(f"{data}:{other}")


def test_two_files_that_have_changed_places_are_refused(data):
    begin_training(data)
    write_side(data, "valid", "src", [[4, 5]])
    assert main_checksum([str(data)]) == 0
    for end in ("bin", "idx"):
        source, target = (data / f"valid.src-tgt.{side}.{end}" for side in ("src", "tgt"))
        before = source.read_bytes()
        source.write_bytes(target.read_bytes())
        target.write_bytes(before)
    with pytest.raises(UserError, match=r"valid\.src-tgt\.src\.bin has changed since"):
        make_task(data).load_dataset("valid")


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_a_reordered_dictionary_is_refused_by_name(data, side):
    begin_training(data)
    path = data / f"dict.{side}.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(UserError, match=rf"dict\.{side}\.txt has changed since"):
        make_task(data)


def test_the_parts_of_combined_data_are_looked_at_where_they_are_combined(data):
    for language in ("src", "tgt"):
        write_side(data, "train1", language, [[4, 5]])
    begin_training(data)
    flip(data / "train1.src-tgt.src.bin")
    make_task(data).load_dataset("train")
    with pytest.raises(UserError, match=r"train1\.src-tgt\.src\.bin has changed since"):
        make_task(data).load_dataset("train", combine=True)


def test_a_checkpoint_does_not_choose_where_to_write(data, tmp_path):
    """Test that the path is ignored if fairseq-validate creates the task from the checkpoint's configuration."""
    for given, expected in (({"from_checkpoint": True}, None), ({}, "somewhere")):
        options = ParaphraseConfig(
            data=str(data), source_lang="src", target_lang="tgt", copy_provenance=str(tmp_path / "somewhere")
        )
        task = ParaphraseTask.setup_task(options, **given)
        chosen = task.cfg.copy_provenance
        assert (None if chosen is None else chosen.split("/")[-1]) == expected


def test_other_splits_are_not_looked_at(data):
    begin_training(data)
    flip(data / "train.src-tgt.src.bin")
    make_task(data).load_dataset("valid")


def test_text_data_has_checksums_too(data):
    for path in data.glob("*-*"):
        path.unlink()
    for split in ("train", "valid"):
        for language in ("src", "tgt"):
            (data / f"{split}.src-tgt.{language}").write_text("w1 w2\nw3\n")
    begin_training(data)
    (data / "train.src-tgt.tgt").write_text("w1 w2\nw4\n")
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt has changed since"):
        begin_training(data)


def test_data_that_fairseq_preprocess_made_anew_is_accepted_and_has_new_checksums(data):
    begin_training(data)
    write_side(data, "train", "src", [[4], [5], [6]])
    with (data / "preprocess.log").open("a") as log:
        log.write("Namespace(...)\n")
    begin_training(data)
    flip(data / "train.src-tgt.src.bin")
    with pytest.raises(UserError, match="has changed since"):
        begin_training(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log[:7],
        lambda log: b"",
        lambda log: b"other\n" + log,
        lambda log: log.removesuffix(b"\n") + b" more\n",
        lambda log: log.replace(b"\n", b"\r\n") + b"more\n",
    ],
    ids=["shortened", "empty", "other beginning", "longer line", "other line ends"],
)
def test_a_changed_log_does_not_turn_off_the_checksums(data, change):
    """fairseq-preprocess only appends lines to its log. A damaged log counted as a sign of new data."""
    begin_training(data)
    before, log = (data / NAME).read_bytes(), data / "preprocess.log"
    flip(data / "train.src-tgt.src.bin", 0)
    log.write_bytes(change(log.read_bytes()))
    with pytest.raises(
        UserError, match=r"preprocess\.log was changed, shortened or replaced since .*run wean-checksum on"
    ):
        begin_training(data)
    assert (data / NAME).read_bytes() == before
    assert main_checksum([str(data)]) == 0
    begin_training(data)


@pytest.mark.parametrize("kind", ["missing", "folder", "dangling link", "link to the same"])
def test_without_a_log_the_checksums_are_compared(data, kind):
    begin_training(data)
    log = data / "preprocess.log"
    log.rename(data / "moved")
    if kind == "folder":
        log.mkdir()
    elif kind != "missing":
        log.symlink_to("moved" if kind == "link to the same" else "nothing")
    begin_training(data)
    flip(data / "train.src-tgt.src.bin", 0)
    with pytest.raises(UserError, match=r"train\.src-tgt\.src\.bin has changed since"):
        begin_training(data)


def test_wean_checksum_accepts_what_is_there(data, capsys):
    begin_training(data)
    flip(data / "train.src-tgt.src.bin", 0)  # this changes a word
    assert main_checksum([str(data)]) == 0
    begin_training(data)
    assert "checksums of 11 files" in capsys.readouterr().out


def test_a_folder_without_data_has_none(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UserError, match="has no data that fairseq-preprocess wrote"):
        digests_of(tmp_path)


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(data, monkeypatch):
    def refuse(self, contents):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Manifest, "confirm", refuse)
    record_once(data)
    assert not (data / NAME).exists()


def test_a_read_only_folder_is_not_read_for_nothing(data, monkeypatch, caplog):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(integrity, "digests_of", None)
    with caplog.at_level(logging.INFO):
        record_once(data)
    assert "is read-only" in caplog.text


def test_checksums_are_looked_for_once_in_a_training(data, monkeypatch):
    seen = []
    monkeypatch.setattr(guarded, "record_once", seen.append)
    task = make_task(data)
    for epoch in (1, 2, 3):
        task.begin_epoch(epoch, Model())
    assert seen == [data]


# --- text of the scripts in preprocess/ -------------------------------------------------------------------------------


def test_wean_checksum_compares_a_prepared_text_with_its_manifest(tmp_path, capsys):
    (tmp_path / "train.src").write_text("abc")  # the SHA-256 of abc is an example in FIPS 180-2
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {"train.src": {"sha256": digest}}}))
    before = sorted(tmp_path.iterdir())
    assert main_checksum([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 1 file as in its manifest.json\n"
    (tmp_path / "train.src").write_text("abd")
    assert main_checksum([str(tmp_path)]) == 2
    assert (
        f"{tmp_path / 'train.src'} has changed since its checksum was written to {tmp_path}/manifest.json: restore"
        in capsys.readouterr().err
    )
    (tmp_path / "train.src").unlink()
    assert main_checksum([str(tmp_path)]) == 2
    assert f"{tmp_path / 'train.src'} cannot be read (No such file" in capsys.readouterr().err
    assert sorted([*tmp_path.iterdir(), tmp_path / "train.src"]) == before  # no file is written


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["vectors.txt"], lambda folder: load_word_vectors(str(folder / "vectors.txt"), DICTIONARY, 3)),
        (["vocab.txt", "config.json", "model.safetensors"], lambda folder: model_files(folder, "--bert")),
    ],
    ids=["word vectors", "BERT"],
)
def test_changed_files_of_a_script_are_refused_where_they_are_read(data, tmp_path, names, read):
    folder = tmp_path / "prepared"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("changed")
    (folder / "manifest.json").write_text(json.dumps({"files": {names[0]: {"sha256": "0" * 64}}}))
    with pytest.raises(
        UserError,
        match=rf"prepared/{names[0]} has changed since its checksum was written to .*manifest\.json: restore it",
    ):
        read(folder)


@pytest.mark.parametrize("name", ["train.tgt", "vectors.txt", "manifest.json", "train.missing"])
def test_files_of_a_split_that_are_not_in_the_manifest_are_refused_where_they_are_read(tmp_path, name):
    """The manifest cannot contain its own checksum. A file that belongs to no split in it is the user's."""
    for file in ("vectors.txt", "train.tgt", "train.src"):
        (tmp_path / file).write_text("abc")
    digest = sha256_of(tmp_path / "train.src")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {"train.src": {"sha256": digest}}}))
    assert check_prepared(tmp_path) == check_prepared(tmp_path, ["train.src", "manifest.json"]) == {"train.src": digest}
    if name == "train.tgt":
        with pytest.raises(UserError, match=r"train\.tgt is not in .*/manifest\.json, which lists the other files of"):
            check_prepared(tmp_path, [name])
    else:
        assert check_prepared(tmp_path, [name]) == {}


# --- without checksums: the parts of the data must fit each other -----------------------------------------------------


def test_whole_data_fits(data):
    check_binary(data / "train.src-tgt.src", len(DICTIONARY))
    check_data(data, bool)


def test_an_index_of_a_format_that_fairseq_cannot_read_is_named(data):
    """fairseq's formats ``lazy`` and ``cached`` begin with these bytes."""
    path = data / "train.src-tgt.tgt.idx"
    path.write_bytes(b"TNTIDX\0\0" + path.read_bytes()[8:])
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.idx is an index of --dataset-impl lazy or cached"):
        make_task(data).load_dataset("train")


@pytest.mark.parametrize("change", [lambda content: content[:-2], lambda content: content + b"\0\0"])
def test_a_file_of_another_length_than_its_index_tells_is_refused(data, change):
    path = data / "train.src-tgt.tgt.bin"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.bin has \d+ bytes, but its index expects 22"):
        make_task(data).load_dataset("train")


@pytest.mark.parametrize("length", [12, 20, 40])
def test_an_index_that_is_cut_off_is_refused(data, length):
    path = data / "train.src-tgt.tgt.idx"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.idx is cut off or damaged"):
        make_task(data).load_dataset("train")


def test_a_word_that_no_dictionary_has_is_refused(data):
    path = data / "train.src-tgt.tgt.bin"
    words = np.fromfile(path, dtype=np.uint16)
    words[3] = len(DICTIONARY)
    words.tofile(path)
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.bin has word number 23, but the dictionary ends at 22"):
        make_task(data).load_dataset("train")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"X"),
        (9, b"\2"),
        (17, b"\0"),
        (17, b"\6"),
        (17, b"\x63"),
        (18, b"\xff" * 8),
        (26, b"\xff" * 4),
        (-8, b"\x02"),
    ],
    ids=["magic", "version", "no type", "float", "unknown type", "sentences", "negative size", "position"],
)
def test_an_index_with_other_numbers_than_fairseq_writes_is_refused(data, place, value):
    """The layout follows fairseq's MMapIndexedDataset, where such numbers cause tracebacks or wrong words."""
    path = data / "train.src-tgt.tgt.idx"
    content = bytearray(path.read_bytes())
    content[place : place + len(value) or None] = value
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.idx is cut off or damaged"):
        make_task(data).load_dataset("train")


def test_a_negative_word_number_is_refused(data):
    path = data / "train.src-tgt.tgt"
    content = bytearray(Path(f"{path}.idx").read_bytes())
    content[17] = 3  # fairseq's code of int16
    Path(f"{path}.idx").write_bytes(content)
    words = np.fromfile(f"{path}.bin", dtype=np.int16)
    words[3] = -2
    words.tofile(f"{path}.bin")
    with pytest.raises(UserError, match=r"train\.src-tgt\.tgt\.bin has word number -2, but the dictionary ends at 22"):
        make_task(data).load_dataset("train")


@pytest.mark.parametrize(
    ("beside", "status"),
    [("notes.txt", 2), ("dict.txt", 2), ("dict.src.txt", 0), ("x.pt", 0), ("model.safetensors", 0), ("train.a-b.a", 0)],
)
def test_a_file_gets_a_checksum_only_beside_data_or_a_model(tmp_path, capsys, beside, status):
    """A file in another folder, such as /etc, would get a checksums.sha256 beside it."""
    (tmp_path / "passwd").write_text("x\n")
    (tmp_path / beside).touch()
    assert main_checksum([str(tmp_path / "passwd")]) == status
    assert (tmp_path / "checksums.sha256").exists() == (status == 0)
    assert status == 0 or "is in a folder without data, checkpoints or a model" in capsys.readouterr().err


# --- data that is not what its text says ----------------------------------------------------------------------------


def preprocessed(folder, source, target):
    """Return the binary data that fairseq-preprocess creates from two texts."""
    for side, content in (("src", source), ("tgt", target)):
        (folder / f"train.{side}").write_bytes(content)
    parser = options.get_preprocessing_parser()
    line = ["--source-lang", "src", "--target-lang", "tgt", "--trainpref", str(folder / "train")]
    preprocess.logger.setLevel(logging.INFO)  # this is the level that the command sets
    preprocess.logger.disabled = False  # an earlier test may have configured all loggers
    logging.disable(logging.NOTSET)
    preprocess.main(parser.parse_args([*line, "--destdir", str(folder / "made"), "--workers", "1"]))
    assert " sents, " in (folder / "made" / "preprocess.log").read_text()
    return folder / "made"


def test_lone_carriage_returns_that_shift_pairs_are_refused(tmp_path, capsys):
    """Test texts in which fairseq finds four lines on both sides. It would pair "b" with "2", "b c" with "3 4"."""
    made = preprocessed(tmp_path, b"a\rb\nb c\nd\n", b"1\n2\n3\r4\n")
    assert main_checksum([str(made)]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}/train.src, which has 3 lines: line 1 has a carriage return in it" in said
    assert not (made / NAME).exists()
    with pytest.raises(UserError, match="has 4 sentences of"):
        record_once(made)


def test_lone_carriage_returns_in_text_data_are_refused(tmp_path, capsys):
    (tmp_path / "train.src-tgt.src").write_bytes(b"a\rb\nb c\nd\n")
    (tmp_path / "train.src-tgt.tgt").write_bytes(b"1\n2\n3\r4\n")
    assert main_checksum([str(tmp_path)]) == 2
    assert f"line 1 of {tmp_path}/train.src-tgt.src has a carriage return in it" in capsys.readouterr().err
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("source", [b"a\r\nb c\r\nd\r\n", b"a\nb c\nd", b"a\x0cb\nb\xe2\x80\xa8c\nd\n"])
def test_other_line_ends_are_fine(tmp_path, source):
    made = preprocessed(tmp_path, source, b"1\n2\n3\n")
    assert digests_of(made)


@pytest.mark.parametrize("text", ["made/train.src-tgt.src", "train.src"])
@pytest.mark.parametrize(("size", "said"), [(1 << 40, "sparse"), (1 << 25, "line [12] of .* bytes or more")])
def test_a_sparse_or_endless_line_of_a_text_is_not_read(tmp_path, text, size, said):
    made = preprocessed(tmp_path, b"a\n", b"1\n")
    (tmp_path / text).touch()
    os.truncate(tmp_path / text, size)
    with pytest.raises(UserError, match=said):
        digests_of(made)


def test_sparse_binary_data_is_not_read(data):
    header = (data / "train.src-tgt.src.idx").read_bytes()[:18]
    sizes = np.full(9, 1 << 30, dtype=np.int32).tobytes()  # nine sentences with 2^30 words each, two bytes per word
    positions = (np.arange(9) << 31).tobytes()
    (data / "train.src-tgt.src.idx").write_bytes(header + (9).to_bytes(8, "little") + sizes + positions)
    os.truncate(data / "train.src-tgt.src.bin", 9 << 31)
    with pytest.raises(UserError, match="sparse"):
        check_binary(data / "train.src-tgt.src", len(DICTIONARY))


def test_a_log_cannot_name_a_text_elsewhere(tmp_path):
    """Test a log from another person, which could otherwise show how many lines a file of this computer has."""
    (tmp_path / "mine").mkdir()
    made = preprocessed(tmp_path / "mine", b"a\nb c\nd\n", b"1\n2\n3\n")
    (tmp_path / "secret").write_bytes(b"a\rb\n")
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "secret")
    names = [tmp_path / "secret", tmp_path / "mine" / ".." / "secret", tmp_path / "mine" / "link", "x" * 300, "x\0y"]
    (made / "preprocess.log").write_text("".join(f"[src] {name}: 2 sents, 3 tokens\n" for name in names))
    assert digests_of(made)


def test_a_text_that_a_log_names_in_many_ways_is_read_once(tmp_path, monkeypatch):
    made = preprocessed(tmp_path, b"a\nb\n", b"1\n2\n")
    log = "".join(f"[src] {tmp_path}/{'./' * number}train.src: 2 sents, 3 tokens\n" for number in range(9))
    (made / "preprocess.log").write_text(log)
    lines, calls = data_files._lines, []
    monkeypatch.setattr(data_files, "_lines", lambda path: calls.append(path) or lines(path))
    digests_of(made)
    assert calls == [tmp_path / "train.src"]


def test_a_text_that_has_changed_or_gone_since_says_nothing(tmp_path):
    made = preprocessed(tmp_path, b"a\nb\nc\n", b"1\n2\n3\n")
    (tmp_path / "train.src").write_bytes(b"a\rb\n")
    (tmp_path / "train.tgt").unlink()
    assert digests_of(made)


@pytest.mark.parametrize(
    ("source", "said"),
    [(b"a <s> b\nc\n", "1 times <s>"), (b"<pad> <pad>\nc\n", "2 times <pad>"), (b"a </s> b\n</s>\n", "2 times </s>")],
)
def test_words_that_are_symbols_are_named(tmp_path, caplog, source, said):
    made = preprocessed(tmp_path, source, b"1\n2\n")
    check_binary(made / "train.src-tgt.src", 99)
    check_binary(made / "train.src-tgt.tgt", 99)
    assert [record.getMessage().split(" among ")[0] for record in caplog.records if "among" in record.getMessage()] == [
        f"{made}/train.src-tgt.src.bin has {said}"
    ]


def test_checksums_that_cannot_be_written_are_one_sentence(data, monkeypatch, capsys):
    """The message named the folder as a wrong one."""

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Manifest, "confirm", fail)
    assert main_checksum([str(data)]) == 2
    message = f"cannot write {data / NAME} (No space left on device): make room, or change the permissions of"
    assert message in capsys.readouterr().err
