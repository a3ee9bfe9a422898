"""Test that the reliability page adds up the counts of all processes, and that a failed run does not change it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability import Reliability, read_record

ROOT = Path(__file__).resolve().parents[2]
ENDS = {"exit": 0, "passed": 5, "failed": 0, "error": 0, "skipped": 1}


@pytest.fixture
def record(tmp_path):
    """Write the record of a run in which two processes have counted."""
    for numbers in ((1, 1200), (2, 3)):
        counter = Reliability(tmp_path / "record")
        for kind, number in zip(("kills survived", "bad inputs tried"), numbers, strict=True):
            counter.count(kind, number)
    return tmp_path / "record"


def write_page(*records):
    page = records[0].with_name("page.md")
    line = [sys.executable, ROOT / "scripts/reliability.py", *records, "--output", page, "--command", "a command"]
    done = subprocess.run(line, capture_output=True, text=True)
    return done, page


def test_counts_are_kept_with_the_file_of_the_test(record):
    assert read_record(record)[3] == {"kind": "bad inputs tried", "n": 3, "file": "tests/unit/test_reliability.py"}


def test_without_a_record_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Reliability(None).count("kills survived")
    assert not list(tmp_path.iterdir())


def test_the_page_has_the_sums(record):
    Reliability(record).append(ENDS)
    done, page = write_page(record)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert [row[:2] for row in cells[2:]] == [["kills survived", "3"], ["bad inputs tried", "1,203"]]
    assert cells[2][3] == "`unit/test_reliability.py`"
    assert "* 5 tests passed, 0 failed, 1 were skipped." in text and "a command" in text


@pytest.mark.parametrize("end", [None, {**ENDS, "exit": 1, "failed": 1}], ids=["no end", "a failure"])
def test_a_run_that_failed_makes_no_page(record, tmp_path, end):
    other = Reliability(tmp_path / "other")
    other.append(ENDS)
    if end is not None:
        Reliability(record).append(end)
    done, page = write_page(record, other.record)
    assert done.returncode == 1 and "the page was not changed" in done.stderr
    assert not page.exists()
