"""Measure the sentences per second from plain text to plain text of wean-generate and of a fairseq-interactive pipe.

    python benchmarks/raw_text.py              4,000 sentences, 5 rounds, about fifteen minutes
    python benchmarks/raw_text.py --quick      a toy size, as a smoke test. Ignore its numbers

The measured commands include their start and the loading of the model, and run in turn in every round. The pipe has the
usual steps: lower-casing, Moses tokens by sacremoses, fairseq-interactive, sorting of the H lines, and detokenisation.
It uses the same batches as wean-generate, once with fairseq's search and once with our search. First, a WEAN model is
trained briefly on generated sentences, so that its outputs end. The exit status is 1 if wean-generate and the pipe with
our search wrote different lines.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - module of this folder, independent of the working directory

PIPE, OURS = "fairseq-interactive in a pipe", "wean-generate"
PEER = f"{PIPE}, --stock-search"
PLUGIN = ["--user-dir", str(ROOT / "wean_fairseq"), "--task", "paraphrase", "--cpu"]
SEARCH = ["--beam", "5", "--max-len-a", "2", "--max-len-b", "10", "--search-preset", "wean"]
BATCHES = ["--buffer-size", "2000", "--batch-size", "64"]  # the defaults of wean-generate
SIZES = ["--embed-dim", "256", "--hidden-size", "256", "--criterion", "query_embedding", "--batch-size", "64"]


def shell(line: str, folder: Path) -> harness.Timing:
    """Run a shell command line. Return its seconds, and the CPU seconds of all commands in it.

    Raises:
        SystemExit: if the command fails. The message has the end of the command's output.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{line}\nfailed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return harness.Timing(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, {})


def prepare(folder: Path, pairs: int, sentences: int, updates: int) -> None:
    """Write an exported model to ``model``, and untokenised text of the same kind to ``input.txt``."""
    sizes = f"--train {pairs} --valid 100 --test {sentences}"
    shell(f"python {shlex.quote(str(ROOT / 'preprocess/synthetic_paraphrase.py'))} --output made {sizes}", folder)
    own = shlex.quote(str(ROOT / "preprocess" / "own_pairs.py"))
    text = "--data made/train.src made/train.tgt --test 100 --valid 100 --unit moses --lowercase"
    shell(f"python {own} {text} --output text --binarise bin", folder)
    train = ["fairseq-train", "bin", *PLUGIN, "--arch", "wean_lstm", *SIZES, "--optimizer", "adam", "--lr", "0.002"]
    train += ["--max-update", str(updates), "--save-dir", "saved", "--no-epoch-checkpoints", "--data-buffer-size", "0"]
    shell(shlex.join(train), folder)
    export = ["saved/checkpoint_last.pt", "--data", "bin", "--text", "text", "--output", "model", "--no-replace-unk"]
    shell(shlex.join(["python", "-c", CALL.format("checkpoints.cli", "main_export"), *export, *SEARCH]), folder)
    lines = (folder / "made" / "test.src").read_text(encoding="utf-8").replace(" .\n", ".\n").splitlines()
    (folder / "input.txt").write_text("".join(f"{line[:1].upper()}{line[1:]}\n" for line in lines), encoding="utf-8")


# Use the commands of this checkout, even if the package is not installed.
CALL = "import sys; from wean_fairseq.{0} import {1}; sys.exit({1}())"


def commands() -> dict[str, str]:
    """Return the three shell command lines. The last two write ``peer.txt`` and ``ours.txt``."""
    ours = ["python", "-c", CALL.format("generation.cli", "main"), "--model", "model", "--cpu", "--overwrite"]
    return {
        PEER: pipe("stock.txt", "--stock-search"),
        PIPE: pipe("peer.txt"),
        OURS: shlex.join([*ours, "--input", "input.txt", "--output", "ours.txt"]),
    }


def pipe(output: str, *options: str) -> str:
    """Return the shell command line that runs fairseq-interactive with ``options`` and writes ``output``."""
    interactive = ["fairseq-interactive", "bin", *PLUGIN, "--path", "saved/checkpoint_last.pt", *SEARCH, *BATCHES]
    steps = [
        "tr '[:upper:]' '[:lower:]' < input.txt",
        "sacremoses -q -l en tokenize -x",
        shlex.join([*interactive, *options]),
        "grep ^H-",
        "sort -s -t- -k2,2n",
        "cut -f3",
        f"sacremoses -q -l en detokenize > {output}",
    ]
    return " | ".join(steps)


def time_commands(lines: Mapping[str, str], folder: Path, rounds: int) -> dict[str, list[harness.Timing]]:
    """Run the shell command lines in turn, ``rounds`` + 1 times. Every second round runs them in reverse order."""
    timings: dict[str, list[harness.Timing]] = {name: [] for name in lines}
    for number in range(rounds + 1):
        for name in list(lines) if number % 2 else list(reversed(lines)):
            timing = shell(lines[name], folder)
            if number:  # the first round reads files from the disk, so it is not counted
                timings[name].append(timing)
    return timings


def measure(folder: Path, rounds: int) -> tuple[dict[str, Any], int]:
    """Return the medians, and the number of lines that differ between wean-generate and the pipe with our search."""
    timings = time_commands(commands(), folder, rounds)
    ours, peer = ((folder / name).read_text(encoding="utf-8").split("\n") for name in ("ours.txt", "peer.txt"))
    different = abs(len(ours) - len(peer)) + sum(a != b for a, b in zip(ours, peer, strict=False))
    return harness.summarise(timings, PEER), different


def report(run: dict[str, Any], sentences: int, summary: dict[str, Any], different: int) -> list[str]:
    """Return the result as Markdown."""
    rows = []
    for name, row in summary.items():
        cpu, wall = row["cpu_ms"] / 1e3, row["wall_ms"] / 1e3
        speeds = [f"{sentences / seconds:,.0f}" for seconds in (cpu, wall)]
        ratios = [f"{1 / row[ratio]:.2f}" for ratio in ("cpu_ratio", "wall_ratio")]
        rows.append([name, f"{cpu:.1f}", *speeds, *ratios])
    header = ["command", "CPU s", "sentences / CPU s", "sentences / s", "speed by CPU time", "by wall time"]
    said = f"{sentences:,} sentences; {different} lines were written differently by the last two. Speeds are relative "
    said += "to the first row, medians over rounds; wall time means something on a quiet machine only."
    return [
        "# Plain text in, plain text out",
        "",
        *harness.run_lines(run),
        "",
        *harness.table(header, rows),
        "",
        said,
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="30 sentences, 1 round")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/raw_text", help="where .json and .md go"
    )
    args = parser.parse_args(argv)
    pairs, sentences, updates, rounds = (300, 30, 3, 1) if args.quick else (20_000, 4000, 150, args.rounds)
    shown = ["--quick"] if args.quick else [] if rounds == 5 else ["--rounds", str(rounds)]
    packages = ("torch", "fairseq-fixed", "sacremoses")
    run = harness.describe_run(shlex.join(["python", "benchmarks/raw_text.py", *shown]), packages)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), pairs, sentences, updates)
        summary, different = measure(Path(folder), rounds)
    lines = report(run, sentences, summary, different)
    harness.write_results(args.output, {"run": run, "sentences": sentences, "rows": summary}, lines)
    print("\n".join(lines))
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
