"""Test the patches of fairseq functions that read files and lines."""

import errno
import logging
import os
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from fairseq import options, utils
from fairseq.data import indexed_dataset
from fairseq_cli import interactive
from fairseq_cli import preprocess as preprocess_cli

from wean_fairseq.errors import UserError
from wean_fairseq.host.patches import install
from wean_fairseq.host.table import PATCHES
from wean_fairseq.ranges import MOST_PROCESSES


def test_replace_unk_without_a_file_means_the_word_itself(tmp_path):
    assert utils.load_align_dict("@@ ") == {}  # fairseq passes "@@ " if --replace-unk has no file
    assert utils.load_align_dict("") == {}
    assert utils.load_align_dict(None) is None
    (tmp_path / "words.txt").write_text("cat dog\n")
    assert utils.load_align_dict(str(tmp_path / "words.txt")) == {"cat": "dog"}


@pytest.mark.parametrize(("impl", "suffix"), [("mmap", ".bin"), ("cached", ".bin"), ("lazy", ".bin"), ("raw", "")])
def test_a_split_without_sentences_is_named(tmp_path, impl, suffix):
    """fairseq-preprocess writes an empty file for an empty text."""
    prefix = str(tmp_path / "valid.src-tgt.src")
    assert indexed_dataset.make_dataset(prefix, impl, dictionary=None) is None
    (tmp_path / f"valid.src-tgt.src{suffix}").touch()
    with pytest.raises(UserError, match=re.escape(f"{prefix} has no sentences: give fairseq-preprocess a text")):
        indexed_dataset.make_dataset(prefix, impl, dictionary=None)


@pytest.mark.parametrize("origin", ["fairseq_cli.interactive", "the.script.of.a.user"])
def test_fairseq_interactive_reads_typed_lines(monkeypatch, tmp_path, origin):
    """The ``fairseq-interactive`` script imports the command as a module, and ``python -m`` runs it as ``__main__``."""
    command = ModuleType("__main__")
    command.__spec__, command.buffered_read = ModuleSpec(origin, None), interactive.buffered_read.__wrapped__
    monkeypatch.setitem(sys.modules, "__main__", command)
    install([patch for patch in PATCHES if patch.target == "fairseq_cli.interactive:buffered_read"])
    (tmp_path / "input").write_bytes(b"\xef\xbb\xbfa\r\nb")  # a file with a byte order mark and a carriage return
    expected = [["a", "b"]]
    assert list(interactive.buffered_read(str(tmp_path / "input"), 2)) == expected
    read = list(command.buffered_read(str(tmp_path / "input"), 2))
    assert (read == expected) == (origin == "fairseq_cli.interactive")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it is not a regular file"),
        (b"cat dog\nbird\n", "a line has fewer than two words"),
        (b"cat \xff\n", "it is not UTF-8: invalid start byte"),
    ],
)
def test_a_file_of_replace_unk_that_cannot_be_used_is_named(tmp_path, content, said):
    """Reading a device or a pipe might never end."""
    path = tmp_path / "words.txt"
    if content is None:
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(f"--replace-unk {path} cannot be read ({said}): give a word and ")):
        utils.load_align_dict(str(path))


@pytest.fixture(name="preprocess")
def preprocess_on_text(tmp_path):
    """Return a function that runs fairseq-preprocess on a small text, with further options."""
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("a b\nb a\n")
    given = ["--source-lang", "src", "--target-lang", "tgt", "--trainpref", str(tmp_path / "train")]
    parser = options.get_preprocessing_parser()
    return lambda *more: preprocess_cli.main(parser.parse_args([*given, "--destdir", str(tmp_path / "bin"), *more]))


@pytest.mark.parametrize(
    "option", ["--srcdict", "--tgtdict", "--alignfile", "--trainpref", "--validpref", "--testpref"]
)
def test_fairseq_preprocess_refuses_what_is_no_file(preprocess, tmp_path, option):
    path = tmp_path / ("pipe.src" if option.endswith("pref") else "pipe")
    os.mkfifo(path)
    value = str(path).removesuffix(".src")
    with pytest.raises(
        UserError, match=re.escape(f"{path} cannot be read (it is not a regular file): give fairseq-pre")
    ):
        preprocess(option, value)
    assert not (tmp_path / "bin").exists()


@pytest.mark.parametrize("content", [b"a \xff b\nc d\n", b"a b\nc \xff\n"])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_fairseq_preprocess_names_a_line_that_is_not_utf_8(preprocess, tmp_path, split, content):
    for side in ("src", "tgt"):
        (tmp_path / f"valid.{side}").write_text("a b\nb a\n")
    (tmp_path / f"{split}.tgt").write_bytes(content)
    line = 1 + content[: content.index(b"\xff")].count(b"\n")
    with pytest.raises(UserError, match=rf"line {line} of .*/{split}\.tgt is not UTF-8 \(.*\): convert the text"):
        preprocess("--validpref", str(tmp_path / "valid"))


def test_fairseq_preprocess_refuses_sides_of_different_lengths(preprocess, tmp_path):
    """The last line has no line end. fairseq-preprocess prepares such text, and training fails later."""
    (tmp_path / "train.tgt").write_text("a b\nb a\na")
    with pytest.raises(UserError, match=r"train\.src has 2 lines but .*/train\.tgt has 3: give texts in which"):
        preprocess()


@pytest.mark.parametrize("sides", [["src"], ["tgt"], ["src", "tgt"]])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_fairseq_preprocess_refuses_a_text_without_lines(preprocess, tmp_path, split, sides):
    for side in ("src", "tgt"):
        for other in ("train", "valid", "test"):
            (tmp_path / f"{other}.{side}").write_text("a b\nb a\n")
    for side in sides:
        (tmp_path / f"{split}.{side}").write_text("")
    with pytest.raises(UserError, match=rf"{split}\.{sides[0]} has no lines: give texts with at least one line"):
        preprocess("--validpref", str(tmp_path / "valid"), "--testpref", str(tmp_path / "test"))
    assert not (tmp_path / "bin").exists()


@pytest.mark.parametrize(("content", "count"), [("", 0), ("0-0\n", 1), ("0-0\n" * 3, 3)])
def test_fairseq_preprocess_refuses_alignments_of_other_text(preprocess, tmp_path, content, count):
    for name in ("align", "train.align"):
        (tmp_path / name).write_text(content)
    for option in (["--alignfile", str(tmp_path / "align")], ["--align-suffix", "align"]):
        with pytest.raises(
            UserError, match=rf"train\.src has 2 lines but .*align has {count}: give texts in which each"
        ):
            preprocess(*option)
    assert not (tmp_path / "bin").exists()


def test_fairseq_preprocess_refuses_alignments_without_their_text(preprocess, tmp_path):
    (tmp_path / "align").write_text("0-0\n1-1\n")
    for more in (["--trainpref", "", "--testpref", str(tmp_path / "train")], ["--only-source"]):
        with pytest.raises(UserError, match="--alignfile aligns the words of both sides of the training text: give it"):
            preprocess("--alignfile", str(tmp_path / "align"), *more)
    assert not (tmp_path / "bin").exists()
    preprocess("--alignfile", str(tmp_path / "align"), "--only-source", "--dict-only")  # reads no alignments


def test_fairseq_preprocess_compares_alignments_with_their_text(preprocess, tmp_path):
    """The training text has two lines, the others have one. fairseq reads no alignments of several validation texts."""
    for name in ("valid.src", "valid.tgt", "test.src", "test.tgt", "test.align"):
        (tmp_path / name).write_text("a\n")
    for name in ("align", "train.align", "valid.align"):
        (tmp_path / name).write_text("0-0\n1-1\n")
    valid, test = str(tmp_path / "valid"), str(tmp_path / "test")
    with pytest.raises(UserError, match=r"valid\.src has 1 line but .*/valid\.align has 2: give texts in which each"):
        preprocess("--align-suffix", "align", "--validpref", valid)
    preprocess("--align-suffix", "align", "--alignfile", str(tmp_path / "align"), "--validpref", f"{valid},{test}")
    written = {path.name for path in (tmp_path / "bin").iterdir()}
    assert {"train.align.src-tgt.bin", "alignment.src-tgt.txt"} <= written
    assert "valid.align.src-tgt.bin" not in written
    (tmp_path / "test.align").write_bytes(b"\xef\xbb\xbf0-0\n")
    with pytest.raises(UserError, match=r"test\.align begins with a byte order mark"):
        preprocess("--align-suffix", "align", "--testpref", test)


def test_fairseq_preprocess_refuses_an_empty_dictionary(preprocess, tmp_path):
    """Every word would be unknown."""
    (tmp_path / "dict").touch()
    with pytest.raises(UserError, match=r"dict is not a dictionary \(it has no words\): give --srcdict a dictionary"):
        preprocess("--srcdict", str(tmp_path / "dict"))
    assert not (tmp_path / "bin").exists()


def test_fairseq_preprocess_refuses_prepared_text_that_has_changed(preprocess, tmp_path):
    """All pairs were shifted, and the checksums that were written later confirmed it."""
    (tmp_path / "manifest.json").write_text('{"files": {"train.src": {"sha256": "0"}}}')
    with pytest.raises(UserError, match=r"train\.src has changed since its checksum was written to .*manifest\.json"):
        preprocess()


def test_fairseq_preprocess_refuses_a_byte_order_mark(preprocess, tmp_path):
    """The mark would make another word of the first word."""
    (tmp_path / "train.tgt").write_bytes(b"\xef\xbb\xbfa b\nb a\n")
    with pytest.raises(UserError, match=r"train\.tgt begins with a byte order mark, which would belong to its first"):
        preprocess()
    assert not (tmp_path / "bin").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a 1\na 2\n", "Duplicate word found when loading Dictionary"),
        (b"a 1\n 2\n", "a line has no word"),
        (b"a 1\nb -2\n", "a word has a negative count"),
        (b"a 1\nb two\n", "Incorrect dictionary format"),
        (b"a 1\n\xff 2\n", "Incorrect encoding detected in"),
    ],
)
@pytest.mark.parametrize("option", ["--srcdict", "--tgtdict"])
def test_fairseq_preprocess_refuses_a_broken_dictionary(preprocess, tmp_path, option, content, reason):
    (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"words\.txt is not a dictionary \({reason}.*\): give {option} a"):
        preprocess(option, str(tmp_path / "words.txt"))
    assert not (tmp_path / "bin").exists()


def test_fairseq_preprocess_names_what_it_cannot_use(preprocess, tmp_path):
    with pytest.raises(UserError, match=f"--workers must be from 1 to {MOST_PROCESSES}, but is 0"):
        preprocess("--workers", "0")
    with pytest.raises(UserError, match=f"--workers must be from 1 to {MOST_PROCESSES}, but is {MOST_PROCESSES + 1}"):
        preprocess("--workers", str(MOST_PROCESSES + 1))
    with (tmp_path / "dict").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=r"dict cannot be read \(File too large\)"):
        preprocess("--srcdict", str(tmp_path / "dict"))
    preprocess()
    assert (tmp_path / "bin" / "train.src-tgt.src.bin").exists()
    log = (tmp_path / "bin" / "preprocess.log").read_bytes()
    with pytest.raises(UserError, match=r"dict\.src\.txt exists already: choose another --destdir"):
        preprocess()
    dictionaries = [f"--{side}dict={tmp_path}/bin/dict.{side}.txt" for side in ("src", "tgt")]
    with pytest.raises(UserError, match=r"dict\.tgt\.txt exists already: choose another --destdir"):
        preprocess(dictionaries[0])
    assert (tmp_path / "bin" / "preprocess.log").read_bytes() == log
    with pytest.raises(UserError, match=r"train\.src-tgt\.src\.bin exists already: choose another --destdir"):
        preprocess(*dictionaries)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_fairseq_preprocess_adds_a_split_but_replaces_no_file(preprocess, tmp_path):
    """With --srcdict, data of an earlier run was replaced, and so was a dictionary."""
    preprocess()
    folder = tmp_path / "bin"
    before = contents(folder)
    for side in ("src", "tgt"):
        (tmp_path / f"test.{side}").write_text("a\n")
        (tmp_path / f"other.{side}").write_text("c 1\n")
    given = [f"--{side}dict={folder}/dict.{side}.txt" for side in ("src", "tgt")]
    more = ["--trainpref", "", "--testpref", str(tmp_path / "test")]
    preprocess(*given, *more)
    after = contents(folder)
    assert after.pop("preprocess.log").startswith(before.pop("preprocess.log"))
    assert after.keys() - before.keys() == {
        f"test.src-tgt.{side}.{kind}" for side in ("src", "tgt") for kind in ("bin", "idx")
    }
    assert before.items() <= after.items()
    before = contents(folder)
    for wrong in (["--testpref", str(tmp_path / "test")], [f"--srcdict={tmp_path}/other.src", "--testpref", ""]):
        with pytest.raises(UserError, match="exists already: choose another --destdir"):
            preprocess(*given, *more, *wrong)
        assert contents(folder) == before


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("--only-source", "train.bin"),
        ("--source-lang src --target-lang tgt --only-source", "train.src-tgt.src.bin"),
        ("--source-lang src --target-lang tgt --dataset-impl raw", "train.src-tgt.src"),
        ("--source-lang src --target-lang tgt --validpref train,train", "train.src-tgt.src.bin"),
        ("--source-lang src --target-lang tgt --align-suffix align", "train.align.src-tgt.bin"),
    ],
)
def test_fairseq_preprocess_refuses_to_repeat_itself_before_it_starts(tmp_path, monkeypatch, more, name):
    """The names of the data depend on the options."""
    monkeypatch.chdir(tmp_path)
    for side in ("", ".src", ".tgt"):
        Path(f"train{side}").write_text("a b\nb a\n")
    Path("train.align").write_text("0-0\n1-1\n")
    parser = options.get_preprocessing_parser()
    line = [*more.split(), "--trainpref", "train", "--destdir", "bin"]
    preprocess_cli.main(parser.parse_args(line))
    before = contents(Path("bin"))
    assert {name, f"valid1{name[5:]}" if "," in more else name} <= before.keys()
    for file in before:
        if file != name and not file.startswith(("dict", "preprocess")):
            Path("bin", file).unlink()
    before = contents(Path("bin"))
    dictionaries = [f"--{side}dict=bin/dict.{side}.txt" for side in ("src", "tgt")]
    given = ["--srcdict", "bin/dict.txt"] if more == "--only-source" else dictionaries[: 2 - ("--only" in more)]
    with pytest.raises(UserError, match=f"bin/{name} exists already"):
        preprocess_cli.main(parser.parse_args([*line, *given]))
    assert contents(Path("bin")) == before


def test_fairseq_preprocess_writes_only_dictionaries_beside_data(preprocess, tmp_path, caplog):
    caplog.set_level(logging.INFO, "fairseq_cli.preprocess")
    preprocess()
    for side in ("src", "tgt"):
        (tmp_path / f"bin/dict.{side}.txt").unlink()
    (tmp_path / "bin/preprocess.log").rename(tmp_path / "log")
    (tmp_path / "bin/preprocess.log").symlink_to("../log")
    before = (tmp_path / "log").read_bytes()
    preprocess("--dict-only")
    assert (tmp_path / "bin/dict.tgt.txt").exists()
    assert (tmp_path / "log").read_bytes().startswith(before)
    assert len((tmp_path / "log").read_bytes()) > len(before)


def test_fairseq_preprocess_leaves_no_half_of_a_file(preprocess, tmp_path, monkeypatch):
    """On a full disk, data was left half written under its final name."""

    def fail(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(indexed_dataset.MMapIndexedDatasetBuilder, "finalize", fail)
    with pytest.raises(OSError, match="No space left"):
        preprocess()
    assert not (tmp_path / "bin").exists()
    monkeypatch.undo()
    preprocess()
    assert "partial" not in (tmp_path / "bin/preprocess.log").read_text()
