"""Test the benchmark that restores text from tokens: it must count the lines correctly, and report differences."""

import importlib
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from wean_fairseq.text import reversible

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("text_identity")


def test_shares_of_lines_that_come_back(benchmark, tmp_path: Path, capsys) -> None:
    (tmp_path / "raw").write_text("It costs 5€, they say.\nIt isn’t “so”, they say.\nshort\n", encoding="utf-8")
    assert benchmark.main([str(tmp_path / "raw"), "--units", "joiner", "moses", "--truecase", "--bpe", "5"]) == 0
    rows = [[cell.strip() for cell in row.split("|")[1:5]] for row in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [["raw", "2", "joiner", "100.00"], ["raw", "2", "moses", "50.00"]]  # Moses restores 5€ as 5 €


def test_a_difference_fails(benchmark, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(reversible, "join", lambda line: line)
    (tmp_path / "raw").write_text("It costs 5€, they say.\n", encoding="utf-8")
    assert benchmark.main([str(tmp_path / "raw"), "--units", "joiner"]) == 1
    assert "| 0.00 |" in capsys.readouterr().out


def catalogue(messages: dict[str, str]) -> bytes:
    """Return a catalogue in the format of GNU gettext: a head, two tables of (length, offset), and the texts."""
    head, texts = 28, b""
    tables: list[bytes] = []
    for column in (sorted(messages), [messages[key] for key in sorted(messages)]):
        for text in map(str.encode, column):
            tables.append(struct.pack("<2I", len(text), head + 16 * len(messages) + len(texts)))
            texts += text + b"\0"
    start = struct.pack("<7I", 0x950412DE, 0, len(messages), head, head + 8 * len(messages), 0, 0)
    return start + b"".join(tables) + texts


def test_messages_of_a_catalogue(benchmark, tmp_path: Path) -> None:
    messages = {"": "Content-Type: text/plain; charset=UTF-8\n", "One\nTwo": "Eins\nZwei", "same": "same"}
    for name, content in (("de", catalogue(messages)), ("fr", b"damaged")):
        (tmp_path / name / "LC_MESSAGES").mkdir(parents=True)
        (tmp_path / name / "LC_MESSAGES" / "a.mo").write_bytes(content)
    assert benchmark.read_catalogues(tmp_path, "fr") == set()
    assert benchmark.read_catalogues(tmp_path, "de") == {"Eins", "Zwei"}
    assert benchmark.read_catalogues(tmp_path, "en") == {"One", "Two", "same"}


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("Nothing is lost here.\n", encoding="utf-8")
    command = [sys.executable, ROOT / "benchmarks" / "text_identity.py", "raw", "--units", "words"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "| raw | 1 | words | 100.00 |" in done.stdout
