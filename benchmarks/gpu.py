"""Run all GPU measurements in one call of at most ten minutes.

    python benchmarks/gpu.py              the published sizes, at most ten minutes; needs a GPU
    python benchmarks/gpu.py --resume     only the tables that the last call did not finish
    python benchmarks/gpu.py --quick      a toy size, also on a CPU, as a smoke test. Ignore its numbers

The script measures output losses, training steps in every precision, whole trainings and beam search. Times are wall
times between two synchronisations with the GPU. If a library (Liger-Kernel, cut-cross-entropy) is not installed or
fails, the reason is recorded instead of numbers. Each table is measured in a separate process with a time limit,
because a process cannot use the GPU after an error. It is written before the next process starts.

On a machine with torch for CUDA and no network, carry these wheels: fairseq-fixed, built for that Python by ``pip wheel
--no-build-isolation --no-deps -c constraints.txt -w wheels fairseq-fixed``, and by ``pip download --no-deps -c
constraints.txt -d wheels`` antlr4-python3-runtime, bitarray, cloudpickle, colorama, hydra-core, joblib, lxml, narwhals,
numpy, omegaconf, packaging, portalocker, pyyaml, regex, sacrebleu, sacremoses, scikit-learn, scipy, subword-nmt,
tabulate, threadpoolctl, tqdm; for the comparison, liger-kernel and cut-cross-entropy. Then run in this checkout:

    pip install --no-index --no-deps wheels/*.whl
    python benchmarks/gpu.py
"""

import argparse
import json
import logging
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import decoding  # noqa: E402 - modules of this folder, independent of the working directory
import gpu_training  # noqa: E402
import granularity  # noqa: E402
import harness  # noqa: E402
import torch  # noqa: E402
import training_step  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from workload import TOY, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "liger-kernel", "cut-cross-entropy")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OURS = "wean_fairseq"
MATERIALISED = "materialised scores"
TORCH = "torch's linear_cross_entropy"
# Number of tokens in a chunk of fixed size. It divides the numbers of tokens in both published sizes, and is close to
# the number that `chunk_rows` chooses.
TORCH_CHUNK = 224
COUNTS = "Kernels and waits, counted without a GPU, and what keeps some from their goals: [counts](gpu_counts.md)."
NOT_MEASURED = "not measured: no GPU was available"
WHOLE = "Whole training"
# Maximum seconds for all tables together, and for a single table.
ALL_TABLES, ONE_TABLE = 580, 120
UPDATES = 200  # number of updates of a whole training
FAILED = "the whole table"  # row name for a table that could not be measured
_FUSED_LOSS = f"`{OURS}` at least equal in time to the best of the others, within 10% of its memory"
_SYSTEMS = "`C-DNPG, product` at most 1.10 of the Transformer"
# The goals of each table.
TARGETS = {
    "Output layer, float32": _FUSED_LOSS,
    "Output layer, bfloat16": _FUSED_LOSS,
    "Output layer, bfloat16, 8 times the tokens": _FUSED_LOSS,
    "Training step": f"`{training_step.OURS}` at most 0.35 of fairseq's `lstm`",
    f"{WHOLE}, float32": f"`{training_step.OURS}` at most 0.50 of fairseq's `lstm`",
    f"{WHOLE}, --bf16": f"`{training_step.OURS}` at most 0.50 of fairseq's `lstm`",
    "Granularity-aware attention, whole step": _SYSTEMS,
    "Granularity-aware attention, layers alone": _SYSTEMS,
    "Beam search": f"`{decoding.FAST}` at most 0.50 of fairseq's `lstm`, `{decoding.HALF}` at most 0.36",
}

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def wait() -> None:
    """Wait for the GPU to finish all its work."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


class LossStep:
    """Forward and backward pass of a summed loss of queries (N, D), rows of candidates (V, D) and targets (N,)."""

    def __init__(self, loss: Loss, size: Size, dtype: torch.dtype, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows = size.batch_size * size.target_length
        query = torch.randn(rows, size.dim, generator=generator)
        weight = 0.1 * torch.randn(size.vocabulary, size.dim, generator=generator)
        self.query, self.weight = (tensor.to(DEVICE, dtype).requires_grad_() for tensor in (query, weight))
        self.target = torch.randint(size.vocabulary, (rows,), generator=generator).to(DEVICE)
        self.loss = loss

    def __call__(self, index: int) -> dict[str, float]:
        """Compute the loss and its gradients once. The gradients are kept until the next call."""
        self.query.grad = self.weight.grad = None
        self.loss(self.query, self.weight, self.target).backward()
        wait()
        return {}

    def numbers(self) -> list[Tensor]:
        """Return the loss and its gradients, in float64."""
        self(0)
        assert self.query.grad is not None
        assert self.weight.grad is not None
        with torch.no_grad():
            loss = self.loss(self.query, self.weight, self.target)
        numbers = [tensor.double() for tensor in (loss, self.query.grad, self.weight.grad)]
        self.query.grad = self.weight.grad = None
        return numbers


def output_losses(dtype: torch.dtype = torch.float32) -> dict[str, Loss]:
    """Return all implementations of the same loss in ``dtype``.

    If an implementation cannot be imported, it raises the error when it is called.
    """
    from wean_fairseq.modules import product_cross_entropy

    losses: dict[str, Loss] = {
        MATERIALISED: lambda query, weight, target: F.cross_entropy(
            (query @ weight.t()).float(), target, reduction="sum"
        ),
        OURS: lambda query, weight, target: product_cross_entropy(query, weight, None, target).loss,
    }
    # without these options, torch's loss would materialise the scores
    if hasattr(torch.nn, "LinearCrossEntropyOptions"):
        fused, options = partial(F.linear_cross_entropy, reduction="sum"), torch.nn.LinearCrossEntropyOptions
        losses[TORCH] = partial(fused, options=options())
        losses[f"{TORCH}, chunks of {TORCH_CHUNK}"] = partial(fused, options=options(batch_chunk_size=TORCH_CHUNK))
    losses["Liger-Kernel"] = liger_loss
    if dtype != torch.float32:  # the backward pass supports only float32
        losses["cut-cross-entropy"] = cut_loss
    return losses


def liger_loss(query: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Return the loss of Liger-Kernel."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    loss: Tensor = LigerFusedLinearCrossEntropyLoss(reduction="sum")(weight, query, target)
    return loss


def cut_loss(query: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Return the loss of cut-cross-entropy."""
    from cut_cross_entropy import linear_cross_entropy

    loss: Tensor = linear_cross_entropy(query, weight, target, reduction="sum")
    return loss


def measure_losses(
    losses: Mapping[str, Loss], size: Size, dtype: torch.dtype, args: argparse.Namespace
) -> dict[str, Any]:
    """Return the times, peak memory and deviation from the first loss for each loss, or the error of a failed loss."""
    steps, results, expected = {}, {}, None
    for name, loss in losses.items():
        step = LossStep(loss, size, dtype, args.seed)
        try:
            numbers = step.numbers()
        except Exception as error:  # noqa: BLE001 - compilers of kernels raise many types of errors
            results[name] = {"error": described(error)}
            continue
        expected = expected or numbers
        steps[name] = step
        results[name] = {
            "peak_mib": peak_mib(step),
            "off_by": [
                float((mine - other).norm() / other.norm()) for mine, other in zip(numbers, expected, strict=True)
            ],
        }
    timings = harness.interleave(steps, args.rounds, args.warmup)
    summary = harness.summarise(timings, next(iter(steps), ""))
    return {name: result | summary.get(name, {}) for name, result in results.items()}


def peak_mib(step: Callable[[int], Any]) -> float | None:
    """Return the peak memory of a step minus the memory in use before it. Return ``None`` on a CPU."""
    if DEVICE.type != "cuda":
        return None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(0)
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


class OnDevice:
    """Mix-in that runs any kind of step on the device."""

    device = DEVICE

    def sample(self, index: int) -> dict[str, Any]:
        """Return batch ``index``, moved to the device."""
        from fairseq import utils

        moved: dict[str, Any] = utils.apply_to_sample(lambda tensor: tensor.to(DEVICE), super().sample(index))
        return moved

    def __call__(self, index: int) -> dict[str, float]:
        """Run batch ``index`` and wait until the device has finished."""
        super().__call__(index)
        wait()
        return {}


class DeviceStep(OnDevice, TrainingStep):
    """A training step on the device, in the precision of its options."""

    def build_optimizer(self, cfg: Any) -> Any:
        """Return the optimiser of fairseq's trainer, in half precision if requested."""
        self.tf32 = getattr(cfg.task, "tf32", False)
        return gpu_training.half_optimizer(cfg, self.model, DEVICE) or super().build_optimizer(cfg)

    def __call__(self, index: int) -> dict[str, float]:
        """Run batch ``index`` and wait until the device has finished."""
        from wean_fairseq.host.precision import set_tf32

        set_tf32(self.tf32)
        try:
            return super().__call__(index)
        except OverflowError:  # the loss scale is halved and the update is skipped, as in the trainer
            self.optimizer.zero_grad()
            return {}


class DeviceSearchStep(OnDevice, decoding.SearchStep):
    """A beam search on the device."""


def measure_steps(
    variants: Sequence[Variant], size: Size, args: argparse.Namespace, kind: type[TrainingStep] = DeviceStep
) -> dict[str, dict[str, Any]]:
    """Time the steps of ``variants`` in turn. Ratios are relative to the first variant."""
    with built_steps(variants, size, args.warmup + args.rounds, args.seed, kind) as steps:
        summary = harness.summarise(harness.interleave(steps, args.rounds, args.warmup), variants[0].name)
        for name, step in steps.items():
            summary[name]["peak_mib"] = peak_mib(step)
    return summary


def measure_table(title: str, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the rows of one table."""
    size, sentences = (TOY, granularity.TOY) if args.quick else (Size(), granularity.PAPER)
    if title == "Training step":
        plain = [row for row in training_step.VARIANTS if row.arch in ("lstm", "wean_lstm")]
        return measure_steps([*plain, *gpu_training.STEPS], size, args)
    if title.startswith(WHOLE):
        more = ["--bf16"] if title.endswith("--bf16") else []
        return gpu_training.measure_runs(size, DEVICE, 8 if args.quick else UPDATES, args.seed, *more)
    if title == "Beam search":
        searches = [row for row in decoding.VARIANTS if row.arch in ("lstm", "wean_lstm")]
        searches.append(decoding.SearchVariant(decoding.CONCAT, "wean_lstm", "cross_entropy", decoding.CONCAT_FLAGS))
        return measure_steps(searches, size, args, DeviceSearchStep)
    if title.startswith("Granularity"):
        systems = [row for row in granularity.VARIANTS if row.name in (granularity.PEER, "C-DNPG, product")]
        few = granularity.FEW_WORDS if title.endswith("alone") else sentences.vocabulary
        return measure_steps(systems, replace(sentences, vocabulary=few), args)
    if title.endswith("8 times the tokens"):
        size = replace(size, batch_size=8 * size.batch_size)
    dtype = torch.bfloat16 if "bfloat16" in title else torch.float32
    return measure_losses(output_losses(dtype), size, dtype, args)


def try_table(title: str, words: Sequence[str], args: argparse.Namespace, left_s: float) -> dict[str, dict[str, Any]]:
    """Return the rows of one table, or one row with the reason for a failure, after at most ``left_s`` seconds."""
    if left_s <= 0:
        return {FAILED: {"error": "the time of this call is over: call again with --resume"}}
    try:
        if DEVICE.type == "cuda":
            return harness.run_child(Path(__file__), [*words, "--table", title], min(left_s, ONE_TABLE))
        return measure_table(title, args)
    except Exception as error:  # noqa: BLE001 - the other tables do not depend on this one
        return {FAILED: {"error": described(error, line=-1)}}  # the error of a child process is in its last line


def described(error: Exception, line: int = 0) -> str:
    """Return an error in one line, with its type and one line of its message."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[line]}"


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    lines = ["# GPU", "", *harness.run_lines(data["run"]), f"* Device: {data['device']}"]
    lines += ["* Ratios are of wall times, to those of the table's first variant that runs"]
    for title, rows in data["tables"].items():
        cells = [
            [
                name,
                f"{row['wall_ms']:.2f}" if "wall_ms" in row else row["error"],
                f"{row['wall_ratio']:.3f}" if "wall_ratio" in row else "",
                f"{row['words_per_s']:,.0f}" if "words_per_s" in row else "",
                "" if row.get("peak_mib") is None else f"{row['peak_mib']:.0f}",
                f"{max(row['off_by']):.1e}" if "off_by" in row else "",
            ]
            for name, row in rows.items()
        ]
        header = ["variant", "wall ms", "**ratio**", "words/s", "peak MiB", "largest relative error"]
        target = f"Target: {TARGETS[title]}."
        lines += ["", f"## {title}", "", *harness.table(header, cells), "", target]
    return lines + ["", COUNTS]


def kept_tables(args: argparse.Namespace, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that ``--resume`` keeps: finished tables of a call with the same settings and machine."""
    path = args.output.with_suffix(".json")
    if not args.resume or not path.exists():
        return {}
    last = json.loads(path.read_text(encoding="utf-8"))
    same = all(last.get(name) == data[name] for name in ("device", "size", "seed", "rounds", "warmup"))
    if not same or last["run"]["versions"] != data["run"]["versions"]:
        sys.exit(f"{path} is of another machine, other versions or other options: leave out --resume, or move it away.")
    return {title: rows for title, rows in last["tables"].items() if title in TARGETS and FAILED not in rows}


def report_nothing(args: argparse.Namespace) -> None:
    """Report every table as not measured, unless results exist already."""
    path = args.output.with_suffix(".md")
    if not path.exists():
        rows = [[title, target, NOT_MEASURED] for title, target in TARGETS.items()]
        lines = ["# GPU", "", *harness.table(["what", "target", "result"], rows), "", COUNTS]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*lines, "", "`python benchmarks/gpu.py` measures all of it.", ""]), encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds that count (default: 20)")
    parser.add_argument("--warmup", type=int, default=5, help="rounds before (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and token ids (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a toy size and two rounds, to see that it runs")
    parser.add_argument("--resume", action="store_true", help="keep the tables that the last call finished")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/gpu", help="where .json and .md go")
    # This option is set in the process that measures one table.
    parser.add_argument("--table", choices=TARGETS, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    if DEVICE.type != "cuda" and not args.quick:
        report_nothing(args)
        sys.exit("There is no GPU here: --quick runs everything at a toy size on the CPU.")
    use_plugin()
    if args.quick:
        args.rounds, args.warmup = 2, 1
    if args.table:
        print(json.dumps(measure_table(args.table, args)))
        return
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/gpu.py", *training_step.shown(words)]), PACKAGES),
        "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU: nothing of a GPU was measured",
        "size": asdict(TOY if args.quick else Size()),
        "seed": args.seed,
        "rounds": args.rounds,
        "warmup": args.warmup,
    }
    finished_tables = kept_tables(args, data)
    data["tables"] = {}
    end = time.monotonic() + ALL_TABLES
    for title in TARGETS:
        left_s = end - time.monotonic()
        data["tables"][title] = (
            finished_tables[title] if title in finished_tables else try_table(title, words, args, left_s)
        )
        harness.write_results(args.output, data, report(data))  # write now, because a later table may fail
    print("\n".join(report(data)))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
