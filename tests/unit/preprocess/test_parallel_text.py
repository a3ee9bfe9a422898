"""Test the command that prepares parallel text: its output files, and invalid input, after which no file remains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "preprocess" / "parallel_text.py"


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "a.src").write_bytes("The Cat\u3000sat .\r\nB  b\nÉté\n".encode())
    (tmp_path / "a.tgt").write_bytes("A cat .\nb\nÉ\n".encode())
    return tmp_path / "a.src", tmp_path / "a.tgt"


def test_lines_are_normalised_and_counted(pair, tmp_path):
    out = tmp_path / "out"
    result = run("--output", out, "--lowercase", "--train", *pair, "--train", *pair, "--test", *pair)
    assert result.returncode == 0, result.stderr
    assert (out / "train.src").read_text(encoding="utf-8") == "the cat sat .\nb b\nété\n" * 2
    assert (out / "test.tgt").read_text(encoding="utf-8") == "a cat .\nb\né\n"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["splits"] == {"train": {"kept": 6, "dropped": {}}, "test": {"kept": 3, "dropped": {}}}


def test_characters_become_tokens(pair, tmp_path):
    assert run("--output", tmp_path / "out", "--unit", "characters", "--train", *pair).returncode == 0
    assert (tmp_path / "out" / "train.src").read_text(encoding="utf-8").splitlines()[0] == "T h e C a t s a t ."


def test_word_pieces_of_another_unit_are_refused(pair, tmp_path):
    result = run("--output", tmp_path / "out", "--wordpiece-vocab", pair[0], "--unit", "moses", "--train", *pair)
    assert result.returncode == 2
    assert result.stderr.startswith("parallel_text: error: --wordpiece-vocab is for --unit wordpiece: leave it out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("changing", [("--unit", "characters"), ("--bpe", "5"), ("--truecase",)])
def test_an_unknown_word_that_would_be_changed_is_refused(pair, tmp_path, changing):
    result = run("--output", tmp_path / "out", "--unknown", "B", *changing, "--train", *pair)
    assert result.returncode == 2
    assert result.stderr.startswith("parallel_text: error: --unknown needs unchanged words: leave out --unit")
    assert not (tmp_path / "out").exists()


def test_an_unknown_word_becomes_the_dictionary_s(pair, tmp_path):
    assert run("--output", tmp_path / "out", "--unknown", "B", "--train", *pair).returncode == 0
    assert (tmp_path / "out" / "train.src").read_text(encoding="utf-8") == "The Cat sat .\n<unk> <unk>\nÉté\n"


def test_an_option_that_is_not_given_leaves_outputs_of_earlier_versions_complete(pair, tmp_path):
    """Manifests of earlier versions do not have --unknown.

    If the manifest recorded a new option, a recipe would refuse text that it had prepared earlier.
    """
    assert run("--output", tmp_path / "out", "--train", *pair).returncode == 0
    assert "unknown" not in json.loads((tmp_path / "out" / "manifest.json").read_text())["options"]


def test_a_limit_takes_the_first_pairs(pair, tmp_path):
    assert run("--output", tmp_path / "out", "--limit", 2, "--train", *pair).returncode == 0
    assert len((tmp_path / "out" / "train.src").read_text().splitlines()) == 2


def test_empty_sides_are_refused_or_dropped_from_training(pair, tmp_path):
    pair[1].write_text("A cat .\n \nx\n")
    refused = run("--output", tmp_path / "out", "--train", *pair)
    assert refused.returncode == 2
    assert "line 2 of" in refused.stderr
    assert "empty on the target side" in refused.stderr
    assert not (tmp_path / "out").exists()
    assert run("--output", tmp_path / "out", "--drop-empty", "--train", *pair).returncode == 0
    assert (tmp_path / "out" / "train.tgt").read_text() == "A cat .\nx\n"
    never = run("--output", tmp_path / "other", "--drop-empty", "--test", *pair)  # a test set keeps all its lines
    assert never.returncode == 2


def test_a_path_that_is_not_a_file_is_named(pair, tmp_path):
    pair[1].unlink()
    os.mkfifo(pair[1])
    result = run("--output", tmp_path / "out", "--train", *pair)
    said = f"{pair[1]} is a pipe or a device: name a regular file."
    assert (result.returncode, result.stderr) == (2, f"parallel_text: error: {said}\n")
    result = run("--output", tmp_path / "out", "--train", pair[0], tmp_path)
    assert f"{tmp_path} is a folder: name a regular file." in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\ntwo\n", "has 2 lines but"),
        (b"one\ntwo\nthree\nfour\n", "has 3 lines but"),
        (b"one\n\xff\xfe\nthree\n", "line 2 of"),
        (None, "there is no file"),
    ],
)
def test_bad_files_are_refused_and_leave_nothing(pair, tmp_path, content, message):
    pair[1].unlink() if content is None else pair[1].write_bytes(content)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run("--output", tmp_path / "out", "--train", *pair)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_existing_output_is_kept_unless_told_otherwise(pair, tmp_path):
    out = tmp_path / "out"
    assert run("--output", out, "--train", *pair).returncode == 0
    old = (out / "train.src").read_bytes()
    refused = run("--output", out, "--lowercase", "--train", *pair)
    assert (refused.returncode, (out / "train.src").read_bytes()) == (2, old)
    assert "exists already" in refused.stderr
    assert run("--output", out, "--lowercase", "--overwrite", "--train", *pair).returncode == 0
    assert (out / "train.src").read_bytes() != old


def test_overwrite_replaces_nothing_but_an_earlier_output(pair, tmp_path):
    other = tmp_path / "corpus"
    other.mkdir()
    (other / "train.src").write_text("mine\n")
    for out in (other, pair[0]):  # a directory with other content, and a file
        result = run("--output", out, "--overwrite", "--train", *pair)
        assert result.returncode == 2
        assert "is not, or not only, an earlier output" in result.stderr
    assert (other / "train.src").read_text() == "mine\n"


def test_an_output_does_not_replace_its_own_input(pair, tmp_path):
    out = tmp_path / "out"
    assert run("--output", out, "--train", *pair, "--test", *pair).returncode == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    result = run("--output", out, "--overwrite", "--lowercase", "--train", out / "train.src", out / "train.tgt")
    assert result.returncode == 2
    assert f"{out}/train.src is in the directory that the output replaces: choose another --output." in result.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_no_input_is_refused(tmp_path):
    assert "no input" in run("--output", tmp_path / "out").stderr


def test_a_language_of_a_unit_without_rules_is_refused(pair, tmp_path):
    result = run("--output", tmp_path / "out", "--train", *pair, "--language", "de")
    assert result.returncode == 2
    assert "--unit words uses no rules of a language: leave --language out." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--words", 9], "--words is for binary data: add --binarise"),
        (["--threshold", 2], "--threshold is for binary data: add --binarise"),
        (["--raw-data"], "--raw-data is for binary data: add --binarise"),
        (["--dictionaries", "x", "y"], "--dictionaries is for binary data: add --binarise"),
        (["--binarise", "bin", "--dictionaries", "x", "y"], "there is no file x: name a dictionary"),
        (["--binarise", "out"], "overlap: give two directories, neither inside the other."),
        (["--binarise", "out/bin"], "overlap: give two directories, neither inside the other."),
        (["--binarise", "."], "overlap: give two directories, neither inside the other."),
    ],
)
def test_options_of_binary_data_are_checked_before_the_text(pair, tmp_path, arguments, says):
    """Without --binarise they had no effect. Other errors were noticed after the text was written."""
    arguments = [tmp_path / word if word in ("bin", "out", "out/bin", ".") else word for word in arguments]
    result = run("--output", tmp_path / "out", "--train", *pair, *arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.src", "a.tgt"]


@pytest.mark.parametrize("word", ["<UNK> ", "<UNK>\t", "", "<UNK> b"])
def test_the_unknown_word_of_a_corpus_is_one_word(pair, tmp_path, word):
    """Others were never found, or two words became one."""
    result = run("--output", tmp_path / "out", "--train", *pair, "--unknown", word)
    assert result.returncode == 2
    assert "--unknown: must be one word, without spaces, but is" in result.stderr
    assert not (tmp_path / "out").exists()
