"""Train as ``fairseq-train`` does, for ``gpu.py``: half-precision optimisers, and the speed of whole trainings."""

import gc
import json
import logging
import statistics
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq import options
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.optim import AMPOptimizer, FP16Optimizer
from fairseq_cli import train
from omegaconf import open_dict

sys.path.insert(0, str(Path(__file__).resolve().parent))

from training_step import FUSED, OURS, PEER
from workload import ADAM, Size, Variant, make_batches, write_dictionaries

HALVES = ("--fp16", "--bf16", "--amp")
# Statistics are logged four times. The first of them includes the start of the training.
INTERVALS = 4


class TransformerVariant(Variant):
    """fairseq's Transformer or ours, with heads of 64 units and a feed-forward width of four times the model width."""

    def command(self, size: Size) -> list[str]:
        """Return the options that a user would give to fairseq-train."""
        heads, layers = max(1, size.dim // 64), size.layers
        if self.arch == "transformer":
            task, sides = "translation", ("encoder-", "decoder-")
            sizes = {"embed-dim": size.dim, "ffn-embed-dim": 4 * size.dim, "attention-heads": heads, "layers": layers}
            named = [(f"--{side}{name}", value) for side in sides for name, value in sizes.items()]
        else:
            task = "paraphrase"
            named = [("--embed-dim", size.dim), ("--ffn-dim", 4 * size.dim), ("--attention-heads", heads)]
            named += [("--encoder-layers", layers), ("--decoder-layers", layers)]
        words = [word for name, value in named for word in (name, str(value))]
        parts = ["--task", task, "--arch", self.arch, "--criterion", self.criterion, "--dropout", str(size.dropout)]
        return ["--cpu", *parts, *words, *ADAM, *self.flags]


STEPS = (
    *(Variant(f"{PEER} {option}", "lstm", "cross_entropy", (option,)) for option in HALVES),
    *(Variant(f"{OURS} {option}", "wean_lstm", "query_embedding", (*FUSED, option)) for option in ("--tf32", *HALVES)),
)
RUNS = (
    Variant(PEER, "lstm", "cross_entropy"),
    Variant(OURS, "wean_lstm", "query_embedding", FUSED),
    TransformerVariant("fairseq transformer", "transformer", "cross_entropy", ("--share-decoder-input-output-embed",)),
    TransformerVariant("paraphrase_transformer", "paraphrase_transformer", "model_loss", FUSED),
)


def half_optimizer(cfg: Any, model: torch.nn.Module, device: torch.device) -> Any:
    """Return fairseq's optimiser for ``--fp16``, ``--bf16`` or ``--amp`` after converting the model, or ``None``."""
    common = cfg.common
    with open_dict(common):
        common.tpu = False
        common.fp16_no_flatten_grads = common.fp16_no_flatten_grads or device.type == "cpu"
    if common.fp16 or common.bf16:
        model.to(torch.float16 if common.fp16 else torch.bfloat16)
        return FP16Optimizer.build_optimizer(cfg, list(model.parameters()))
    return AMPOptimizer.build_optimizer(cfg, list(model.parameters())) if common.amp else None


def measure_runs(size: Size, device: torch.device, updates: int, seed: int, *more: str) -> dict[str, dict[str, Any]]:
    """Measure words per second, time per update and peak memory of the trainings in ``RUNS``, with ``more`` options."""
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, short_goodbyes():
        write_data(Path(folder), size, updates, seed)
        for run in RUNS:
            words = [word for word in run.command(size) if word != "--cpu" or device.type == "cpu"]
            try:
                rows[run.name] = measure_run([folder, *words, *more], size, device, updates, seed)
            except Exception as error:  # noqa: BLE001 - the other rows do not depend on this one
                rows[run.name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    peer = next((row["wall_ms"] for row in rows.values() if "wall_ms" in row), None)
    return {
        name: row | ({"wall_ratio": row["wall_ms"] / peer} if "wall_ms" in row else {}) for name, row in rows.items()
    }


@contextmanager
def short_goodbyes() -> Iterator[None]:
    """Let torch wait only 0.1 s instead of 5 s until a data worker ends.

    Each training in this process leaves a data worker that the garbage collector ends. The collector first closes the
    queue through which the worker would be stopped, so torch always waits the full time.
    """
    workers = torch.utils.data._utils
    before, workers.MP_STATUS_CHECK_INTERVAL = workers.MP_STATUS_CHECK_INTERVAL, 0.1
    try:
        yield
    finally:
        gc.collect()  # collect the workers while the short wait is active
        workers.MP_STATUS_CHECK_INTERVAL = before


def measure_run(words: Sequence[str], size: Size, device: torch.device, updates: int, seed: int) -> dict[str, Any]:
    """Run ``fairseq-train`` once, without validation and checkpoints."""
    each = max(1, updates // INTERVALS)
    fixed = ["--source-lang", "src", "--target-lang", "tgt", "--batch-size", str(size.batch_size), "--seed", str(seed)]
    fixed += ["--max-update", str(updates), "--log-format", "json", "--log-interval", str(each)]
    fixed += ["--disable-validation", "--no-save", "--distributed-world-size", "1", "--save-dir", f"{words[0]}/saved"]
    parser: ArgumentParser = options.get_training_parser()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=[*words, *fixed]))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with logged_statistics() as logged:
        distributed_utils.call_main(cfg, train.main)
    timed = logged[1:]
    row = {"words_per_s": statistics.median(float(entry["wps"]) for entry in timed)}
    row["wall_ms"] = 1e3 * statistics.median(1 / float(entry["ups"]) for entry in timed)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else None
    return row | {"peak_mib": peak}


@contextmanager
def logged_statistics() -> Iterator[list[dict[str, Any]]]:
    """Collect the statistics that fairseq logs in this context."""
    statistics_so_far: list[dict[str, Any]] = []

    class Reader(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "train_inner":
                statistics_so_far.append(json.loads(record.getMessage()))

    reader, root = Reader(), logging.getLogger()
    before = root.manager.disable, root.level
    logging.disable(logging.NOTSET)
    root.setLevel(logging.INFO)
    root.addHandler(reader)
    try:
        yield statistics_so_far
    finally:
        root.removeHandler(reader)
        root.setLevel(before[1])
        logging.disable(before[0])


def write_data(folder: Path, size: Size, batches: int, seed: int) -> None:
    """Write binarised pairs for ``batches`` batches, in the format of ``fairseq-preprocess``."""
    write_dictionaries(folder, size.vocabulary)
    made = make_batches(size, batches, seed)
    for language, rows in (
        ("src", (row for batch in made for row in batch["net_input"]["src_tokens"])),
        ("tgt", (row for batch in made for row in batch["target"])),
    ):
        prefix = str(folder / f"train.src-tgt.{language}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=size.vocabulary)
        for row in rows:
            builder.add_item(row)
        builder.finalize(f"{prefix}.idx")
