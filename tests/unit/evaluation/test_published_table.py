"""Test the published table that a recipe prints, with our means over seeds below the paper's rows."""

import re
import subprocess
import sys
from pathlib import Path

from tests.unit.reporting.run_folder import make_run
from wean_fairseq.evaluation.text_files import read_typed_json

SCRIPT = Path(__file__).parents[3] / "examples" / "lib" / "published_table.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def test_means_over_seeds_stand_below_the_published_numbers(tmp_path):
    """Test the numbers of C-DNPG's Table 2, followed by iBLEU of two seeds, which have the same outputs.

    ▽ marks scores that the copied source beats.
    """
    for seed in (1, 2):
        make_run(tmp_path / "runs" / f"seed{seed}" / "quora", seed=seed)
    result = run("cdnpg-table2", "--runs", tmp_path / "runs", "--output", tmp_path / "table.md")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "table.md").read_text() + "\n" == result.stdout
    assert len(re.findall(r"^## C-DNPG .*, Table 2: .*, quora$", result.stdout, re.MULTILINE)) == 1
    assert "## DNPG" not in result.stdout  # DNPG has another table for Quora
    lines = result.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("| Transformer |"))
    assert lines[place].startswith("| Transformer | *published* | *21.14* | *37.97* | *26.88* | *40.14* | *38.21* |")
    scores = read_typed_json(tmp_path / "runs/seed1/quora/test.json", dict)["systems"]["transformer"]
    assert lines[place + 1].startswith(
        f"| transformer | ours | {scores['paper:cdnpg-compat/iBLEU']['score']:.2f} ± 0.00 ▽ (2 seeds) |"
    )


def test_without_a_run_the_error_says_what_to_do(tmp_path):
    result = run("cdnpg-table2", "--runs", tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"published_table: {tmp_path} has neither scores")
    assert result.stderr.count("\n") == 1
