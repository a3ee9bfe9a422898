"""All that is to be measured on a GPU, in one call: output losses, the score concat, training steps.

    python benchmarks/gpu.py              the published sizes, some minutes; needs a GPU
    python benchmarks/gpu.py --quick      a toy size, on a CPU where there is no GPU; its numbers mean nothing

Times are wall times between two waits for the GPU. What is not installed (Triton, Liger-Kernel, cut-cross-entropy) or
does not run is named in the result instead of measured.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import granularity  # noqa: E402 - the files beside this one, wherever it is called from
import harness  # noqa: E402
import torch  # noqa: E402
import training_step  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from workload import TOY, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "triton", "liger-kernel", "cut-cross-entropy")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OURS = "wean_fairseq"
MATERIALISED = "materialised scores"
# Units of a GPU that compute tanh, reciprocal and exp: results of one multiprocessor in one cycle, compute capability
# 7.0 to 9.0 (CUDA C++ programming guide, table of arithmetic throughput).
SPECIAL_PER_CYCLE = 16

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def wait() -> None:
    """Until the GPU has done all it was given."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


class LossStep:
    """Forward and backward of a summed loss of queries (N, D), candidates' rows (V, D) and targets (N,)."""

    def __init__(self, loss: Loss, size: Size, dtype: torch.dtype, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows = size.batch_size * size.target_length
        query = torch.randn(rows, size.dim, generator=generator)
        weight = 0.1 * torch.randn(size.vocabulary, size.dim, generator=generator)
        self.query, self.weight = (part.to(DEVICE, dtype).requires_grad_() for part in (query, weight))
        self.target = torch.randint(size.vocabulary, (rows,), generator=generator).to(DEVICE)
        self.loss = loss

    def __call__(self, index: int) -> dict[str, float]:
        """One forward and backward; the gradients stay until the next one."""
        self.query.grad = self.weight.grad = None
        self.loss(self.query, self.weight, self.target).backward()
        wait()
        return {}

    def numbers(self) -> list[Tensor]:
        """The loss and its gradients, in float64."""
        self(0)
        assert self.query.grad is not None
        assert self.weight.grad is not None
        with torch.no_grad():
            loss = self.loss(self.query, self.weight, self.target)
        numbers = [tensor.double() for tensor in (loss, self.query.grad, self.weight.grad)]
        self.query.grad = self.weight.grad = None
        return numbers


def output_losses() -> dict[str, Loss]:
    """Every way to the same number that can be imported here."""
    from wean_fairseq.modules import product_cross_entropy

    losses: dict[str, Loss] = {
        MATERIALISED: lambda query, weight, target: F.cross_entropy(
            (query @ weight.t()).float(), target, reduction="sum"
        ),
        OURS: lambda query, weight, target: product_cross_entropy(query, weight, None, target).loss,
    }
    if hasattr(F, "linear_cross_entropy"):
        losses["torch's linear_cross_entropy"] = partial(F.linear_cross_entropy, reduction="sum")
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

        liger = LigerFusedLinearCrossEntropyLoss(reduction="sum")
        losses["Liger-Kernel"] = lambda query, weight, target: liger(weight, query, target)
    except ImportError:
        pass
    try:
        from cut_cross_entropy import linear_cross_entropy

        losses["cut-cross-entropy"] = partial(linear_cross_entropy, reduction="sum")
        losses["cut-cross-entropy, cce_exact"] = partial(linear_cross_entropy, reduction="sum", impl="cce_exact")
    except ImportError:
        pass
    return losses


def concat_losses(size: Size, seed: int) -> dict[str, Loss]:
    """The loss of the score concat, ``weight`` being the projected candidates: by the kernels, and in PyTorch."""
    from wean_fairseq.modules import additive_scores

    vector = torch.randn(size.dim, generator=torch.Generator().manual_seed(seed)).to(DEVICE) * size.dim**-0.5

    def loss(kind: type, query: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        return ScorerLoss.apply(query, weight, vector, target, kind)

    losses: dict[str, Loss] = {"chunked form": partial(loss, additive_scores.AdditiveScorer)}
    kernels = additive_scores.triton_kernels() if DEVICE.type == "cuda" else None
    if kernels is not None:
        losses[f"{OURS}, Triton"] = partial(loss, kernels.TritonScorer)
    return losses


class ScorerLoss(torch.autograd.Function):
    """The loss of one scorer, chunk by chunk as ``additive_cross_entropy`` does it, whichever the device would get."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, weight: Tensor, vector: Tensor, target: Tensor, kind: type) -> Tensor:
        """Gradients are made here, as in the package."""
        from wean_fairseq.modules.chunked_loss import chunk_rows

        scorer = kind(query, weight, vector, any(ctx.needs_input_grad))
        step = chunk_rows(len(query), len(weight), None)
        rows = [slice(start, start + step) for start in range(0, len(query), step)]
        loss = torch.stack([scorer.loss(part, target[part], 0.0)[0] for part in rows]).sum()
        ctx.grads = scorer.gradients()[:2] if any(ctx.needs_input_grad) else (None, None)
        return loss

    @staticmethod
    def backward(ctx: Any, _grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        """For an upstream gradient of 1."""
        return (*ctx.grads, None, None, None)


def measure_losses(
    losses: Mapping[str, Loss], size: Size, dtype: torch.dtype, args: argparse.Namespace
) -> dict[str, Any]:
    """Times, peak memory, and distance from the first one's numbers; the reason where one does not run."""
    steps, results, expected = {}, {}, None
    for name, loss in losses.items():
        step = LossStep(loss, size, dtype, args.seed)
        try:
            numbers = step.numbers()
        except Exception as error:  # noqa: BLE001 - compilers of kernels have errors of their own
            results[name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
            continue
        expected = expected or numbers
        steps[name] = step
        results[name] = {
            "peak_mib": peak_mib(step),
            "off_by": [
                float((mine - other).norm() / other.norm()) for mine, other in zip(numbers, expected, strict=True)
            ],
        }
    timings = harness.summarise(harness.interleave(steps, args.rounds, args.warmup), next(iter(steps)))
    return {name: result | timings.get(name, {}) for name, result in results.items()}


def peak_mib(step: Callable[[int], Any]) -> float | None:
    """What a step holds at its peak, beyond what was there before; ``None`` on a CPU."""
    if DEVICE.type != "cuda":
        return None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step(0)
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


def special_rate() -> float | None:
    """Results a second of the units that compute tanh, at the GPU's highest clock; ``None`` if that is unknown."""
    if DEVICE.type != "cuda":
        return None
    properties = torch.cuda.get_device_properties(DEVICE)
    clock = float(getattr(properties, "clock_rate", 0)) * 1e3  # not the present one, which falls when there is no work
    return SPECIAL_PER_CYCLE * properties.multi_processor_count * clock or None


class DeviceStep(TrainingStep):
    """A training step on the device."""

    device = DEVICE

    def sample(self, index: int) -> dict[str, Any]:
        """Batch ``index``, on the device."""
        from fairseq import utils

        moved: dict[str, Any] = utils.apply_to_sample(lambda tensor: tensor.to(DEVICE), super().sample(index))
        return moved

    def __call__(self, index: int) -> dict[str, float]:
        """Train on batch ``index`` and wait for the end."""
        super().__call__(index)
        wait()
        return {}


def measure_steps(variants: Sequence[Variant], size: Size, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Training steps of ``variants``, interleaved; ratios are to the first one."""
    with built_steps(variants, size, args.warmup + args.rounds, args.seed, DeviceStep) as steps:
        summary = harness.summarise(harness.interleave(steps, args.rounds, args.warmup), variants[0].name)
        for name, step in steps.items():
            summary[name]["peak_mib"] = peak_mib(step)
    return summary


def report(data: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    lines = ["# GPU", "", *harness.run_lines(data["run"]), f"* Device: {data['device']}"]
    for title, rows in data["tables"].items():
        cells = [
            [
                name,
                f"{row['wall_ms']:.2f}" if "wall_ms" in row else row["error"],
                f"{row['wall_ratio']:.3f}" if "wall_ratio" in row else "",
                "" if row.get("peak_mib") is None else f"{row['peak_mib']:.0f}",
                f"{max(row['off_by']):.1e}" if "off_by" in row else "",
            ]
            for name, row in rows.items()
        ]
        header = ["variant", "wall ms", "**ratio**", "peak MiB", "largest relative error"]
        lines += ["", f"## {title}", "", *harness.table(header, cells)]
    return lines + ["", tanh_line(data)]


def tanh_line(data: dict[str, Any]) -> str:
    """How near the kernels of concat are to the rate of the units that compute tanh."""
    rows, rate = data["tables"]["Score concat, forward and backward"], data["special_per_s"]
    name = f"{OURS}, Triton"
    if name not in rows or "wall_ms" not in rows[name] or not rate:
        return "Kernels of concat: not measured."
    size = Size(**data["size"])
    # Each hidden unit is made twice: for the scores, and for the gradients.
    least = 2e3 * size.batch_size * size.target_length * size.vocabulary * size.dim / rate
    times, share = rows["chunked form"]["wall_ms"] / rows[name]["wall_ms"], least / rows[name]["wall_ms"]
    return (
        f"Kernels of concat: {times:.1f} times as fast as the chunked form, and at {share:.0%} of the rate "
        f"of the units that compute tanh ({rate:.2e} a second)."
    )


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds that count (default: 20)")
    parser.add_argument("--warmup", type=int, default=5, help="rounds before (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and token ids (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a toy size and two rounds, to see that it runs")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/gpu", help="where .json and .md go")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    if DEVICE.type != "cuda" and not args.quick:
        sys.exit("There is no GPU here: --quick runs everything at a toy size on the CPU.")
    use_plugin()
    size, sentences = (TOY, granularity.TOY) if args.quick else (Size(), granularity.PAPER)
    if args.quick:
        args.rounds, args.warmup = 2, 1
    systems = [row for row in granularity.VARIANTS if row.name in (granularity.PEER, "C-DNPG, product")]
    lstms = [row for row in training_step.VARIANTS if row.arch in ("lstm", "wean_lstm")]
    larger = replace(size, batch_size=8 * size.batch_size)
    tables = {
        "Output layer, float32": measure_losses(output_losses(), size, torch.float32, args),
        "Output layer, bfloat16": measure_losses(output_losses(), size, torch.bfloat16, args),
        "Output layer, bfloat16, 8 times the tokens": measure_losses(output_losses(), larger, torch.bfloat16, args),
        "Score concat, forward and backward": measure_losses(concat_losses(size, args.seed), size, torch.float32, args),
        "Training step": measure_steps(lstms, size, args),
        "Granularity-aware attention, whole step": measure_steps(systems, sentences, args),
    }
    data = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/gpu.py", *training_step.shown(words)]), PACKAGES),
        "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU: nothing of a GPU was measured",
        "special_per_s": special_rate(),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": args.rounds,
        "warmup": args.warmup,
        "tables": tables,
    }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
