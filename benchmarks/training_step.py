"""Measure step time and peak memory of training: wean_lstm against fairseq's lstm of the same size, on a CPU.

    python benchmarks/training_step.py              the published size, 1 and 2 threads, about five minutes
    python benchmarks/training_step.py --all-memory also memory by batch and vocabulary: 15 minutes
    python benchmarks/training_step.py --quick      a toy size, as a smoke test. Ignore its numbers

Each table is written after its measurement. All tensors are float32. Models, criterions and optimisers are taken from
fairseq's registries and built from command lines by fairseq's own parser.
"""

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from workload import (  # noqa: E402
    PHASES,
    TOY,
    OutputLayer,
    OutputProducts,
    Size,
    Variant,
    built_steps,
    use_plugin,
)

PACKAGES = ("torch", "fairseq-fixed", "numpy")
PEER = "fairseq lstm"
OURS = "wean_lstm --optimizer fused_adam"
FLOOR = "output products alone"
FLOOR_ONEDNN = "output products alone, oneDNN"
OUTPUT_LAYER = "output layer alone"
FUSED = ("--optimizer", "fused_adam")
# Number of fresh processes for each value in the memory tables of --all-memory. Their peaks differ by some tens of MiB
# even if the processes do the same.
PROCESSES = 3
# Size of the larger batch that shows how memory grows, as a multiple of the usual batch.
LARGER = 8

VARIANTS = (
    Variant(PEER, "lstm", "cross_entropy"),
    Variant("fairseq lstm --optimizer fused_adam", "lstm", "cross_entropy", FUSED),
    Variant("fairseq lstm --share-all-embeddings", "lstm", "cross_entropy", ("--share-all-embeddings",)),
    Variant(OURS, "wean_lstm", "query_embedding", FUSED),
    Variant("wean_lstm", "wean_lstm", "query_embedding"),
    Variant(f"{OURS} --bf16-output", "wean_lstm", "query_embedding", (*FUSED, "--bf16-output")),
    Variant("wean_lstm --criterion cross_entropy", "wean_lstm", "cross_entropy"),
    Variant("seq2seq_lstm --optimizer fused_adam", "seq2seq_lstm", "query_embedding", FUSED),
)
# Every process that measures memory first trains this variant at toy size. It only uses fairseq's own code.
PEER_VARIANT = VARIANTS[0]
# This variant is much slower than the others, so it is measured separately.
CONCAT = Variant(f"{OURS} --query-score concat", "wean_lstm", "query_embedding", (*FUSED, "--query-score", "concat"))


def measure_time(
    variants: Iterable[Variant], size: Size, threads: int, rounds: int, warmup: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Return medians and ratios of all variants, which are timed in turn in this process."""
    # The plugin is already loaded here. Which of the two libraries is faster depends on the machine.
    from wean_fairseq.modules.chunked_loss import product_cross_entropy
    from wean_fairseq.modules.output_matmul import exact_products

    torch.set_num_threads(threads)
    parts = {
        FLOOR: OutputProducts(size, seed),
        FLOOR_ONEDNN: OutputProducts(size, seed, lambda: exact_products(torch.device("cpu"))),
        OUTPUT_LAYER: OutputLayer(size, seed, lambda *inputs: product_cross_entropy(*inputs).loss),
    }
    with built_steps(variants, size, warmup + rounds, seed) as steps:
        summary = time_steps({**steps, **parts}, rounds, warmup, PEER)
    for floor in (FLOOR, FLOOR_ONEDNN):
        summary[floor]["gflop_per_s"] = round(parts[FLOOR].flops / summary[floor]["cpu_ms"] / 1e6, 1)
    return summary


def measure_concat(size: Size, threads: int, seed: int) -> dict[str, float]:
    """Return the CPU and wall milliseconds of one step with the score ``concat``, measured after a toy step."""
    torch.set_num_threads(threads)
    train(CONCAT, TOY, seed, steps=1)
    with built_steps([CONCAT], size, 1, seed) as built:
        timing = harness.time_step(built[CONCAT.name], 0)
    return {"cpu_ms": round(timing.cpu * 1e3, 3), "wall_ms": round(timing.wall * 1e3, 3)}


def time_steps(steps: Mapping[str, harness.Step], rounds: int, warmup: int, peer: str) -> dict[str, dict[str, Any]]:
    """Time all steps in turn in this process. Return medians, ratios to ``peer``, and numbers of parameters."""
    summary = harness.summarise(harness.interleave(steps, rounds, warmup), peer)
    for name, step in steps.items():
        if hasattr(step, "num_parameters"):
            summary[name]["parameters"] = step.num_parameters()
    return summary


def measure_memory(variant: Variant, size: Size, seed: int, steps: int = 3) -> dict[str, float]:
    """Return the peak memory of this fresh process over ``steps`` steps, and its memory before a model exists.

    A toy step of fairseq's model comes first for every ``variant``, because it triggers PyTorch's deferred imports.
    Therefore the idle memory is the same for all variants. Libraries that only the steps of the plugin load (such as
    oneDNN for matrix products) count as memory of these steps.
    """
    train(PEER_VARIANT, TOY, seed, steps=1)
    idle = harness.resident_mib()
    train(variant, size, seed, steps)
    peak = harness.peak_resident_mib()
    return {"idle_mib": round(idle, 1), "peak_mib": round(peak, 1), "above_idle_mib": round(peak - idle, 1)}


def measure_variants(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the peak memory of each variant, measured in a separate fresh process."""
    return {"memory": measure_each_memory(__file__, words, VARIANTS)}


def measure_all_memory(words: Sequence[str], size: Size) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the tables of ``--all-memory``: all variants at one size, and two variants at several sizes."""
    larger, half = LARGER * size.batch_size, size.vocabulary // 2

    def measure(names: Iterable[str], *changes: str) -> dict[str, dict[str, Any]]:
        return {name: median_memory([*words, *changes, "--memory-of", name]) for name in names}

    rows, compared = [variant.name for variant in (*VARIANTS, CONCAT)], (PEER, OURS)
    more_sentences, fewer_words = ("--batch-size", str(larger)), ("--vocabulary", str(half))
    memory = measure(rows)
    yield {"memory": memory}
    of_larger = measure(compared, *more_sentences)
    yield {"memory_of_larger_batch": of_larger}
    of_half, of_half_larger = measure(compared, *fewer_words), measure(compared, *fewer_words, *more_sentences)
    yield {
        "memory_growth": {
            name: {
                str(half): growth(of_half[name], of_half_larger[name]),
                str(size.vocabulary): growth(memory[name], of_larger[name]),
            }
            for name in compared
        }
    }


def median_memory(words: Sequence[str]) -> dict[str, Any]:
    """Run ``PROCESSES`` fresh processes. Return the result whose peak above idle is the median, with all peaks."""
    answers = [harness.run_child(Path(__file__), words) for _ in range(PROCESSES)]
    middle = sorted(answers, key=lambda answer: float(answer["above_idle_mib"]))[PROCESSES // 2]
    return {**middle, "all_above_idle_mib": [answer["above_idle_mib"] for answer in answers]}


def growth(batch: dict[str, Any], larger: dict[str, Any]) -> dict[str, float]:
    """Return how much the peak grows with a larger batch.

    Memory that depends only on the vocabulary is the same for both batches and cancels.
    """
    smaller, more = batch["above_idle_mib"], larger["above_idle_mib"]
    return {"batch_mib": smaller, "larger_batch_mib": more, "growth_mib": round(more - smaller, 1)}


def train(variant: Variant, size: Size, seed: int, steps: int) -> None:
    """Build the model and run ``steps`` steps."""
    with built_steps([variant], size, steps, seed) as built:
        step = built[variant.name]
    for index in range(steps):
        step(index)


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    lines = [
        "# Training step",
        "",
        *harness.run_lines(data["run"]),
        size_line(Size(**data["size"])) + f"; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}",
    ]
    for threads, summary in data["time"].items():
        lines += ["", f"## Time, threads: {threads}", "", *time_table("variant", summary), ""]
        lines += [f"Ratios are to `{PEER}`. {roofline(summary)}"]
        if threads in data["concat"]:
            concat = data["concat"][threads]
            lines += [
                "",
                f"One step of `{CONCAT.name}`: {concat['cpu_ms']:.0f} ms CPU, {concat['wall_ms']:.0f} ms wall.",
            ]
    median = f", median of {PROCESSES}"
    lines += memory_table("variant", data["memory"], PEER, median if data["all_memory"] else "")
    lines += memory_table("variant", data["memory_of_larger_batch"], PEER, f", {LARGER} times the sentences{median}")
    lines += growth_table(data["memory_growth"], data["size"]["batch_size"])
    return lines


def roofline(summary: dict[str, dict[str, Any]]) -> str:
    """Return lines on the output layer's share of the machine's peak rate, and on the rest of a step, in CPU time."""
    floor = min((FLOOR, FLOOR_ONEDNN), key=lambda name: summary[name]["cpu_ms"])
    layer, step = summary[OUTPUT_LAYER]["cpu_ms"], summary[OURS]
    phases = step["phases_cpu_ms"]
    network = phases["forward"] + phases["backward"] - layer
    return (
        f"Best rate of matrix products measured here ({floor}): {summary[floor]['gflop_per_s']} GFLOP per CPU second. "
        f"The output layer of `{OURS}` reaches {summary[floor]['cpu_ms'] / layer:.0%} of it, and is "
        f"{layer / step['cpu_ms']:.0%} of the step; embeddings, LSTMs and attention are "
        f"{network / step['cpu_ms']:.0%}, clipping and optimiser {phases['update'] / step['cpu_ms']:.0%}."
    )


def size_line(size: Size) -> str:
    """Return the size as an item of Markdown."""
    return (
        f"* V = {size.vocabulary:,}, d = {size.dim}, {size.layers}+{size.layers} layers, dropout {size.dropout}, "
        f"batch {size.batch_size}, {size.source_length} source and {size.target_length} target tokens, float32"
    )


def time_table(what: str, summary: dict[str, dict[str, Any]]) -> list[str]:
    """Return a table of times with one row per variant. ``what`` is the header of the first column."""
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


def memory_table(what: str, memory: dict[str, dict[str, float]], peer: str, title: str = "") -> list[str]:
    """Return a section about peak memory, with ratios to ``peer``. The section is empty if memory was not measured."""
    if not memory:
        return []
    least = memory[peer]["above_idle_mib"]
    columns = ("idle_mib", "peak_mib", "above_idle_mib")
    rows = [
        [name, *(row[column] for column in columns), f"{row['above_idle_mib'] / least:.3f}"]
        for name, row in memory.items()
    ]
    header = [what, "idle MiB", "peak MiB", "above idle MiB", "**ratio**"]
    return ["", f"## Peak memory{title}, a fresh process each, threads: 1", "", *harness.table(header, rows)]


def growth_table(rows: dict[str, dict[str, dict[str, float]]], batch_size: int) -> list[str]:
    """Return a section about the additional peak memory for ``LARGER`` times the sentences, for each vocabulary.

    The section is empty if the growth was not measured.
    """
    if not rows:
        return []
    header = ["variant", "V", f"batch {batch_size}, MiB", f"batch {LARGER * batch_size}, MiB", "**growth MiB**"]
    cells = [
        [name, f"{int(vocabulary):,}", *numbers.values()]
        for name, vocabularies in rows.items()
        for vocabulary, numbers in vocabularies.items()
    ]
    return ["", "## Growth of peak memory above idle with the batch, by vocabulary", "", *harness.table(header, cells)]


def add_run_options(parser: argparse.ArgumentParser, name: str, rounds: int, warmup: int = 2, hint: str = "") -> None:
    """Add the options common to all step benchmarks.

    Args:
        parser: parser to extend.
        name: name of the result files, without a suffix.
        rounds: default number of counted rounds.
        warmup: default number of rounds before the counted ones.
        hint: text that is added to the help of the option for rounds.
    """
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts to time (default: 1 2)")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds that count{hint} (default: {rounds})")
    parser.add_argument("--warmup", type=int, default=warmup, help=f"rounds before (default: {warmup})")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and token ids (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a toy size and two rounds, to see that it runs")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results" / name, help="where .json and .md go"
    )


def add_memory_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of benchmarks that measure memory in fresh processes (see ``print_memory``)."""
    parser.add_argument("--no-memory", action="store_true", help="time only")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)  # this option is set in the fresh process of one variant


def print_memory(args: argparse.Namespace, variants: Iterable[Variant], size: Size) -> None:
    """Measure the variant that ``--memory-of`` names, and print the result for the parent process."""
    torch.set_num_threads(1)
    variant = next(variant for variant in variants if variant.name == args.memory_of)
    print(json.dumps(measure_memory(variant, size, args.seed)))


def measure_each_memory(script: str, words: Sequence[str], variants: Iterable[Variant]) -> dict[str, dict[str, Any]]:
    """Return the peak memory of each variant, measured in a fresh process of ``script``."""
    names = [variant.name for variant in variants]
    return {name: harness.run_child(Path(script), [*words, "--memory-of", name]) for name in names}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "training_step", rounds=5, warmup=1, hint="; 0 = memory only")
    parser.add_argument("--batch-size", type=int, help=f"sentences (default: {Size.batch_size})")
    parser.add_argument("--vocabulary", type=int, help=f"entries of the dictionary (default: {Size.vocabulary})")
    add_memory_options(parser)
    parser.add_argument("--all-memory", action="store_true", help="more tables of memory, more processes a number")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    changes = {name: getattr(args, name) for name in ("batch_size", "vocabulary") if getattr(args, name)}
    size = replace(TOY if args.quick else Size(), **changes)
    if args.memory_of:
        print_memory(args, (*VARIANTS, CONCAT), size)
        return
    rounds, warmup = (min(2, args.rounds), 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/training_step.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "all_memory": args.all_memory,
        "time": {},
        "concat": {},
        "memory": {},
        "memory_of_larger_batch": {},
        "memory_growth": {},
    }
    harness.write_as_measured(args.output, data, measure_tables(args, words, size, rounds, warmup), report)


def measure_tables(
    args: argparse.Namespace, words: Sequence[str], size: Size, rounds: int, warmup: int
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the measured tables, or parts of them, by name."""
    for threads in args.threads if rounds else ():
        yield {"time": {str(threads): measure_time(VARIANTS, size, threads, rounds, warmup, args.seed)}}
        yield {"concat": {str(threads): measure_concat(size, threads, args.seed)}}
    if args.all_memory:
        yield from measure_all_memory(words, size)
    elif not args.no_memory:
        yield measure_variants(words)


def shown(words: Sequence[str]) -> list[str]:
    """Return the recorded options, which do not include the output path."""
    options = list(words)
    if "--output" in options:
        start = options.index("--output")
        del options[start : start + 2]
    return [word for word in options if not word.startswith("--output=")]


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
