"""Test examples/own_pairs.sh with several seeds in a Slurm array."""

import json
import subprocess
from pathlib import Path

from tests.integration.commands import TIMEOUT
from tests.integration.test_own_pairs_walk import ROWS, succeed, write_table


def test_seeds_of_a_slurm_array_share_one_split_and_are_scored_together(tmp_path: Path) -> None:
    """Test the script with an empty environment in another folder.

    The script must pass on names with quotes and spaces correctly.
    """
    folder, elsewhere = tmp_path / "it's $(touch x) a", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write_table(folder / "pairs.csv", ROWS)
    script = folder / "array.sbatch"
    assert "2 trainings" in succeed(folder, SEEDS="1 2", SBATCH=str(script), DATA="pairs.csv")
    lines = script.read_text(encoding="utf-8").splitlines()
    assert {"#SBATCH --time=24:00:00", "#SBATCH --cpus-per-task=4", "#SBATCH --array=0-1"} <= set(lines)
    assert "touch" not in "".join(line for line in lines if line.startswith("#SBATCH"))
    for task in ("0", "1"):
        line = ["env", "-i", f"SLURM_ARRAY_TASK_ID={task}", "bash", str(script)]
        done = subprocess.run(line, cwd=elsewhere, capture_output=True, text=True, timeout=TIMEOUT)
        log = (folder / "run" / "jobs" / f"{task}.log").read_text(encoding="utf-8")
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), log
        assert "writing" not in log, "text and dictionary were made before the array ran"
        assert "error" not in log
    printed = succeed(folder, SEEDS="1 2", DATA="pairs.csv")
    assert "training seq2seq_lstm (fairseq-train" not in printed
    run = folder / "run"
    assert {(run / f"seed{seed}" / "text").resolve() for seed in (1, 2)} == {run / "text"}
    together = json.loads((run / "test.json").read_text(encoding="utf-8"))["systems"]["seq2seq_lstm"]["bleu"]
    assert together["deviation"] >= 0
    assert "±" in (run / "report" / "report.md").read_text(encoding="utf-8")
    assert (run / "seed1" / "model" / "model.safetensors").is_file()
    assert [path for path in tmp_path.rglob("x") if path.is_file()] == []
