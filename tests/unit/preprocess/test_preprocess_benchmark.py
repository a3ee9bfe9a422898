"""Test the benchmark of the LCSTS script at toy size: the script reads the released format and loses no pair."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in ("harness", "preprocess_lcsts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("preprocess_lcsts")


def test_quick_run_writes_both_files(benchmark, tmp_path, capsys):
    benchmark.main(["--quick", "--pairs", "2000", "--output", str(tmp_path / "out")])
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [row["pairs"] for row in data["rows"]] == [600, 2000 + 2000 + 1106]
    assert all(0 < row["peak_mib"] < 500 for row in data["rows"])
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out
    assert str(tmp_path) not in text + json.dumps(data)


def test_tags_without_an_end_and_long_documents_end():
    """An earlier version took time that grew with the square of the length."""
    read = importlib.import_module("lcsts").read_documents
    broken = []
    lines = ["<doc>", "<doc " * 200_000, "<summary>", *["a"] * 400_000, "</summary>", "</doc>"]
    assert list(read(lines, broken)) == [(None, "", " ".join("a" * 400_000))] and not broken


def test_generated_file_is_lcsts(benchmark, tmp_path):
    benchmark.write_part(tmp_path / "PART_II.txt", 20, scored=True, seed=1)
    read = importlib.import_module("lcsts").read_documents
    broken = []
    documents = list(read((tmp_path / "PART_II.txt").read_text(encoding="utf-8").split("\n"), broken))
    assert [score for score, _, _ in documents] == [1, 2, 3, 4, 5] * 4 and not broken
    for (low, high), index in ((benchmark.TEXT, 1), (benchmark.SUMMARY, 2)):
        assert all(low <= len(document[index].strip()) <= high for document in documents)
