"""Measure the cost of PC-SAN: its training step with cached BERT features, and that of a Transformer of the same size.

    python benchmarks/essay_step.py              the paper's size, 1 and 2 threads, some ten minutes
    python benchmarks/essay_step.py --quick      a toy size, as a smoke test. Ignore its numbers

A step reads the features of its topics from the memory-mapped files of ``topic_essay --bert``. BERT itself does not
run. Random numbers replace its outputs.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import numpy as np  # noqa: E402
import torch  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402
from training_step import add_run_options, shown, time_steps, time_table  # noqa: E402
from workload import ADAM, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed")
PEER = "essay_transformer"
# The sizes of PC-SAN's decoder, with 50,000 words. Essays have 50 to 120 words and 5 topics, plus end symbols.
PAPER = Size(50_000, dim=768, layers=6, dropout=0.1, batch_size=32, source_length=6, target_length=90)
TOY = replace(PAPER, vocabulary=60, dim=8, layers=2, batch_size=4, target_length=7)
HEADS = 8
BERT_LAYERS = 12


class EssayVariant(Variant):
    """A system with the sizes of the decoder in the paper. The Transformer also has an encoder of the same depth."""

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        sizes = {"embed-dim": size.dim, "layers": size.layers, "attention-heads": HEADS}
        if self.arch == PEER:
            sizes["ffn-embed-dim"] = 4 * size.dim
            flags = [f"--{side}-{name}={value}" for side in ("encoder", "decoder") for name, value in sizes.items()]
        else:
            sizes["ffn-dim"] = 4 * size.dim
            sizes["decoder-layers"] = sizes.pop("layers")
            flags = [f"--{name}={value}" for name, value in sizes.items()]
        parts = ["--task", "topic_essay", "--arch", self.arch, "--dropout", str(size.dropout)]
        loss = ["--criterion", self.criterion, "--label-smoothing", "0.1"]
        return ["--cpu", *parts, *loss, *flags, *ADAM, *self.flags]


VARIANTS = (
    EssayVariant(PEER, PEER, "query_embedding"),
    EssayVariant("pc_san", "pc_san", "model_loss"),
    EssayVariant("pc_san --context none", "pc_san", "model_loss", ("--context=none",)),
)


@dataclass
class RandomBert:
    """Replaces a BERT with ``dim`` units. Its features are random numbers for every word."""

    dim: int
    num_layers: int = BERT_LAYERS
    digest: str = "00" * 32
    path: str = "random"
    separator: str = ""

    def count_unknown(self, lines: Sequence[tuple[str, ...]]) -> tuple[int, int]:
        """Return 0 and the number of different words, because the vocabulary has every word."""
        return 0, len({word for words in lines for word in words})

    def features(self, topics: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index of every sentence and its features, shape (k, L, H)."""
        generator = np.random.default_rng(1)
        for number, words in enumerate(topics):
            yield number, generator.standard_normal((len(words), self.num_layers, self.dim)).astype(np.float16)

    def release(self) -> None:
        """Do nothing, because there is no memory to free."""


class EssayStep(TrainingStep):
    """A training step whose batches contain the cached features of the topics, if the model needs them."""

    def __init__(
        self, variant: EssayVariant, size: Size, folder: Path, batches: list[dict[str, Any]], seed: int
    ) -> None:
        self.reads_bert = variant.arch == "pc_san"
        self.bert = RandomBert(size.dim)
        self.cache = folder / "features"
        super().__init__(variant, size, folder, batches, seed)

    def setup_task(self, cfg: Any) -> FairseqTask:
        """Set up the task as the base class does, but with a BERT."""
        from wean_fairseq.data.bert_inputs import StoredFeatures
        from wean_fairseq.data.pairs import word_ids

        task = super().setup_task(cfg)
        if self.reads_bert:
            task.bert = self.bert
            self.features = StoredFeatures(self.bert, self.cache)
            self.dictionary = task.source_dictionary
            lines = (row for batch in self.batches for row in batch["net_input"]["src_tokens"])
            topics = word_ids(lines, self.dictionary)
            self.features.prepare("train", {tuple(self.dictionary[index] for index in line) for line in topics})
        return task

    def sample(self, index: int) -> dict[str, Any]:
        """Return a batch as the base class does, but with features."""
        batch = super().sample(index)
        if not self.reads_bert:
            return batch
        net_input = batch["net_input"]
        features = self.features.align(net_input["src_tokens"], self.dictionary)
        return {**batch, "net_input": {**net_input, "bert_features": features}}


def measure_time(size: Size, threads: int, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return medians and ratios of all variants, which are timed in turn in this process."""
    torch.set_num_threads(threads)
    with built_steps(VARIANTS, size, warmup + rounds, seed, EssayStep) as steps:
        return time_steps(steps, rounds, warmup, PEER)


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    size = Size(**data["size"])
    setting = (
        f"* V = {size.vocabulary:,}, d = {size.dim}, {size.layers} decoder layers (`{PEER}`: {size.layers} encoder "
        f"layers as well), one embedding for topics, essay and output, {BERT_LAYERS} layers of BERT, "
        f"dropout {size.dropout}, batch {size.batch_size}, {size.source_length - 1} topics and "
        f"{size.target_length} target tokens, float32; "
        f"{data['rounds']} rounds after {data['warmup']}, seed {data['seed']}"
    )
    lines = ["# Essays", "", *harness.run_lines(data["run"]), setting]
    for threads, summary in data["time"].items():
        lines += ["", f"## Training step, threads: {threads}", "", *time_table("system", summary), ""]
        lines += [f"Ratios are to `{PEER}`. The time to read features is in the totals, and in no phase."]
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "essay_step", rounds=5, warmup=1)
    parser.add_argument("--batch-size", type=int, help=f"essays (default: {PAPER.batch_size})")
    args = parser.parse_args(words)
    use_plugin()
    size = TOY if args.quick else PAPER
    size = replace(size, batch_size=args.batch_size or size.batch_size)
    rounds, warmup = (2, 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/essay_step.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "time": {str(threads): measure_time(size, threads, rounds, warmup, args.seed) for threads in args.threads},
    }
    lines = report(data)
    harness.write_results(args.output, data, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
