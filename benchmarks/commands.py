"""Measure the CPU seconds of whole commands: only imports, rewriting one sentence, and printing help texts.

    python benchmarks/commands.py              5 rounds, about five minutes
    python benchmarks/commands.py --clone      also make setup and the quickstart in a fresh clone, once
    python benchmarks/commands.py --quick      1 round, as a smoke test. Ignore its numbers

In every round, all commands run in turn. They are compared with the import of the module of fairseq-generate, before
any plugin is loaded. Decoding with a model of fairseq cannot be timed, because without the plugin fairseq 0.12 cannot
load checkpoints with this version of torch. The model of this project is tiny and rewrites one sentence.
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
from raw_text import CALL, PLUGIN, SEARCH, prepare, shell, time_commands  # noqa: E402

PEER = "import fairseq_cli.generate"
ONE = ["--num-shards", "100", "--shard-id", "0"]  # these options select one of the 100 sentences in the test set
CLONE = {"make setup": "make setup", "quickstart": "OMP_NUM_THREADS=2 bash examples/quickstart/run.sh"}


def commands(folder: Path) -> dict[str, str]:
    """Train a tiny model in ``folder``, and return the shell command lines to measure."""
    prepare(folder, pairs=300, sentences=30, updates=3)
    ours = ["fairseq-generate", "bin", *PLUGIN, "--path", "saved/checkpoint_last.pt", *SEARCH, *ONE]
    call = {name: ["python", "-c", CALL.format(name, "main")] for name in ("generation.cli", "evaluation.cli")}
    return {
        PEER: f"python -c {shlex.quote(PEER)}",
        "fairseq-generate": shlex.join(ours),
        "import torch": "python -c 'import torch'",
        "wean-generate": f"head -1 input.txt | {shlex.join([*call['generation.cli'], '--model', 'model', '--cpu'])}",
        "wean-evaluate --help": shlex.join([*call["evaluation.cli"], "--help"]),
    }


def measure(rounds: int) -> dict[str, Any]:
    """Return the medians of all commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timings = time_commands(commands(folder), folder, rounds)
    return harness.summarise(timings, PEER)


def measure_clone() -> dict[str, float]:
    """Return the seconds that a new user's first commands take in a clone of the last commit."""
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "clone"
        shell(shlex.join(["git", "clone", "--quiet", str(ROOT), str(clone)]), Path(name))
        seconds = {}
        for step, line in CLONE.items():
            start = time.perf_counter()
            shell(f"unset PYTHONPATH; {line}", clone)
            seconds[step] = round(time.perf_counter() - start, 1)
    return seconds


def report(run: dict[str, Any], rows: dict[str, Any], clone: dict[str, float]) -> list[str]:
    """Return the results as Markdown."""
    cells = [[name, f"{row['cpu_ms'] / 1e3:.2f}", f"{row['cpu_ratio']:.2f}"] for name, row in rows.items()]
    lines = ["# Commands", "", *harness.run_lines(run), ""]
    lines += harness.table(["command", "CPU s", f"ratio to {PEER}"], cells)
    lines += ["", "Medians over rounds of the CPU time of all processes of a command."]
    if clone:
        lines += [
            "",
            *harness.table(["in a fresh clone", "seconds"], [[step, f"{s:.0f}"] for step, s in clone.items()]),
        ]
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 round")
    parser.add_argument("--clone", action="store_true", help="also time make setup and the quickstart")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/commands", help="where .json and .md go"
    )
    args = parser.parse_args(argv)
    shown = [f"--{name}" for name in ("quick", "clone") if getattr(args, name)]
    run = harness.describe_run(shlex.join(["python", "benchmarks/commands.py", *shown]), ("torch", "fairseq-fixed"))
    rows = measure(1 if args.quick else 5)
    clone = measure_clone() if args.clone else {}
    lines = report(run, rows, clone)
    harness.write_results(args.output, {"run": run, "rows": rows, "clone": clone}, lines)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
