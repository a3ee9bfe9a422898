"""Compare the decoding speed of all systems of examples/all_systems.sh, at the sizes of that recipe.

    python benchmarks/all_systems.py              the published size, about three minutes
    python benchmarks/all_systems.py --quick      a toy size, as a smoke test. Ignore its numbers

The weights are random, and every output has exactly the required length, so that all systems do the same work. The peer
is fairseq's ``lstm`` with fairseq's search, as in the recipe. All other systems use our search.
"""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from decoding import BEAM, PACKAGES, PEER, SearchStep, SearchVariant, measure_time  # noqa: E402
from training_step import add_run_options, shown, size_line  # noqa: E402
from workload import ADAM, TOY, Size, use_plugin  # noqa: E402

# The dictionary of 20,000 Quora pairs has 10,320 entries. A test question has 11.5 words on average.
RECIPE = Size(vocabulary=10_320, dim=128, dropout=0.3, source_length=12, target_length=12)
TRANSFORMER_LAYERS = 3
TRANSFORMERS = (
    "paraphrase_transformer",
    "copy_transformer",
    "granularity_transformer_resonance",
    "granularity_transformer_scope",
    "granularity_transformer_product",
    "granularity_transformer_mean",
)
LSTMS = ("residual_lstm", "rnnsearch", "copynet", "pointer_generator", "nts", "enc_dec_a")


@dataclass(frozen=True)
class RecipeVariant(SearchVariant):
    """A system with the options that examples/all_systems.sh gives to it."""

    def command(self, size: Size) -> list[str]:
        """Return the options of model and task."""
        if self.arch in ("lstm", "wean_lstm", "seq2seq_lstm"):
            return super().command(size)
        heads = ("--attention-heads", "4")
        layers = [word for side in ("encoder", "decoder") for word in (f"--{side}-layers", f"{TRANSFORMER_LAYERS}")]
        widths = ["--embed-dim", f"{size.dim}", "--hidden-size", f"{size.dim}"]
        if self.arch in TRANSFORMERS:
            widths = ["--embed-dim", f"{size.dim}", "--ffn-dim", f"{4 * size.dim}", *heads, *layers]
        elif self.arch == "fset":
            # The last word of the dictionary separates the sentences of a retrieved pair.
            symbol = ["--pair-symbol", f"w{size.vocabulary - 5}"]
            widths = ["--embed-dim", f"{size.dim}", "--ffn-dim", f"{4 * size.dim}", *heads, *layers]
            widths += ["--edit-dim", f"{size.dim}", "--share-embeddings", *symbol]
        elif self.arch == "dnpg":
            widths = ["--phrase-dim", f"{size.dim}", "--phrase-heads", "4"]
            widths += ["--sentence-dim", f"{size.dim // 2}", "--sentence-heads", "4"]
            widths += ["--label-weight", "0", "--final-label-weight", "0"]
        return ["--cpu", "--task", "paraphrase", "--arch", self.arch, "--criterion", self.criterion, *widths, *ADAM]


VARIANTS = (
    RecipeVariant(PEER, "lstm", "cross_entropy"),
    *(RecipeVariant(arch, arch, "query_embedding") for arch in ("seq2seq_lstm", "wean_lstm")),
    *(RecipeVariant(arch, arch, "model_loss") for arch in (*LSTMS, *TRANSFORMERS, "dnpg", "fset")),
)


class RecipeStep(SearchStep):
    """A beam search. Each call decodes one batch. The sources of ``fset`` have a retrieved pair."""

    def sample(self, index: int) -> dict[str, Any]:
        """Return batch ``index``."""
        batch = super().sample(index)
        separator = getattr(self.model.encoder, "separator", None)
        return batch if separator is None else with_pairs(batch, separator)


def with_pairs(batch: dict[str, Any], separator: int) -> dict[str, Any]:
    """Add the next source and the next target of the batch to each source, as preprocess/retrieve_pairs.py does."""
    sources = batch["net_input"]["src_tokens"]
    mark = sources.new_full((len(sources), 1), separator)
    pairs = (sources.roll(-1, 0), batch["target"].roll(-1, 0))
    # Every sentence ends with the end symbol. Only the last one of the line keeps it.
    tokens = torch.cat([sources[:, :-1], mark, pairs[0][:, :-1], mark, pairs[1]], dim=1)
    lengths = torch.full_like(batch["net_input"]["src_lengths"], tokens.shape[1])
    return {**batch, "net_input": {**batch["net_input"], "src_tokens": tokens, "src_lengths": lengths}}


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    size = Size(**data["size"])
    lines = [
        "# Decoding speed of all systems",
        "",
        *harness.run_lines(data["run"]),
        f"{size_line(size)}; Transformers {TRANSFORMER_LAYERS}+{TRANSFORMER_LAYERS} layers",
        f"* Beam {BEAM}; {data['rounds']} rounds after {data['warmup']}, seed {data['seed']}",
    ]
    header = ["system", "sentences / CPU s", "**times as fast**"]
    for threads, summary in data["time"].items():
        rows = [
            [name, f"{size.batch_size / row['cpu_ms'] * 1e3:.0f}", f"{1 / row['cpu_ratio']:.2f}"]
            for name, row in summary.items()
        ]
        lines += ["", f"## Threads: {threads}", "", *harness.table(header, rows), ""]
        lines.append(f"Times as fast as `{PEER}` with fairseq's search, medians over the rounds.")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_run_options(parser, "all_systems", rounds=5, warmup=1)
    parser.set_defaults(threads=[1])
    args = parser.parse_args(words)
    use_plugin()
    size = replace(TOY, dim=16) if args.quick else RECIPE
    rounds, warmup = (2, 1) if args.quick else (args.rounds, args.warmup)
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/all_systems.py", *shown(words)]), PACKAGES),
        "size": asdict(size),
        "beam": BEAM,
        "seed": args.seed,
        "rounds": rounds,
        "warmup": warmup,
        "time": {},
    }
    tables = (
        {"time": {str(threads): measure_time(VARIANTS, size, threads, rounds, warmup, args.seed, RecipeStep)}}
        for threads in args.threads
    )
    harness.write_as_measured(args.output, data, tables, report)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
