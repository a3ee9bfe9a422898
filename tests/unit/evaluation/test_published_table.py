"""Published scores beside our own: means and deviations over seeds, and what was not run."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "examples" / "lib" / "published_table.py"
LABELS = [f"paper:cdnpg-compat/{name}" for name in ("iBLEU", "BLEU-2", "BLEU-4", "ROUGE-L", "METEOR-es")]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def write(folder: Path, scores: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    systems = {
        name: {label: {"score": score, "signature": "s"} for label in [*LABELS, "bleu"]}
        for name, score in scores.items()
    }
    (folder / "test.json").write_text(json.dumps({"systems": systems, "data": {"sentences": 4}}))


def test_means_and_deviations_over_seeds_stand_beside_the_published_numbers(tmp_path):
    """Expected: mean and sample deviation of 20, 23 and 26 are 23 and 3; the published numbers are Table 2's."""
    for seed, score in enumerate((20.0, 23.0, 26.0), start=1):
        write(tmp_path / f"seed{seed}" / "quora", {"copy-source": 40.0, "transformer": score})
    result = run("cdnpg-table2", "--runs", tmp_path, "--output", tmp_path / "table.md")
    rows = {line.split("|")[1].strip(): line for line in result.stdout.splitlines() if line.startswith("|")}
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "table.md").read_text() + "\n" == result.stdout
    assert "## quora, 3 seed(s)" in result.stdout
    assert "## twitter_url" not in result.stdout
    assert rows["transformer"] == (
        "| transformer | 21.14 | 23.00 ± 3.00 | 37.97 | 23.00 ± 3.00 | 26.88 | 23.00 ± 3.00 | 40.14 | 23.00 ± 3.00 "
        "| 38.21 | 23.00 ± 3.00 | 23.00 ± 3.00 |"
    )
    assert rows["copy-source"].count("40.00 ± 0.00") == 6
    assert rows["cdnpg_r"].count("not run") == 6
    assert rows["fset"].startswith("| fset |  | not run | 51.03 |")


def test_without_a_run_the_error_says_what_to_do(tmp_path):
    result = run("cdnpg-table2", "--runs", tmp_path)
    assert result.returncode == 2
    assert result.stderr.endswith(f"no seed<N>/<data set>/test.json is below {tmp_path}: run the recipe first.\n")
