"""Test the benchmarks of whole commands at toy size: from plain text to plain text, and the start of commands."""

import json
from pathlib import Path

import pytest

from tests.integration.commands import ROOT, run


@pytest.mark.slow
def test_the_pipe_writes_what_wean_generate_writes(tmp_path: Path):
    result = run("python", ROOT / "benchmarks" / "raw_text.py", "--quick", "--output", tmp_path / "out")
    # No line differs, so the exit status is 0, too.
    assert "30 sentences; 0 lines were written differently by the last two." in result.out
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert [len(row["all_cpu_ms"]) for row in rows.values()] == [1, 1, 1]
    assert str(tmp_path) not in (tmp_path / "out.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_commands_are_compared_with_the_import_of_fairseq(tmp_path: Path):
    result = run("python", ROOT / "benchmarks" / "commands.py", "--quick", "--output", tmp_path / "out")
    assert "| import fairseq_cli.generate |" in result.out
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert rows["fairseq-generate"]["cpu_ratio"] > 1  # this time includes the import
    assert {len(row["all_cpu_ms"]) for row in rows.values()} == {1}
