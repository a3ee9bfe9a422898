"""Step time and peak memory in training: wean_lstm against fairseq's own lstm at the same size, on the CPU, in float32.

    python benchmarks/training_step.py              the published size, 1 and 2 threads, some minutes
    python benchmarks/training_step.py --quick      a toy size that shows that everything runs; its numbers mean nothing

Models, criterions and optimisers are the registered ones, built from command lines by fairseq's own parser.
"""

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - the files beside this one, wherever it is called from
import torch  # noqa: E402
from workload import (  # noqa: E402
    PHASES,
    TOY,
    OutputProducts,
    Size,
    TrainingStep,
    Variant,
    built_steps,
    use_plugin,
)

PACKAGES = ("torch", "fairseq-fixed", "numpy")
PEER = "fairseq lstm"
OURS = "wean_lstm"
FLOOR = "output products alone"

VARIANTS = (
    Variant(PEER, "lstm", "cross_entropy"),
    Variant("fairseq lstm --share-all-embeddings", "lstm", "cross_entropy", ("--share-all-embeddings",)),
    Variant(OURS, "wean_lstm", "query_embedding"),
    Variant("wean_lstm --criterion cross_entropy", "wean_lstm", "cross_entropy"),
    Variant("seq2seq_lstm", "seq2seq_lstm", "query_embedding"),
)


def measure_time(
    variants: Iterable[Variant], size: Size, threads: int, rounds: int, warmup: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Medians and ratios of all variants, interleaved in this process."""
    torch.set_num_threads(threads)
    floor = OutputProducts(size, seed)
    with built_steps(variants, size, warmup + rounds, seed) as steps:
        summary = time_steps({**steps, FLOOR: floor}, rounds, warmup, PEER)
    summary[FLOOR]["gflop_per_s"] = round(floor.flops / summary[FLOOR]["cpu_ms"] / 1e6, 1)
    return summary


def time_steps(steps: Mapping[str, harness.Step], rounds: int, warmup: int, peer: str) -> dict[str, dict[str, Any]]:
    """Medians and ratios to ``peer`` of all steps, interleaved in this process, and their numbers of parameters."""
    summary = harness.summarise(harness.interleave(steps, rounds, warmup), peer)
    for name, step in steps.items():
        if isinstance(step, TrainingStep):
            summary[name]["parameters"] = step.num_parameters()
    return summary


def measure_memory(variant: Variant, size: Size, seed: int, steps: int = 3) -> dict[str, float]:
    """Peak of this process, which must be fresh, over ``steps`` steps, and what it held before there was a model.

    A toy step comes first: it does the imports that PyTorch puts off until then, which are the same for all variants.
    """
    train(variant, TOY, seed, steps=1)
    idle = harness.resident_mib()
    train(variant, size, seed, steps)
    peak = harness.peak_resident_mib()
    return {"idle_mib": round(idle, 1), "peak_mib": round(peak, 1), "above_idle_mib": round(peak - idle, 1)}


def train(variant: Variant, size: Size, seed: int, steps: int) -> None:
    """Build the model and run ``steps`` steps."""
    with built_steps([variant], size, steps, seed) as built:
        step = built[variant.name]
    for index in range(steps):
        step(index)


def report(data: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    lines = [
        "# Training step",
        "",
        *harness.run_lines(data["run"]),
        size_line(Size(**data["size"])) + f"; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}",
    ]
    for threads, summary in data["time"].items():
        lines += ["", f"## Time, threads: {threads}", "", *time_table("variant", summary), ""]
        lines += [
            f"Ratios are to `{PEER}`. {FLOOR.capitalize()}: {summary[FLOOR]['gflop_per_s']} GFLOP per CPU second."
        ]
    lines += memory_table("variant", data["memory"], PEER)
    return lines


def size_line(size: Size) -> str:
    """The size as an item of Markdown."""
    return (
        f"* V = {size.vocabulary:,}, d = {size.dim}, {size.layers}+{size.layers} layers, dropout {size.dropout}, "
        f"batch {size.batch_size}, {size.source_length} source and {size.target_length} target tokens, float32"
    )


def time_table(what: str, summary: dict[str, dict[str, Any]]) -> list[str]:
    """A table of times, one row a variant; ``what`` is the head of its names."""
    rows = [
        [
            name,
            f"{row['parameters']:,}" if "parameters" in row else "",
            f"{row['cpu_ms']:.0f}",
            f"{row['cpu_ratio']:.3f}",
            f"{row['wall_ms']:.0f}",
            f"{row['wall_ratio']:.3f}",
            *(f"{row['phases_cpu_ms'][phase]:.0f}" if row["phases_cpu_ms"] else "" for phase in PHASES),
        ]
        for name, row in summary.items()
    ]
    header = [what, "parameters", "CPU ms", "**CPU ratio**", "wall ms", "wall ratio", *PHASES]
    return harness.table(header, rows)


def memory_table(what: str, memory: dict[str, dict[str, float]], peer: str) -> list[str]:
    """A section on peak memory, with ratios to ``peer``; nothing where it was not measured."""
    if not memory:
        return []
    least = memory[peer]["above_idle_mib"]
    rows = [[name, *row.values(), f"{row['above_idle_mib'] / least:.3f}"] for name, row in memory.items()]
    header = [what, "idle MiB", "peak MiB", "above idle MiB", "**ratio**"]
    return ["", "## Peak memory, a fresh process each, threads: 1", "", *harness.table(header, rows)]


def add_run_options(parser: argparse.ArgumentParser, name: str, rounds: int, warmup: int = 2, hint: str = "") -> None:
    """The options of every benchmark of steps.

    Args:
        parser: gets them.
        name: of the result files.
        rounds: that count, by default.
        warmup: rounds before, by default.
        hint: what else to say about rounds.
    """
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts to time (default: 1 2)")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds that count{hint} (default: {rounds})")
    parser.add_argument("--warmup", type=int, default=warmup, help=f"rounds before (default: {warmup})")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and token ids (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a toy size and two rounds, to see that it runs")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results" / name, help="where .json and .md go"
    )


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_run_options(parser, "training_step", rounds=7, hint="; 0 = memory only")
    parser.add_argument("--batch-size", type=int, help=f"sentences (default: {Size.batch_size})")
    parser.add_argument("--no-memory", action="store_true", help="time only")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)  # the fresh process of one variant
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    size = replace(TOY if args.quick else Size(), **({"batch_size": args.batch_size} if args.batch_size else {}))
    if args.memory_of:
        torch.set_num_threads(1)
        variant = next(variant for variant in VARIANTS if variant.name == args.memory_of)
        print(json.dumps(measure_memory(variant, size, args.seed)))
        return
    rounds, warmup = (min(2, args.rounds), 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/training_step.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "memory": {},
        "time": {},
    }
    # Memory first: its processes are small and leave nothing behind for the timing.
    for variant in () if args.no_memory else VARIANTS:
        data["memory"][variant.name] = harness.run_child(Path(__file__), [*words, "--memory-of", variant.name])
    for threads in args.threads if rounds else ():
        data["time"][str(threads)] = measure_time(VARIANTS, size, threads, rounds, warmup, args.seed)
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


def shown(words: Sequence[str]) -> list[str]:
    """The options as they are recorded: without where the results go."""
    kept = list(words)
    if "--output" in kept:
        start = kept.index("--output")
        del kept[start : start + 2]
    return [word for word in kept if not word.startswith("--output=")]


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
