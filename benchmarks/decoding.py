"""Compare beam search on a CPU: our recurrent archs with the faster search, and fairseq's lstm with fairseq's search.

    python benchmarks/decoding.py              the published size, 1 and 2 threads, about ten minutes
    python benchmarks/decoding.py --quick      a toy size, as a smoke test. Ignore its numbers

Models, tasks and generators are taken from fairseq's registries. The weights are random. Every output has exactly the
required length, so that all variants do the same work.
"""

import argparse
import logging
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from training_step import add_run_options, shown, size_line  # noqa: E402
from workload import ADAM, TOY, Size, TrainingStep, Variant, built_steps, use_plugin  # noqa: E402

from wean_fairseq.capabilities import capabilities_of  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "numpy")
PEER = "fairseq lstm"
STOCK = "wean_lstm --stock-search"
FAST = "wean_lstm"
HALF = "wean_lstm --bf16-scores"
FEW = "wean_lstm --num-candidates V/10"
CONCAT = "wean_lstm --query-score concat"
CONCAT_FLAGS = ("--query-score", "concat")
BEAM = 5
LENGTHS = (20, 100)  # lengths of outputs in words for which the cost per word is measured
LENGTH_BATCH = 8
FEW_ROUNDS = 3  # maximum number of rounds for the slow tables of families and lengths


@dataclass(frozen=True)
class SearchVariant(Variant):
    """A model, and the search options of its task."""

    search: tuple[str, ...] = ()

    def command(self, size: Size) -> list[str]:
        """Return the options of model and task."""
        task = [] if self.arch == "lstm" else ["--task", "paraphrase", *self.search]
        return [*super().command(size), *task]


class FewCandidatesVariant(SearchVariant):
    """A model that scores only a tenth of the words in the dictionary."""

    def command(self, size: Size) -> list[str]:
        """Return the options of model and task."""
        return [*super().command(size), "--num-candidates", str(size.vocabulary // 10)]


VARIANTS = (
    SearchVariant(PEER, "lstm", "cross_entropy"),
    SearchVariant(STOCK, "wean_lstm", "cross_entropy", search=("--stock-search",)),
    SearchVariant(FAST, "wean_lstm", "cross_entropy"),
    SearchVariant(HALF, "wean_lstm", "cross_entropy", search=("--bf16-scores",)),
    SearchVariant("seq2seq_lstm", "seq2seq_lstm", "cross_entropy"),
    SearchVariant("seq2seq_lstm --bf16-scores", "seq2seq_lstm", "cross_entropy", search=("--bf16-scores",)),
    FewCandidatesVariant(FEW, "wean_lstm", "cross_entropy"),
)

# These variants decode one sentence at a time, as fairseq-interactive does. The score ``concat`` is too slow for larger
# batches.
SINGLE_VARIANTS = (
    *(variant for variant in VARIANTS if variant.name in (PEER, STOCK, FAST)),
    SearchVariant(f"{CONCAT} --stock-search", "wean_lstm", "cross_entropy", CONCAT_FLAGS, ("--stock-search",)),
    SearchVariant(CONCAT, "wean_lstm", "cross_entropy", CONCAT_FLAGS),
)


@dataclass(frozen=True)
class FamilyVariant(SearchVariant):
    """Another recurrent family, with the same --embed-dim and --hidden-size as the model of fairseq.

    All other options have their defaults.

    If the family has an option for the number of layers, it has two layers like fairseq's model.
    """

    task: str = "paraphrase"

    def command(self, size: Size) -> list[str]:
        """Return the options of model and task."""
        widths = [word for name in ("embed-dim", "hidden-size") for word in (f"--{name}", str(size.dim))]
        parts = ["--arch", self.arch, "--criterion", self.criterion, *widths, *ADAM, *self.flags]
        return ["--cpu", *parts, "--task", self.task, *self.search]


def _family(arch: str, *flags: str, task: str = "paraphrase") -> FamilyVariant:
    return FamilyVariant(arch, arch, "model_loss", flags, task=task)


FAMILIES = (
    _family("copynet"),
    _family("rnnsearch"),
    _family("enc_dec"),
    _family("pointer_generator"),
    _family("residual_lstm", "--num-layers=2"),
    _family("nts"),
    _family("enc_dec_a"),
    _family("mta_lstm", f"--topic-slots={Size.source_length}", task="topic_essay"),
    _family("tat_lstm", task="topic_essay"),
    _family("tav_lstm", task="topic_essay"),
    _family("sc_lstm", task="topic_essay"),
    _family("ppg", "--chunk-symbol=w0", task="topic_essay"),
)
# One family is chosen for each kind of decoding step. For these families, the cost per word is measured at several
# output lengths.
LONG = (*VARIANTS[:4], *(f for f in FAMILIES if f.name in ("copynet", "pointer_generator", "mta_lstm", "ppg")))


class SearchStep(TrainingStep):
    """A beam search. Each call decodes one batch."""

    beam = BEAM
    length: int  # number of words of an output, including the end symbol
    found: list[list[dict[str, Any]]]

    def __init__(
        self, variant: Variant, size: Size, data_dir: Path, batches: Sequence[dict[str, Any]], seed: int
    ) -> None:
        super().__init__(variant, size, data_dir, batches, seed)
        self.model.eval()
        self.set_length(size.target_length)

    def set_length(self, length: int) -> None:
        """Make every output ``length`` words long, including the end symbol."""
        self.length = length
        args = Namespace(beam=self.beam, max_len_a=0, max_len_b=length - 1, min_len=length - 1)
        self.generator = self.task.build_generator([self.model], args)

    @torch.no_grad()
    def __call__(self, index: int) -> dict[str, float]:
        """Search with batch ``index``."""
        net_input = {name: value for name, value in self.sample(index)["net_input"].items() if name.startswith("src")}
        if capabilities_of(self.model).needs_length:
            net_input["essay_lengths"] = torch.full_like(net_input["src_lengths"], self.length)
        self.found = self.generator.generate([self.model], {"net_input": net_input})
        return {}


def measure_time(
    variants: Sequence[SearchVariant],
    size: Size,
    threads: int,
    rounds: int,
    warmup: int,
    seed: int,
    step: type[SearchStep] = SearchStep,
) -> dict[str, dict[str, Any]]:
    """Return medians and ratios of all variants, which are timed in turn in this process."""
    torch.set_num_threads(threads)
    with built_steps(variants, size, warmup + rounds, seed, step) as steps:
        return harness.summarise(harness.interleave(steps, rounds, warmup), PEER)


def measure_lengths(size: Size, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, float]]:
    """Return the CPU milliseconds per word for each output length, summed over all hypotheses of a batch."""
    torch.set_num_threads(1)
    size = replace(size, batch_size=min(size.batch_size, LENGTH_BATCH))
    costs: dict[str, dict[str, float]] = {}
    with built_steps(LONG, size, warmup + rounds, seed, SearchStep) as steps:
        for length in LENGTHS:
            for step in steps.values():
                step.set_length(length)
            for name, row in harness.summarise(harness.interleave(steps, rounds, warmup), PEER).items():
                costs.setdefault(name, {})[str(length)] = round(row["cpu_ms"] / length, 3)
    return costs


def in_half(family: FamilyVariant) -> FamilyVariant:
    """Return the same model, with word scores computed in bfloat16."""
    return replace(family, name=f"{family.name} --bf16-scores", search=("--bf16-scores",))


def measure_families(size: Size, rounds: int, warmup: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return the speed of every family in ``FAMILIES``, relative to fairseq's model."""
    variants = [VARIANTS[0], *FAMILIES, *map(in_half, FAMILIES)]
    summary = measure_time(variants, size, 1, rounds, warmup, seed)
    rows = {}
    for family in FAMILIES:
        exact, half = summary[family.name], summary[in_half(family).name]
        rows[family.name] = {
            "cpu_ms": exact["cpu_ms"],
            "times_as_fast": round(1 / exact["cpu_ratio"], 2),
            "times_as_fast_bf16": round(1 / half["cpu_ratio"], 2),
        }
    return rows


def compare_outputs(size: Size, seed: int) -> dict[str, Any]:
    """Compare the outputs of the two searches for the same wean_lstm and batch, and return the statistics.

    Random weights lead to scores that are nearly equal, and rounding decides between them. With a trained model, this
    is rare.
    """
    both = [variant for variant in VARIANTS if variant.name in (STOCK, FAST)]
    with built_steps(both, size, 1, seed, SearchStep) as steps:
        for step in steps.values():
            step(0)
    pairs = list(zip(steps[STOCK].found, steps[FAST].found, strict=True))
    same = [pair for pair in pairs if _tokens(pair[0]) == _tokens(pair[1])]
    gaps = [abs(float(one["score"]) - float(other["score"])) for pair in same for one, other in zip(*pair, strict=True)]
    return {"sentences": len(pairs), "identical": len(same), "largest_score_difference": max(gaps, default=0.0)}


def _tokens(hypotheses: Iterable[dict[str, Any]]) -> list[list[int]]:
    return [hypothesis["tokens"].tolist() for hypothesis in hypotheses]


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    size = Size(**data["size"])
    lines = [
        "# Decoding",
        "",
        *harness.run_lines(data["run"]),
        size_line(size) + f"; beam {BEAM}; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}",
    ]
    for threads, summary in data["time"].items():
        lines += _time_section(f"A batch, threads: {threads}", size.batch_size, summary)
    if data["single"]:
        lines += _time_section("One sentence, threads: 1", 1, data["single"])
    if data["families"]:
        lines += _family_section(size.batch_size, data["few_rounds"], data["families"])
    lines += _length_section(data)
    if outputs := data["outputs"]:
        same = (
            f"`{FAST}` and `{STOCK}`, same random weights: all {BEAM} outputs the same for {outputs['identical']} "
            f"of {outputs['sentences']} sentences; scores apart by at most {outputs['largest_score_difference']:.1e}."
        )
        lines += ["", same]
    return lines


def _time_section(title: str, sentences: int, summary: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a section with the times for batches of this number of sentences."""
    rows = [
        [
            name,
            f"{row['cpu_ms']:.0f}",
            f"{sentences / row['cpu_ms'] * 1e3:.1f}",
            f"{1 / row['cpu_ratio']:.2f}",
            f"{row['wall_ms']:.0f}",
            f"{sentences / row['wall_ms'] * 1e3:.1f}",
            f"{1 / row['wall_ratio']:.2f}",
        ]
        for name, row in summary.items()
    ]
    header = ["variant", "CPU ms", "sentences / CPU s", "**times as fast**"]
    header += ["wall ms", "sentences / s", "times as fast"]
    last = f"Times as fast as `{PEER}` with fairseq's search."
    return ["", f"## {title}", "", *harness.table(header, rows), "", last]


def _family_section(sentences: int, rounds: int, families: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the section about the other families."""
    header = ["family", "CPU ms", "sentences / CPU s", "**times as fast**", "with --bf16-scores"]
    rows = [
        [
            name,
            f"{row['cpu_ms']:.0f}",
            f"{sentences / row['cpu_ms'] * 1e3:.1f}",
            f"{row['times_as_fast']:.2f}",
            f"{row['times_as_fast_bf16']:.2f}",
        ]
        for name, row in families.items()
    ]
    last = (
        f"Times in CPU time, against `{PEER}` with fairseq's search in the same rounds. `nts_w2v` is `nts` here. The "
        "output layer of `sc_lstm` reads both layers, so that its products are twice the peer's."
    )
    heading = f"## A batch with the other recurrent families, threads: 1, {rounds} rounds"
    return ["", heading, "", *harness.table(header, rows), "", last]


def _length_section(data: dict[str, Any]) -> list[str]:
    """Return the section about the cost per word. It is empty if this cost was not measured."""
    if not data["lengths"]:
        return []
    header = ["variant", *(f"{length} words" for length in LENGTHS)]
    rows = [[name, *row.values()] for name, row in data["lengths"].items()]
    batch = data["length_batch"]
    heading = f"## CPU ms a word of all hypotheses, by the length of the outputs, batch {batch}, threads: 1"
    heading += f", {data['few_rounds']} rounds"
    return ["", heading, "", *harness.table(header, rows)]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "decoding", rounds=5, warmup=1)
    parser.add_argument("--batch-size", type=int, help=f"sentences (default: {Size.batch_size})")
    parser.add_argument("--no-lengths", action="store_true", help="leave out the cost by length")
    args = parser.parse_args(words)
    use_plugin()
    size = replace(TOY if args.quick else Size(), **({"batch_size": args.batch_size} if args.batch_size else {}))
    rounds, warmup = (2, 1) if args.quick else (args.rounds, args.warmup)
    few = min(rounds, FEW_ROUNDS)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/decoding.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "beam": BEAM,
        "seed": args.seed,
        "rounds": rounds,
        "few_rounds": few,
        "warmup": warmup,
        "time": {},
        "single": {},
        "families": {},
        "length_batch": min(size.batch_size, LENGTH_BATCH),
        "lengths": {},
        "outputs": {},
    }
    harness.write_as_measured(args.output, data, measure_tables(args, size, rounds, warmup, few), report)


def measure_tables(
    args: argparse.Namespace, size: Size, rounds: int, warmup: int, few: int
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the measured tables, or parts of them, by name. ``few`` is the number of rounds for slow tables."""
    for threads in args.threads:
        yield {"time": {str(threads): measure_time(VARIANTS, size, threads, rounds, warmup, args.seed)}}
    yield {"single": measure_time(SINGLE_VARIANTS, replace(size, batch_size=1), 1, rounds, warmup, args.seed)}
    yield {"outputs": compare_outputs(size, args.seed)}
    yield {"families": measure_families(size, few, warmup, args.seed)}
    if not args.no_lengths:
        yield {"lengths": measure_lengths(size, few, warmup, args.seed)}


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
