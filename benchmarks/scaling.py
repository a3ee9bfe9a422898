"""Compare two processes that share a batch with one process that has the whole batch, on two cores.

Also measure the cost of the exchange of gradients.

    python benchmarks/scaling.py              the published size, some minutes, on a machine with two free cores
    python benchmarks/scaling.py --quick      a toy size, as a smoke test. Ignore its numbers

In each round, the two processes (gloo, fairseq's ``--ddp-backend legacy_ddp``) and the single process run in turn. The
second process waits while the first one runs alone.
"""

import argparse
import json
import logging
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper  # noqa: E402
from torch import distributed  # noqa: E402
from training_step import FUSED, PEER, shown, size_line  # noqa: E402
from workload import TOY, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "numpy")
PROCESSES = 2
PATIENCE = timedelta(minutes=10)  # maximum time to wait for the slowest step of the other process
ALONE, THREADS, TOGETHER = "one process, 1 thread", "one process, 2 threads", "two processes"
EXCHANGE = "exchange (wall)"
VARIANTS = (
    Variant(PEER, "lstm", "cross_entropy"),
    Variant("fairseq lstm --optimizer fused_adam", "lstm", "cross_entropy", FUSED),
    Variant("seq2seq_lstm --optimizer fused_adam", "seq2seq_lstm", "query_embedding", FUSED),
    Variant("wean_lstm --optimizer fused_adam", "wean_lstm", "query_embedding", FUSED),
)


class SharedStep(TrainingStep):
    """A training step on this process's part of a batch. Gradients are exchanged between ``PROCESSES`` processes."""

    def __init__(
        self, variant: Variant, size: Size, data_dir: Path, batches: Sequence[dict[str, Any]], seed: int
    ) -> None:
        super().__init__(variant, size, data_dir, [part_of(batch) for batch in batches], seed)
        self.model = ModuleProxyWrapper(LegacyDistributedDataParallel(self.model, distributed.group.WORLD))

    def __call__(self, index: int) -> dict[str, float]:
        """Train on this process's part of a batch.

        Return the CPU seconds of the phases and the wall seconds of the exchange.
        """
        return {**super().__call__(index), EXCHANGE: self.exchanged}

    def average(self, sample_size: int) -> None:
        """Average over all processes, otherwise like the base class, and record the wall seconds of the exchange."""
        start = time.perf_counter()
        total = torch.tensor(float(sample_size))
        distributed.all_reduce(total)
        self.optimizer.all_reduce_grads(self.model)
        self.exchanged = time.perf_counter() - start
        self.optimizer.multiply_grads(PROCESSES / total)


def part_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Return the sentences of a batch that belong to this process. All sentences have the same length."""
    mine = slice(distributed.get_rank(), None, PROCESSES)
    net_input = {name: value[mine].contiguous() for name, value in batch["net_input"].items()}
    target = batch["target"][mine].contiguous()
    return {**batch, "net_input": net_input, "target": target, "ntokens": target.numel()}


def turns(variants: Sequence[Variant], size: Size, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Time every variant with one and with two processes.

    Both processes make the same calls, and wait for each other after each call.
    """
    rank, count = distributed.get_rank(), args.warmup + args.rounds
    alone = variants if rank == 0 else ()

    def with_threads(step: harness.Step | None, threads: int) -> harness.Step:
        def call(index: int) -> harness.Phases:
            torch.set_num_threads(threads)
            phases = step(index) if step else {}
            distributed.barrier()
            return phases

        return call

    with (
        built_steps(alone, size, count, args.seed) as single,
        built_steps(variants, size, count, args.seed, SharedStep) as shared,
    ):
        steps = {}
        for variant in variants:
            steps[f"{variant.name}: {ALONE}"] = with_threads(single.get(variant.name), 1)
            steps[f"{variant.name}: {THREADS}"] = with_threads(single.get(variant.name), 2)
            steps[f"{variant.name}: {TOGETHER}"] = with_threads(shared[variant.name], 1)
        timings = harness.interleave(steps, args.rounds, args.warmup)
        return {
            variant.name: {
                **{way: timings[f"{variant.name}: {way}"] for way in (ALONE, THREADS, TOGETHER)},
                "parameters": shared[variant.name].num_parameters(),
            }
            for variant in variants
        }


def summarise(timings: dict[str, Any]) -> dict[str, Any]:
    """Return the medians of a variant in milliseconds, and the speed-up of two processes over one."""
    walls = {way: [timing.wall for timing in timings[way]] for way in (ALONE, THREADS, TOGETHER)}
    exchange = [timing.phases[EXCHANGE] for timing in timings[TOGETHER]]
    gradients = 4 * timings["parameters"]
    return {
        "parameters": timings["parameters"],
        "gradient_mib": round(gradients / 2**20, 1),
        "wall_ms": {way: round(statistics.median(times) * 1e3, 1) for way, times in walls.items()},
        "speed_up": harness.median_ratio(walls[ALONE], walls[TOGETHER]),
        "speed_up_of_threads": harness.median_ratio(walls[ALONE], walls[THREADS]),
        "exchange_ms": round(statistics.median(exchange) * 1e3, 1),
        "exchange_share": round(harness.median_ratio(exchange, walls[TOGETHER]), 3),
        "all_wall_ms": {way: [round(time * 1e3, 2) for time in times] for way, times in walls.items()},
    }


def work(args: argparse.Namespace, size: Size) -> None:
    """Run one of the two processes. The first one prints the results as JSON."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{args.meeting}", rank=args.rank, world_size=PROCESSES, timeout=PATIENCE
    )
    rows = {name: summarise(timings) for name, timings in turns(VARIANTS, size, args).items()}
    if args.rank == 0:
        print(json.dumps(rows))
    distributed.destroy_process_group()


def measure(words: Sequence[str]) -> dict[str, Any]:
    """Start both processes and return the output of the first one.

    Raises:
        RuntimeError: if a process fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = [*words, "--meeting", str(Path(folder) / "meeting"), "--rank"]
        other = subprocess.Popen([sys.executable, __file__, *meeting, "1"], stdout=subprocess.DEVNULL)
        try:
            return harness.run_child(Path(__file__), [*meeting, "0"])
        finally:
            other.kill()
            other.wait()


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    header = ["variant", "parameters", "gradients MiB", ALONE, THREADS, TOGETHER, "of it exchange", "**speed-up**"]
    rows = [
        [
            name,
            f"{row['parameters']:,}",
            row["gradient_mib"],
            *(f"{row['wall_ms'][way]:.0f} ms" for way in (ALONE, THREADS, TOGETHER)),
            f"{row['exchange_ms']:.0f} ms, {row['exchange_share']:.0%}",
            f"{row['speed_up']:.2f}",
        ]
        for name, row in data["rows"].items()
    ]
    note = (
        "Wall time of a step with the same whole batch, medians. The two processes have one thread and half of the "
        "batch each, and exchange all gradients in float32 through gloo on the local network interface; the wait for "
        "the slower of them is in the exchange. The speed-up is over one process with one thread."
    )
    size = size_line(Size(**data["size"])) + f"; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}"
    head = ["# Two processes on two cores", "", *harness.run_lines(data["run"]), size]
    return [*head, "", *harness.table(header, rows), "", note]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (default: 7)")
    parser.add_argument("--warmup", type=int, default=2, help="rounds before (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and token ids (default: 1)")
    parser.add_argument("--batch-size", type=int, help=f"sentences of the whole batch (default: {Size.batch_size})")
    parser.add_argument("--quick", action="store_true", help="a toy size and two rounds, to see that it runs")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/scaling", help="where .json and .md go"
    )
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)  # rank of a process that this script has started
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    if args.quick:
        args.rounds, args.warmup = 2, 1
    size = TOY if args.quick else Size()
    size = replace(size, batch_size=args.batch_size or size.batch_size)
    if args.meeting:
        work(args, size)
        return
    data = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/scaling.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": args.rounds,
        "warmup": args.warmup,
        "rows": measure(words),
    }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
