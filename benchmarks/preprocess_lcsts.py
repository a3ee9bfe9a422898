#!/usr/bin/env python3
"""Measure peak memory and speed of preprocess/lcsts.py on generated text of LCSTS's shape and size, in characters.

    python benchmarks/preprocess_lcsts.py              2,400,591 pairs, the number of PART_I, and a tenth of it
    python benchmarks/preprocess_lcsts.py --quick      a toy size, as a smoke test. Ignore its numbers

Files in the released format (about 1.3 GB of text) are written to a temporary directory. The command prepares them in a
separate process, including checksums of all files, cleaning and the leak check, and writes about the same amount. The
exit status is 1 if the script needs more than 500 MiB or prepares less than 20,000 pairs per CPU second.
"""

import argparse
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - module of this folder, independent of the working directory

PAIRS, HELD_OUT = 2_400_591, {"PART_II": 10_666, "PART_III": 1_106}
LIMIT_MIB, LIMIT_PAIRS = 500, 20_000
TEXT, SUMMARY = (60, 140), (10, 30)  # minimum and maximum length in characters


def write_part(path: Path, pairs: int, *, scored: bool, seed: int) -> None:
    """Write a file in the released format.

    Its texts are random excerpts from one long text with the character frequencies of Chinese.
    """
    generator = random.Random(seed)
    characters = [chr(0x4E00 + rank) for rank in range(4000)] + list("，。、：！？“”《》0123456789abcdefgh")
    weights = [1 / (rank + 10) for rank in range(len(characters))]
    text = "".join(generator.choices(characters, weights, k=400_000))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number in range(pairs):
            score = f"    <human_label>{1 + number % 5}</human_label>\n" if scored else ""
            long, short = (piece(text, generator, lengths) for lengths in (TEXT, SUMMARY))
            file.write(
                f"<doc id={number}>\n{score}    <summary>\n        {short}\n    </summary>\n"
                f"    <short_text>\n        {long}\n    </short_text>\n</doc>\n"
            )


def piece(text: str, generator: random.Random, lengths: tuple[int, int]) -> str:
    """Return a random excerpt whose length is in the given range."""
    start, length = int(generator.random() * (len(text) - lengths[1])), generator.randint(*lengths)
    return text[start : start + length]


# This program runs a command from a small process, and prints its CPU seconds and peak memory in KiB. If a large
# process started the command, Linux would count the memory of this process as the command's peak.
PROBE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(done.returncode)
"""


def measure(pairs: int, folder: Path) -> dict[str, Any]:
    """Prepare ``pairs`` training pairs. Return their number, the seconds, and the peak memory of the process."""
    data = folder / f"data{pairs}"
    data.mkdir()
    write_part(data / "PART_I.txt", pairs, scored=False, seed=1)
    for seed, (name, size) in enumerate(HELD_OUT.items(), start=2):
        write_part(data / f"{name}.txt", min(size, pairs), scored=True, seed=seed)
    output = folder / f"output{pairs}"
    line = [sys.executable, str(ROOT / "preprocess" / "lcsts.py"), "--data", str(data), "--output", str(output)]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", PROBE, *line], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"lcsts.py failed:\n{done.stderr[-2000:]}")
    total = pairs + sum(min(size, pairs) for size in HELD_OUT.values())
    cpu, peak_kib = map(float, done.stdout.split())
    return {
        "pairs": total,
        "input_mib": sum(path.stat().st_size for path in data.iterdir()) >> 20,
        "output_mib": sum(path.stat().st_size for path in output.iterdir()) >> 20,
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "pairs_per_cpu_s": round(total / cpu),
        "pairs_per_s": round(total / wall),
        "peak_mib": round(peak_kib / 1024, 1),
    }


def report(run: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the result as Markdown."""
    header = ["pairs", "input MiB", "output MiB", "CPU s", "wall s", "pairs / CPU s", "pairs / s", "peak MiB"]
    cells = [[f"{value:,}" for value in row.values()] for row in rows]
    lines = ["# LCSTS by characters", "", *harness.run_lines(run), "", *harness.table(header, cells), ""]
    return [*lines, f"Limits: {LIMIT_MIB} MiB, {LIMIT_PAIRS:,} pairs for each CPU second. One process, one core."]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="training pairs (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="2,000 pairs")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/preprocess_lcsts", help="where .json and .md go"
    )
    args = parser.parse_args(words)
    pairs = 2000 if args.quick else args.pairs
    shown = [*(["--quick"] if args.quick else []), *([] if args.pairs == PAIRS else ["--pairs", str(args.pairs)])]
    run = harness.describe_run(shlex.join(["python", "benchmarks/preprocess_lcsts.py", *shown]), ())
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(size, Path(folder)) for size in (pairs // 10, pairs)]
    lines = report(run, rows)
    harness.write_results(args.output, {"run": run, "rows": rows}, lines)
    print("\n".join(lines))
    full = rows[-1]
    return int(full["peak_mib"] > LIMIT_MIB or full["pairs_per_cpu_s"] < LIMIT_PAIRS)


if __name__ == "__main__":
    sys.exit(main())
