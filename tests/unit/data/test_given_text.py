"""Test that a text which is not that of the data is reported. The scripts of ``preprocess/`` make the data."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.integration.commands import ROOT
from wean_fairseq.data.given_text import compare_text

LINES = ["Low lot , the tower", "how low", "<unk> is a \u3000 word", "Low lot", "the end ."]


def run(script, *arguments):
    line = [sys.executable, ROOT / "preprocess" / f"{script}.py", *arguments]
    subprocess.run([str(word) for word in line], check=True, capture_output=True)


@pytest.fixture
def prepare(tmp_path):
    """Return a function that prepares the lines with options, and returns the folder of the text."""
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")

    def prepare(name, *options):
        run("parallel_text", "--output", tmp_path / name, "--train", tmp_path / "src", tmp_path / "tgt", *options)
        return tmp_path / name

    return prepare


@pytest.mark.parametrize(
    "options", [(), ("--raw-data",), ("--separate-dictionaries", "--threshold", "2", "--workers", "3")]
)
def test_only_another_text_is_reported(prepare, tmp_path, caplog, options):
    """In lower case, line 1 differs. Without ``--specials keep``, the ``<unk>`` of line 3 is escaped.

    The escaped word is unknown, like ``<unk>``. Models read the difference only in raw data.
    """
    text = prepare("text", "--specials", "keep", "--binarise", tmp_path / "bin", *options)
    compare_text(tmp_path / "bin", text)
    assert not caplog.records
    expected = {"lower": 1, "escaped": 3} if "--raw-data" in options else {"lower": 1}
    for name, line in expected.items():
        caplog.clear()
        other = prepare(name, *{"lower": ("--specials", "keep", "--lowercase"), "escaped": ()}[name])
        compare_text(tmp_path / "bin", other)
        assert f"line {line} of {other / 'train.src'} differs from the data in {tmp_path / 'bin'}: name" in caplog.text


@pytest.mark.parametrize("damaged", [False, True])
def test_text_with_other_steps_is_reported_although_it_equals_the_input(prepare, tmp_path, caplog, damaged):
    """Without --lowercase, the prepared text is the file that was read with --lowercase."""
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("Low lot\nHow low\n" * 20, encoding="utf-8")
    lower = prepare("lower", "--lowercase", "--binarise", tmp_path / "bin")
    other = prepare("text")
    assert (other / "train.src").read_bytes() == (tmp_path / "src").read_bytes()
    if damaged:
        (lower / "manifest.json").write_text("{bad", encoding="utf-8")
    compare_text(tmp_path / "bin", other)
    assert f"line 1 of {other / 'train.src'} differs from the data in" in caplog.text


def test_data_that_a_script_made_from_the_text_is_not_compared(prepare, tmp_path, caplog):
    """FSET trains on pairs with similar pairs next to them. Their text steps are those of the text."""
    text = prepare("text", "--lowercase", "--valid", tmp_path / "src", tmp_path / "tgt")
    folder = tmp_path / "pairs"
    shutil.copytree(text, folder)
    (folder / "train.src").write_text("".join(f"{line} <pair> low\n" for line in LINES), encoding="utf-8")
    sources = json.loads((text / "manifest.json").read_text(encoding="utf-8"))["files"]
    manifest = {"script": "retrieve_pairs", "options": {}, "files": {}, "sources": list(sources.values())}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    data = tmp_path / "bin"
    data.mkdir()
    for side in ("src", "tgt"):
        (data / f"dict.{side}.txt").write_text("low 2\n", encoding="utf-8")
        shutil.copy(folder / f"train.{side}", data / f"train.src-tgt.{side}")
    log = f"Namespace(trainpref={str(folder / 'train')!r}, destdir={str(data)!r})\n"
    (data / "preprocess.log").write_text(log, encoding="utf-8")
    compare_text(data, text)
    assert not caplog.records
    (data / "preprocess.log").unlink()
    compare_text(data, text)
    assert f"line 1 of {text / 'train.src'} differs from the data in" in caplog.text


@pytest.mark.parametrize("lost", ["text/train.src", "bin/dict.src.txt", "bin/train.src-tgt.src.bin"])
def test_without_a_file_nothing_is_reported(prepare, tmp_path, caplog, lost):
    text = prepare("text", "--binarise", tmp_path / "bin", "--separate-dictionaries")
    (tmp_path / lost).unlink()
    compare_text(tmp_path / "bin", text)
    assert not caplog.records
