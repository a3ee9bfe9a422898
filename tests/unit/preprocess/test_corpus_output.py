"""Test the output directory (complete or absent, never replacing another one), the leak check, and random splits."""

import fcntl
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from corpus import output as output_module
from corpus.binarise import binarise
from corpus.leaks import LeakCheck
from corpus.output import OutputFolder, check_free, read_manifest
from corpus.plain import plain_files
from corpus.sampling import Draw
from hypothesis import given, settings
from hypothesis import strategies as st

from wean_fairseq.errors import UserError
from wean_fairseq.storage import data_files
from wean_fairseq.storage.files import sha256_of, write_whole


def make(path, lines=(("a b", "c"),), **options):
    """Write an output with one training split."""
    overwrite = options.pop("overwrite", False)
    with (
        OutputFolder(path, script="me", options=options, overwrite=overwrite) as output,
        output.split("train") as split,
    ):
        for pair in lines:
            split.write(*pair)
        split.drop("too_long")
    return output


def partial_folder(path):
    """Return the folder in which a run writes the content of ``path``. Two runs at once must use the same name."""
    digest = hashlib.sha256(path.name.encode()).hexdigest()
    return path.with_name(f".wean-{digest[:16]}.partial")


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the directory


def test_a_changed_file_of_an_earlier_output_is_no_source(tmp_path):
    """An output of other content must not look as if it were made from the earlier output."""
    make(tmp_path / "text")
    changed = tmp_path / "text" / "train.src"
    changed.write_text("a\n")
    with pytest.raises(UserError, match=r"train\.src has changed .*/text/manifest\.json: restore it, or delete"):
        OutputFolder(tmp_path / "out", script="me", options={}).source(changed)
    for name in ("text/train.tgt", "text/manifest.json"):
        assert OutputFolder(tmp_path / "out", script="me", options={}).source(tmp_path / name).is_file()
    copied = changed.rename(tmp_path / "train.src")
    assert OutputFolder(tmp_path / "out", script="me", options={}).source(copied) == copied


def test_files_and_manifest(tmp_path):
    (tmp_path / "source").write_text("x\n")
    with OutputFolder(tmp_path / "new" / "out", script="me", options={"seed": 3}, version="7") as output:
        output.source(tmp_path / "source")
        with output.split("train") as split:
            split.write("a b", "c")
        with output.split("test", ["src", "ref0", "ref1"]) as split:
            split.write("é", "2", "3")
        output.facts["more"] = 1
    found = contents(tmp_path / "new" / "out")
    assert set(found) == {"manifest.json", "train.src", "train.tgt", "test.src", "test.ref0", "test.ref1"}
    assert found["test.src"] == "é\n".encode()
    manifest = json.loads(found["manifest.json"])
    assert (manifest["script"], manifest["version"], manifest["more"]) == ("me", "7", 1)
    # The checksum is the output of printf 'x\n' | sha256sum.
    checksum = "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
    assert manifest["sources"] == [{"file": "source", "bytes": 2, "sha256": checksum}]
    assert manifest["splits"] == {"train": {"kept": 1, "dropped": {}}, "test": {"kept": 1, "dropped": {}}}
    assert manifest["files"]["train.src"]["lines"] == 1
    assert str(tmp_path) not in found["manifest.json"].decode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


def test_a_folder_keeps_its_permissions(tmp_path):
    (tmp_path / "out").mkdir(mode=0o700)
    for _ in range(2):
        make(tmp_path / "out", overwrite=True)
        assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    sizes = {"words": 0, "threshold": 0, "separate_dictionaries": False}
    assert binarise(tmp_path / "out", tmp_path / "bin", sizes)
    (tmp_path / "bin").chmod(0o700)
    assert binarise(tmp_path / "out", tmp_path / "bin", {**sizes, "words": 9}, overwrite=True)
    assert (tmp_path / "bin").stat().st_mode & 0o777 == 0o700


def test_same_content_has_the_same_bytes_everywhere(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b" / "c")
    assert contents(tmp_path / "a") == contents(tmp_path / "b" / "c")


@pytest.mark.parametrize("error", [UserError("no"), KeyboardInterrupt(), OSError(28, "full")])
def test_error_leaves_nothing(tmp_path, error):
    def fail():
        with OutputFolder(tmp_path / "out", script="me", options={}) as output, output.split("train") as split:
            split.write("a", "b")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out", "another"])
def test_killed_run_leaves_nothing_under_the_name_and_the_next_one_cleans_up(tmp_path, name):
    code = """
import os, signal, sys
from pathlib import Path
from corpus.output import OutputFolder
with OutputFolder(Path(sys.argv[1]), script="me", options={}) as output, output.split("train") as split:
    split.write("half", "half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], env=environment)
    assert done.returncode == -9
    assert [path.name for path in tmp_path.iterdir()] == [partial_folder(Path("out")).name]
    make(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert set(contents(tmp_path / name)) == {"manifest.json", "train.src", "train.tgt"}


REPLACE_AND_DIE = """
import os, shutil, signal, subprocess, sys
from pathlib import Path
from corpus import binarise
from corpus.output import OutputFolder

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def move_and_die(path, target, move=Path.replace):
    move(path, target)
    die()

def break_off(*_, **__):
    if sys.argv[1] == "between the moves":
        Path.replace = move_and_die
    else:
        shutil.rmtree = die
    return subprocess.CompletedProcess([], 0)

if sys.argv[2] == "text":
    with OutputFolder(Path("text"), script="me", options={}, overwrite=True) as output, output.split("train") as split:
        split.write("newer", "newer")
        break_off()
else:
    binarise.subprocess.run = break_off
    sizes = {"words": 1, "threshold": 2, "separate_dictionaries": 0}
    binarise.binarise(Path("text"), Path("bin"), sizes, overwrite=True)
"""


@pytest.mark.parametrize("name", ["text", "bin"])
@pytest.mark.parametrize("moment", ["between the moves", "during the removal"])
def test_a_kill_during_the_replacement_loses_no_folder_and_blocks_no_later_run(tmp_path, monkeypatch, moment, name):
    monkeypatch.setattr("corpus.binarise.subprocess.run", FakePreprocess())
    text, folder = tmp_path / "text", tmp_path / name
    make(text)
    binarise(text, tmp_path / "bin", SIZES)
    older = contents(folder)
    monkeypatch.undo()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", REPLACE_AND_DIE, moment, name], env=environment, cwd=tmp_path)
    assert done.returncode == -9
    write_whole(tmp_path / "file", lambda file: file.write(b"content"))  # removes all that is not needed
    monkeypatch.setattr("corpus.binarise.subprocess.run", FakePreprocess())
    if moment == "between the moves":
        assert not folder.exists()
        with pytest.raises(UserError, match="pass --overwrite"):
            make(text) if name == "text" else binarise(text, folder, {**SIZES, "words": 3})
        assert contents(folder) == older
    else:
        assert set(contents(folder)) == set(older) and contents(folder) != older
    make(text, overwrite=True)
    binarise(text, tmp_path / "bin", {**SIZES, "words": 4}, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "file", "text"]


def test_a_planted_link_with_the_name_of_the_partial_folder_is_not_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "thesis.tex").touch()
    partial_folder(tmp_path / "out").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match=r"cannot write .*/out: Not a directory \(.*/\.wean-\w+\.partial\)"):
        make(tmp_path / "out")
    assert (tmp_path / "victim" / "thesis.tex").exists()


def test_two_runs_at_once_are_refused(tmp_path):
    (partial_folder(tmp_path / "out")).mkdir()
    lock = os.open(partial_folder(tmp_path / "out"), os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (partial_folder(tmp_path / "out") / "theirs").write_text("x")
    with pytest.raises(UserError, match="being written by another run"):
        make(tmp_path / "out")
    os.close(lock)
    assert (partial_folder(tmp_path / "out") / "theirs").exists()


def test_nothing_is_overwritten_unless_it_is_an_earlier_output(tmp_path):
    out = tmp_path / "out"
    make(out)
    before = contents(out)
    with pytest.raises(UserError, match="exists already: choose another --output, or pass --overwrite"):
        make(out, [("x", "y")])
    assert contents(out) == before
    make(out, [("x", "y")], overwrite=True)
    assert contents(out)["train.src"] == b"x\n"
    (out / "mine").write_text("do not lose this")
    with pytest.raises(UserError, match="not, or not only"):
        make(out, overwrite=True)
    with (
        pytest.raises(UserError, match="not, or not only"),
        OutputFolder(out, script="he", options={}, overwrite=True),
    ):
        pass
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(UserError, match="not, or not only"):
        make(tmp_path / "link", overwrite=True)
    assert (out / "mine").exists()


def test_empty_directory_may_be_used(tmp_path):
    (tmp_path / "out").mkdir()
    make(tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_the_current_directory_is_not_replaced(tmp_path, monkeypatch):
    make(tmp_path / "text")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for path in (Path(), tmp_path / "here"):
        with pytest.raises(UserError, match=r"cannot write .*: it would replace the current directory"):
            make(path)
    monkeypatch.chdir(tmp_path / "text")
    with pytest.raises(UserError, match=r"cannot write .*: it would replace the current directory"):
        make(tmp_path / "text", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "text"]
    assert contents(Path())["train.src"] == b"a b\n"


def test_a_prepared_source_is_read_once_for_its_checksum(tmp_path, monkeypatch):
    """The manifest next to a source and the manifest of the output need the same checksum."""
    text = tmp_path / "text"
    with OutputFolder(text, script="me", options={}) as output:
        output.write_text("words", "a\n")
    hashed = []
    for module in (data_files, output_module):
        monkeypatch.setattr(module, "sha256_of", lambda path: hashed.append(path.name) or sha256_of(path))
    other = OutputFolder(tmp_path / "other", script="me", options={})
    other.source(text / "words")
    assert hashed == ["words"]
    assert other.sources[0]["sha256"] == hashlib.sha256(b"a\n").hexdigest()
    for name in ("words.more", "mine"):
        (text / name).write_text("b\n")
    with pytest.raises(UserError, match=r"words\.more is not in .*manifest\.json, which lists the other files"):
        other.source(text / "words.more")
    other.source(text / "mine")


def test_finished_output_is_recognised(tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    source.write_text("x\n")

    def finished(seed, overwrite=False):
        return OutputFolder(out, script="me", options={"seed": seed}, overwrite=overwrite).finished([source])

    assert not finished(1)
    with OutputFolder(out, script="me", options={"seed": 1}) as output:
        output.source(source)
        output.write_text("words", "a\n")
    assert finished(1)
    assert not finished(2)
    assert not finished(1, overwrite=True)
    assert not OutputFolder(out, script="he", options={"seed": 1}).finished([source])
    (out / "words").write_text("b\n")
    with pytest.raises(UserError, match="has changed since its checksum was written"):
        finished(1)
    (out / "words").write_text("a\n")
    source.write_text("y\n")
    assert not finished(1)


@pytest.mark.parametrize("line", ["", "a\nb", "a\rb", "a\x85", "a\u2028b", "\x0b", "a\x1cb"])
def test_line_that_some_reader_would_count_otherwise_is_never_written(tmp_path, line):
    with pytest.raises(ValueError, match="not one line"):
        make(tmp_path / "out", [("a", line)])
    assert not (tmp_path / "out").exists()


FOREIGN = ["", "[]", "{}", '{"files": 1, "options": {}}', "\0", "{", '{"files": {"a": 5}, "options": {}}']
FOREIGN += ['{"files": {"a": {}}, "options": {}}', '{"files": {}, "options": {}, "sources": null}']
FOREIGN += ['{"files": {}, "options": {}, "sources": [1]}', '{"files": {}, "options": {}, "sources": [{"sha256": 1}]}']


@pytest.mark.parametrize("text", FOREIGN)
def test_foreign_manifest_counts_as_none(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    assert "options" not in read_manifest(tmp_path)


# --- leaks


def test_leaks_are_counted_for_pairs_and_single_sides():
    check = LeakCheck()
    check.hold_out("test", "a b", ["c"])
    check.hold_out("test", "d", ["e", "f"])
    check.hold_out("valid", "A  B", ["x"])
    train = [("a b", "c"), ("A B", "other"), ("other", "F"), ("c", "a b"), ("no", "leak"), ("d", "f")]
    # leaks are only counted, and no pair is dropped
    assert not any(check.leaks("train", source, [target]) for source, target in train)
    assert check.report() == {
        "valid / test": {"pairs": 0, "sources": 1, "targets": 0, "any": 1},
        "train / test": {"pairs": 2, "sources": 3, "targets": 3, "any": 5},
        "train / valid": {"pairs": 0, "sources": 2, "targets": 0, "any": 3},
    }


@pytest.mark.parametrize(("drop", "expected"), [("pairs", [0]), ("sources", [0, 1]), ("any", [0, 1, 2, 3]), ("", [])])
def test_chosen_leaks_are_dropped(drop, expected):
    check = LeakCheck(drop=drop)
    check.hold_out("test", "a", ["b"])
    train = [("a", "b"), ("a", "x"), ("x", "b"), ("b", "x"), ("x", "y")]
    assert [index for index, (s, t) in enumerate(train) if check.leaks("train", s, [t])] == expected


def test_loose_key_ignores_punctuation_and_brackets():
    check = LeakCheck(key="loose", drop="sources")
    check.hold_out("test", "he -lrb- a/b -rrb- left .", ["x"])
    assert check.leaks("train", "He lrb a / b rrb left", ["y"])
    assert not check.leaks("train", "he left", ["y"])
    check.hold_out("test", "!", ["?"])
    assert not check.leaks("train", "...", ["y"])


# --- draws

words = st.sampled_from("abcdefghijkl")


@given(pairs=st.lists(st.tuples(words, words), max_size=40), seed=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_disjoint_draw_shares_no_sentence(pairs, seed):
    draw = Draw(seed, disjoint=True)
    for pair in pairs:
        draw.add(*pair)
    splits = draw.assign({"test": 3, "valid": 2}, rest="train")
    assert splits.count("test") <= 3 and splits.count("valid") <= 2 and len(splits) == len(pairs)
    seen = {}
    for split, pair in zip(splits, pairs, strict=True):
        for sentence in pair:
            assert seen.setdefault(sentence, split) == split


def test_disjoint_draw_prefers_no_size_of_group():
    """Half of the pairs share one sentence with nine others, and the other half share none.

    The test set must get about equally many pairs of both kinds.
    """
    shared = 0
    for seed in range(20):
        draw = Draw(seed, disjoint=True)
        for number in range(400):
            draw.add(f"hub {number // 10}" if number < 200 else f"alone {number}", f"t{number}")
        splits = draw.assign({"test": 80}, rest="train")
        shared += splits[:200].count("test")
    # The expected value is about 0.46, because small groups fill the last places, with a standard deviation of 0.045.
    # Drawing by the lowest rank of a group would give 0.85.
    assert 0.3 < shared / (20 * 80) < 0.6


def test_draw_fills_the_splits_and_depends_on_the_pairs_and_the_seed_alone():
    pairs = [(f"s{number}", f"t{number}") for number in range(50)]

    def drawn(pairs, seed):
        draw = Draw(seed)
        for pair in pairs:
            draw.add(*pair)
        return dict(zip(pairs, draw.assign({"test": 5, "valid": 4, "train": 30}), strict=True))

    first = drawn(pairs, 1)
    assert sorted(map(list(first.values()).count, ("test", "valid", "train", ""))) == [4, 5, 11, 30]
    shuffled = random.Random(3).sample(pairs, 50)
    assert drawn(shuffled, 1) == first
    assert drawn(pairs, 2) != first
    # The expected values were recorded once, because the same seed must always give the same draw.
    assert sorted(source for (source, _), split in first.items() if split == "test") == SNAPSHOT


SNAPSHOT = ["s0", "s35", "s44", "s47", "s7"]


# --- binary data


class FakePreprocess:
    """Simulates fairseq-preprocess."""

    def __init__(self, code=0, names=()):
        self.code = code
        self.names = names  # files to write
        self.lines = []

    def __call__(self, line, **_):
        self.lines.append(line)
        folder = next(word.removeprefix("--destdir=") for word in line if word.startswith("--destdir="))
        Path(folder).mkdir(exist_ok=True)  # as os.makedirs in fairseq_cli/preprocess.py
        for name in self.names:
            Path(folder, name).write_text("a 1\n")
        return subprocess.CompletedProcess(line, self.code, stdout="", stderr="usage\nerror: no such luck\n")


SIZES = {"words": 40, "threshold": 2, "separate_dictionaries": 0}


def test_binary_data_is_made_once(tmp_path, monkeypatch):
    fake = FakePreprocess()
    monkeypatch.setattr("corpus.binarise.subprocess.run", fake)
    make(tmp_path / "text")
    assert binarise(tmp_path / "text", tmp_path / "bin", SIZES)
    assert not binarise(tmp_path / "text", tmp_path / "bin", SIZES)
    (line,) = fake.lines
    assert {
        "--nwordssrc=40",
        "--thresholdsrc=2",
        "--joined-dictionary",
        f"--trainpref={tmp_path / 'text/train'}",
    } <= set(line)
    with pytest.raises(UserError, match="made from other text or options"):
        binarise(tmp_path / "text", tmp_path / "bin", {**SIZES, "words": 30})
    assert binarise(tmp_path / "text", tmp_path / "bin", {**SIZES, "separate_dictionaries": 1}, overwrite=True)
    assert "--nwordstgt=40" in fake.lines[-1] and "--joined-dictionary" not in fake.lines[-1]


def test_damaged_binary_data_is_refused_or_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("corpus.binarise.subprocess.run", FakePreprocess(names=["dict.src.txt"]))
    make(tmp_path / "text")
    call = partial(binarise, tmp_path / "text", tmp_path / "bin", SIZES)
    assert call()
    for change in (Path.unlink, lambda path: path.write_text("cut")):
        change(tmp_path / "bin" / "dict.src.txt")
        with pytest.raises(UserError, match=r"dict\.src\.txt was changed or removed since it was written: pass"):
            call()
        assert call(overwrite=True)
        assert not call(overwrite=True)


def test_the_files_of_the_user_are_not_replaced_by_binary_data(tmp_path, monkeypatch):
    monkeypatch.setattr("corpus.binarise.subprocess.run", FakePreprocess(names=["dict.src.txt"]))
    make(tmp_path / "text")
    assert binarise(tmp_path / "text", tmp_path / "bin", SIZES)
    (tmp_path / "bin" / "checksums.sha256").write_text("")  # written by a training
    assert binarise(tmp_path / "text", tmp_path / "bin", {**SIZES, "words": 9}, overwrite=True)
    (tmp_path / "bin" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"has files that --binarise did not write \(thesis\.txt\): move them"):
        binarise(tmp_path / "text", tmp_path / "bin", SIZES, overwrite=True)
    assert (tmp_path / "bin" / "thesis.txt").read_text() == "mine"


def test_failing_binarisation_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("corpus.binarise.subprocess.run", FakePreprocess(1))
    make(tmp_path / "text")
    with pytest.raises(UserError, match="fairseq-preprocess failed: error: no such luck"):
        binarise(tmp_path / "text", tmp_path / "bin", SIZES)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_foreign_directory_is_not_replaced_by_binary_data(tmp_path):
    make(tmp_path / "text")
    (tmp_path / "bin").mkdir()
    for name in ("mine", "manifest.json"):
        (tmp_path / "bin" / name).write_text("{")
        with pytest.raises(UserError, match="is not an output of --binarise"):
            binarise(tmp_path / "text", tmp_path / "bin", SIZES, overwrite=True)
        assert (tmp_path / "bin" / name).read_text() == "{"


@pytest.mark.slow
def test_binary_data_of_fairseq(tmp_path):
    make(tmp_path / "text", [("a b c", "a b"), ("d", "e")])
    assert binarise(tmp_path / "text", tmp_path / "bin", {**SIZES, "threshold": 0})
    names = {path.name for path in (tmp_path / "bin").iterdir()}
    assert {"dict.src.txt", "dict.tgt.txt", "train.src-tgt.src.bin", "manifest.json"} <= names


def test_a_fifo_in_the_place_of_a_manifest_is_not_waited_for(tmp_path):
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "manifest.json")
    with pytest.raises(UserError, match="is not, or not only, an earlier output of x"):
        check_free(tmp_path / "out", "x", overwrite=True)


def test_ctrl_c_while_the_libraries_are_imported_is_one_line():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", "import corpus; raise KeyboardInterrupt"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "interrupted\n")


def test_a_split_without_one_side_is_not_left_out(tmp_path):
    """The split was left out without a word, also if the manifest lists its files."""
    for name in ("train.src", "train.tgt", "valid.src"):
        (tmp_path / name).write_text("a b\n")
    with pytest.raises(UserError, match=r"valid\.src has no valid\.tgt beside it: add it, or move valid\.src"):
        plain_files(tmp_path)
    (tmp_path / "valid.src").unlink()
    assert [*plain_files(tmp_path)] == ["train"]
    files = {name: {"bytes": 4, "sha256": sha256_of(tmp_path / name)} for name in ("train.src", "train.tgt")}
    lost = {"valid.src": {"bytes": 4, "sha256": "0" * 64}}
    (tmp_path / "manifest.json").write_text(json.dumps({"files": files | lost}))
    output = OutputFolder(tmp_path / "out", script="quora", version="1", options={})
    with pytest.raises(UserError, match=r"valid\.src cannot be read \(No such file or directory\): restore it"):
        output.source(tmp_path / "train.src")
