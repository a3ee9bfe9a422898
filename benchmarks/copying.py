"""Measure the cost of copying in training and decoding steps of CopyNet, compared with RNNSearch and Enc-Dec.

    python benchmarks/copying.py              the paper's sizes, 1 and 2 threads, some minutes
    python benchmarks/copying.py --quick      a toy size, as a smoke test. Ignore its numbers

The three systems are built from the same modules. They differ only in the additions of the paper (Gu et al., ACL 2016).
"""

import argparse
import logging
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from training_step import add_run_options, shown, time_steps, time_table  # noqa: E402
from workload import ADAM, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed")
PEER = "rnnsearch"
# CopyNet's setting for the synthetic task: 1,000 symbols, hidden size 300, embedding size 150. Its sources and targets
# have about 23 words.
PAPER = Size(vocabulary=1004, dim=300, layers=1, dropout=0.0, batch_size=40, source_length=24, target_length=22)
TOY = replace(PAPER, vocabulary=60, dim=8, batch_size=4, source_length=6, target_length=5)
BEAM = 10
WINDOW = 10  # number of decoding steps for each measured median


class CopyingVariant(Variant):
    """One of the three systems. Its width options have other names, and it has no option for the number of layers."""

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        widths = ["--hidden-size", str(size.dim), "--embed-dim", str(size.dim // 2)]
        return ["--cpu", "--task", "paraphrase", "--arch", self.arch, "--criterion", self.criterion, *widths, *ADAM]


VARIANTS = tuple(CopyingVariant(arch, arch, "model_loss") for arch in ("copynet", PEER, "enc_dec"))


def measure_training(size: Size, threads: int, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return medians and ratios of all systems, which are timed in turn in this process."""
    torch.set_num_threads(threads)
    with built_steps(VARIANTS, size, warmup + rounds, seed) as steps:
        return time_steps(steps, rounds, warmup, PEER)


def measure_decoding(size: Size, length: int, seed: int) -> dict[str, list[float]]:
    """Call ``time_decoding`` for all systems, and return the results."""
    with built_steps(VARIANTS, size, 1, seed) as steps:
        return {name: time_decoding(step, length) for name, step in steps.items()}


@torch.no_grad()
def time_decoding(step: TrainingStep, length: int) -> list[float]:
    """Return the CPU milliseconds of a decoder step for 10 hypotheses per sentence, as one median for every ten steps.

    decoding.py measures a whole search instead.
    """
    torch.set_num_threads(1)
    model = step.model.eval()
    batch = step.batches[0]["net_input"]
    rows = torch.arange(batch["src_tokens"].size(0)).repeat_interleave(BEAM)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(batch["src_tokens"], batch["src_lengths"]), rows)
    words = batch["src_tokens"][rows]
    # The words are arbitrary, because the cost does not depend on them.
    words = words.repeat(1, -(-length // words.size(1)))[:, :length]
    state: dict[str, Any] = {}
    # As in beam search, the hypotheses of a sentence are reordered after every step.
    order = torch.arange(len(rows)).view(-1, BEAM).flip(1).flatten()
    times = []
    for position in range(length):
        before = time.process_time()
        model.decoder(words[:, : position + 1], encoder_out, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        times.append((time.process_time() - before) * 1e3)
    return [round(statistics.median(times[start : start + WINDOW]), 3) for start in range(0, length, WINDOW)]


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    size = Size(**data["size"])
    setting = (
        f"* V = {size.vocabulary:,}, hidden {size.dim}, embeddings {size.dim // 2}, batch {size.batch_size}, "
        f"{size.source_length} source and {size.target_length} target tokens, float32; "
        f"{data['rounds']} rounds after {data['warmup']}, seed {data['seed']}"
    )
    lines = ["# Copying", "", *harness.run_lines(data["run"]), setting]
    for threads, summary in data["training"].items():
        lines += ["", f"## Training step, threads: {threads}", "", *time_table("system", summary), ""]
        lines += [f"Ratios are to `{PEER}`."]
    header = [
        "system",
        *(f"from step {start * WINDOW + 1}" for start in range(len(next(iter(data["decoding"].values()))))),
    ]
    rows = [[name, *(f"{value:.1f}" for value in values)] for name, values in data["decoding"].items()]
    lines += [
        "",
        f"## The decoder alone, CPU ms a step of {BEAM} hypotheses a sentence, threads: 1",
        "",
        *harness.table(header, rows),
    ]
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "copying", rounds=9)
    parser.add_argument("--length", type=int, default=60, help="words to decode (default: 60)")
    args = parser.parse_args(words)
    use_plugin()
    size = TOY if args.quick else PAPER
    rounds, warmup = (2, 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/copying.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "training": {
            str(threads): measure_training(size, threads, rounds, warmup, args.seed) for threads in args.threads
        },
        "decoding": measure_decoding(size, args.length, args.seed),
    }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
