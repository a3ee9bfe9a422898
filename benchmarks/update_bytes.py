"""Compute the bytes that the processes of a training exchange in each update, from the parameters of every arch.

    python benchmarks/update_bytes.py              prints the tables in docs/scaling.md

The archs have the sizes of their papers. All gradients are dense here, including those of embeddings. In every update,
a softmax over all words reaches each row of a tied embedding, and fairseq exchanges no sparse gradients. Therefore an
update transfers each trainable parameter once, as four bytes in float32 or as two bytes with --fp16. Models are built
by fairseq's parser and tasks, but no memory is allocated for their parameters.
"""

import argparse
import logging
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import harness  # noqa: E402 - modules of this folder, independent of the working directory
import torch  # noqa: E402
from fairseq import options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from torch import nn  # noqa: E402
from workload import use_plugin, write_dictionaries  # noqa: E402

BASELINE = "seq2seq_lstm"
SPECIALS = 4  # number of fairseq's special symbols, which come in addition to the words
# BERT has the sizes of BERT-base, is frozen, and has no gradients.
BERT = Namespace(num_layers=12, dim=768, digest="00" * 32, path="")
# Assumptions of the estimate, which were not measured: the milliseconds of a step without the exchange, the numbers of
# GPUs, and the speed in GB/s of the slowest link in their ring, within a machine of 8 GPUs and between machines.
STEP_MS, GPUS, PER_MACHINE = 50.0, (8, 16, 32, 64), 8
WITHIN, BETWEEN = 300.0, {"100 Gbit/s": 12.5, "10 Gbit/s": 1.25}
ESSAYS = ("mta_lstm", "tat_lstm", "tav_lstm", "sc_lstm", "ppg", "pc_san")


@dataclass(frozen=True)
class Model:
    """A row of the table: an arch with the options of its paper."""

    arch: str
    note: str = ""
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the arch and a note on its special options."""
        return f"`{self.arch}`" + (f", {self.note}" if self.note else "")


_LSTM = ("--encoder-layers=2", "--decoder-layers=2") + tuple(
    f"--{name}=256" for name in ("encoder-embed-dim", "encoder-hidden-size", "decoder-embed-dim", "decoder-hidden-size")
)
FAIRSEQ = Model("lstm", "fairseq's, 256 units, 2+2 layers", (*_LSTM, "--decoder-out-embed-dim=256"))
WORDS = {
    50_000: (
        FAIRSEQ,
        Model(BASELINE),
        Model("wean_lstm", "general"),
        Model("wean_lstm", "dot", ("--query-score=dot",)),
        Model("wean_lstm", "concat", ("--query-score=concat",)),
        Model("copynet"),
        Model("pointer_generator", "coverage", ("--coverage",)),
        Model("nts"),
        Model("enc_dec_a"),
        Model("residual_lstm"),
        Model("srb"),
        Model("rnn_distract"),
        Model("drgd"),
        Model("paraphrase_transformer"),
        Model("copy_transformer"),
        Model("dnpg"),
        Model("granularity_transformer"),
        Model("fset", flags=("--pair-symbol=w0",)),
        Model("mta_lstm"),
        Model("sc_lstm"),
        Model("ppg", flags=("--chunk-symbol=w0",)),
        Model("pc_san"),
    ),
    4_000: (Model("seq2seq_lstm_lcsts"), Model("wean_lstm_lcsts", "general")),
}


def build(model: Model, data: Path) -> nn.Module:
    """Return the model for the dictionary in ``data``, without allocating memory for its parameters."""
    task = "topic_essay" if model.arch in ESSAYS else "paraphrase"
    line = [str(data), "--source-lang", "src", "--target-lang", "tgt", "--task", task, "--arch", model.arch]
    line += ["--criterion", "query_embedding"]  # this criterion works with all archs, including fairseq's
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=[*line, *model.flags])
    cfg = convert_namespace_to_omegaconf(args)
    ready = tasks.setup_task(cfg.task)
    if model.arch == "pc_san":
        ready.bert = BERT
    with torch.device("meta"):
        built: nn.Module = ready.build_model(cfg.model)
    return built


def counted(models: Sequence[Model], words: int) -> dict[str, int]:
    """Return the number of trainable parameters of each model for a dictionary of ``words`` words."""
    with tempfile.TemporaryDirectory() as folder:
        write_dictionaries(Path(folder), words + SPECIALS)
        return {
            model.name: sum(p.numel() for p in build(model, Path(folder)).parameters() if p.requires_grad)
            for model in models
        }


def render(words: int, numbers: dict[str, int]) -> list[str]:
    """Return the Markdown table for one dictionary size. Ratios are relative to the first baseline in the table."""
    header = ["arch", "parameters", "MiB per update, fp32", "fp16", "**share of the baseline's**"]
    baseline = next(name for name in numbers if name.startswith(f"`{BASELINE}"))
    rows = [
        [name, f"{n:,}", f"{4 * n / 2**20:.1f}", f"{2 * n / 2**20:.1f}", f"{n / numbers[baseline]:.2f}"]
        for name, n in numbers.items()
    ]
    return [f"With {words:,} words, and {baseline} as the baseline:", "", *harness.table(header, rows)]


def exchange_ms(parameters: int, gpus: int, between: float) -> float:
    """Return the milliseconds that a ring all-reduce of float32 gradients takes.

    Each link transfers 2 (N - 1) / N of the bytes of the gradients. Latency is ignored.

    Args:
        parameters: number of trainable parameters.
        gpus: number N of GPUs.
        between: speed between machines in GB/s.
    """
    rate = WITHIN if gpus <= PER_MACHINE else between
    return 2 * (gpus - 1) / gpus * 4 * parameters / (rate * 1e6)


def estimate(numbers: dict[str, int]) -> list[str]:
    """Return the share of ``STEP_MS`` in a step with the exchange, for archs with different output layers."""
    header = ["arch", "between machines", *(f"{gpus} GPUs" for gpus in GPUS)]
    rows = [
        [name, link, *(f"{STEP_MS / (STEP_MS + exchange_ms(numbers[name], gpus, rate)):.0%}" for gpus in GPUS)]
        for link, rate in BETWEEN.items()
        for name in list(numbers)[:3]
    ]
    return harness.table(header, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args(argv)
    use_plugin()
    tables = {words: counted(models, words) for words, models in WORDS.items()}
    for words, numbers in tables.items():
        print("\n".join([*render(words, numbers), ""]))
    print("\n".join(estimate(tables[50_000])))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
