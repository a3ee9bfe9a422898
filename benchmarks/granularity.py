"""Measure the cost of granularities: training step and peak memory of C-DNPG, and of a Transformer of the same size.

    python benchmarks/granularity.py              the paper's size, 1 and 2 threads, some minutes
    python benchmarks/granularity.py --quick      a toy size, as a smoke test. Ignore its numbers

The variants of C-DNPG are built from the same modules as the Transformer, and differ from it only in the additions of
the paper (Gu et al., COLING 2022). DNPG, a baseline of that paper, is a different network with the sizes given in its
paper. The steps are timed with the published dictionary, and with a dictionary that is so small that output layer and
embeddings cost almost no time.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from training_step import (  # noqa: E402
    add_memory_options,
    add_run_options,
    measure_each_memory,
    memory_table,
    print_memory,
    shown,
    size_line,
    time_steps,
    time_table,
)
from workload import ADAM, Size, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed")
PEER = "paraphrase_transformer"
# C-DNPG's setting: WordPiece vocabulary, width 450, 3+3 layers, 32 pairs padded to 20 tokens.
PAPER = Size(30_522, dim=450, layers=3, dropout=0.1, batch_size=32, source_length=20, target_length=20)
TOY = replace(PAPER, vocabulary=60, dim=8, batch_size=4, source_length=6, target_length=5)
FEW_WORDS = 50  # size of a dictionary for which the output layer costs almost nothing
TABLES = {"whole step": None, "layers alone": FEW_WORDS}


class TransformerVariant(Variant):
    """A Transformer in the paper's proportions: heads of 50 units, and a feed-forward width of 1,024 for width 450."""

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        sizes = {
            "embed-dim": size.dim,
            "ffn-dim": round(size.dim * 1024 / 450),
            "attention-heads": max(1, size.dim // 50),
            "encoder-layers": size.layers,
            "decoder-layers": size.layers,
            "dropout": size.dropout,
        }
        words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        parts = ["--task", "paraphrase", "--arch", self.arch, "--criterion", self.criterion]
        return ["--cpu", *parts, *words, *ADAM, *self.flags]


class DnpgVariant(Variant):
    """DNPG in the proportions of its paper: 2/3 of the width for phrases, 1/3 for sentences (300 and 150 for 450).

    It has no weak labels, because their loss is a negligible part of the step.
    """

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        third = size.dim // 3
        heads = max(1, third // 50)
        sizes = {
            "phrase-dim": 2 * third,
            "phrase-heads": 2 * heads,
            "sentence-dim": third,
            "sentence-heads": heads,
            "separator-dim": 2 * third,
            "aggregator-dim": 2 * third,
            "encoder-layers": size.layers,
            "decoder-layers": size.layers,
            "dropout": size.dropout,
            "label-weight": 0,
            "final-label-weight": 0,
        }
        words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        parts = ["--task", "paraphrase", "--arch", self.arch, "--criterion", self.criterion]
        return ["--cpu", *parts, *words, *ADAM, *self.flags]


def variant(name: str, arch: str, *flags: str) -> TransformerVariant:
    """Return a row of the tables."""
    return TransformerVariant(name, arch, "model_loss", flags)


VARIANTS = (
    variant(PEER, PEER),
    *(variant(f"C-DNPG, {kind}", f"granularity_transformer_{kind}") for kind in ("resonance", "scope")),
    *(variant(f"C-DNPG, {kind}", f"granularity_transformer_{kind}") for kind in ("product", "mean")),
    variant("C-DNPG, as released", "granularity_transformer_release"),
    variant("C-DNPG, product, eq. 9", "granularity_transformer_product", "--ga-normalize", "none"),
    DnpgVariant("DNPG", "dnpg", "model_loss"),
)


def measure_time(size: Size, threads: int, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return medians and ratios of all variants, which are timed in turn in this process."""
    torch.set_num_threads(threads)
    with built_steps(VARIANTS, size, warmup + rounds, seed) as steps:
        return time_steps(steps, rounds, warmup, PEER)


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    rounds = f"; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}"
    lines = ["# Granularities", "", *harness.run_lines(data["run"]), size_line(Size(**data["size"])) + rounds]
    for threads, tables in data["time"].items():
        for title, summary in tables.items():
            few = TABLES[title]
            lines += ["", f"## {title.capitalize()}{f' (V = {few})' if few else ''}, threads: {threads}", ""]
            lines += [*time_table("system", summary), "", f"Ratios are to `{PEER}`."]
    lines += memory_table("system", data["memory"], PEER)
    return lines


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "granularity", rounds=15)
    add_memory_options(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    size = TOY if args.quick else PAPER
    if args.memory_of:
        print_memory(args, VARIANTS, size)
        return
    rounds, warmup = (2, 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/granularity.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "memory": {},
        "time": {},
    }
    # Memory is measured first. Its processes are small and do not affect the later timing.
    if not args.no_memory:
        data["memory"] = measure_each_memory(__file__, words, VARIANTS)
    for threads in args.threads:
        data["time"][str(threads)] = {
            title: measure_time(replace(size, vocabulary=few or size.vocabulary), threads, rounds, warmup, args.seed)
            for title, few in TABLES.items()
        }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
