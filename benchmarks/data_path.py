"""Measure the speed of preparing and binarising a million pairs, and the cost of loading them per training step.

    python benchmarks/data_path.py              a million generated pairs, two workers: about fifteen minutes
    python benchmarks/data_path.py --quick      a toy size, as a smoke test. Ignore its numbers

Two results are limited. Loading in the training process may take at most 2% of the time of a step, and drawing splits
from a table may need at most 300 MiB. The exit status is 1 if a limit is exceeded, or if the prepared data differs from
the output of fairseq-preprocess alone for the same text.
"""

import argparse
import csv
import json
import logging
import shlex
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import duckdb  # noqa: E402
import harness  # noqa: E402 - modules of this folder, independent of the working directory
import numpy as np  # noqa: E402
import torch  # noqa: E402
from fairseq import options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from preprocess_lcsts import PROBE  # noqa: E402
from training_step import FUSED, shown  # noqa: E402
from workload import Size, TrainingStep, Variant, use_plugin  # noqa: E402

PACKAGES = ("torch", "fairseq-fixed", "numpy")
PAIRS, HELD_OUT = 1_000_000, 1_000
WORDS = 50_000
LENGTHS = {"src": (14, 34), "tgt": (10, 30)}  # in words. With the end symbol, the averages are 25 and 21 tokens
OURS, PEER = "preprocess/parallel_text.py --binarise", "fairseq-preprocess alone"
STEP = Variant("wean_lstm --optimizer fused_adam", "wean_lstm", "query_embedding", FUSED)
TASKS = {"paraphrase": (), "translation": ("--required-batch-size-multiple", "1")}
LIMIT = 0.02
TABLES = ("csv", "jsonl", "parquet")
MOST_MIB = 300  # maximum memory in MiB for drawing splits from a table
PEAK_NOTE = "The peak is the peak of the largest process."


def write_side(path: Path, pairs: int, words: int, lengths: tuple[int, int], seed: int) -> None:
    """Write random sentences whose word frequencies follow Zipf's law."""
    generator = np.random.default_rng(seed)
    likely = np.cumsum(1.0 / np.arange(1, words + 1))
    spelt = np.array([f"w{number}" for number in range(words)], dtype=object)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, 10_000):
            sizes = generator.integers(*lengths, size=min(10_000, pairs - start), endpoint=True)
            ranks = np.searchsorted(likely, generator.random(int(sizes.sum())) * likely[-1])
            for line in np.split(spelt[ranks], np.cumsum(sizes)[:-1]):
                file.write(" ".join(line) + "\n")


def write_text(folder: Path, pairs: int, words: int) -> list[tuple[str, Path]]:
    """Write the train, valid and test splits. Return their names and their paths without suffixes."""
    sizes = {"train": pairs, "valid": min(HELD_OUT, pairs), "test": min(HELD_OUT, pairs)}
    for number, (split, size) in enumerate(sizes.items()):
        for side, (language, lengths) in enumerate(LENGTHS.items()):
            write_side(folder / f"{split}.{language}", size, words, lengths, seed=2 * number + side)
    return [(split, folder / split) for split in sizes]


def command(name: str, splits: Sequence[tuple[str, Path]], folder: Path, workers: int) -> list[str]:
    """Return the command that writes ``folder``/bin, as a user would type it."""
    if name == PEER:
        prefixes = [word for split, path in splits for word in (f"--{split}pref", str(path))]
        preprocess = [str(Path(sys.executable).parent / "fairseq-preprocess"), "--joined-dictionary", *prefixes]
        preprocess += ["--source-lang", "src", "--target-lang", "tgt", "--destdir", str(folder / "bin")]
        return [*preprocess, "--workers", str(workers)]
    files = [word for split, path in splits for word in (f"--{split}", f"{path}.src", f"{path}.tgt")]
    script = [sys.executable, str(ROOT / "preprocess/parallel_text.py"), "--output", str(folder / "text"), *files]
    return [*script, "--binarise", str(folder / "bin"), "--workers", str(workers)]


def write_tables(folder: Path) -> dict[str, Path]:
    """Write the training pairs as a table in each format, with a number as the first cell of each row."""
    paths = {name: folder / f"pairs.{name}" for name in TABLES}
    with (
        (folder / "train.src").open(encoding="utf-8") as sources,
        (folder / "train.tgt").open(encoding="utf-8") as targets,
        paths["csv"].open("w", encoding="utf-8", newline="") as table,
        paths["jsonl"].open("w", encoding="utf-8") as objects,
    ):
        rows = csv.writer(table)
        rows.writerow(["id", "source", "target"])
        for number, lines in enumerate(zip(sources, targets, strict=True)):
            # Commas and quotation marks in every third sentence force CSV to quote these sentences.
            source, target = (line.strip().replace(" ", ' "and", ', number % 3 == 0) for line in lines)
            rows.writerow([number, source, target])
            objects.write(json.dumps({"id": number, "source": source, "target": target}) + "\n")
    duckdb.sql(f"COPY (FROM read_json('{paths['jsonl']}')) TO '{paths['parquet']}' (FORMAT parquet)")
    return paths


def table_command(table: Path) -> list[str]:
    """Return the command that draws splits from a table, as a user would type it."""
    script = [sys.executable, str(ROOT / "preprocess/own_pairs.py"), "--data", str(table), "--unit", "words"]
    return [*script, "--columns", "source,target", "--output", f"{table}.text"]


def prepare(line: Sequence[str], pairs: int) -> dict[str, Any]:
    """Run a command that prepares ``pairs``.

    Return its seconds, its rate and the peak memory of its largest process.
    """
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", PROBE, *line], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{shlex.join(line)} failed:\n{done.stderr[-2000:]}")
    cpu, peak_kib = map(float, done.stdout.split())
    return {
        "pairs": pairs,
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "pairs_per_s": round(pairs / wall),
        "pairs_per_cpu_s": round(pairs / cpu),
        "peak_mib": round(peak_kib / 1024, 1),
    }


def same_files(expected: Path, other: Path) -> bool:
    """Return True if two folders have the same binary data and dictionaries."""
    names, others = (
        {path.name for path in folder.iterdir() if path.suffix in (".bin", ".idx", ".txt")}
        for folder in (expected, other)
    )
    same = bool(names) and names == others
    return same and all((expected / name).read_bytes() == (other / name).read_bytes() for name in names)


class Loader:
    """Loads the batches of a training in the same way as fairseq's trainer. Each call loads the next batch.

    Args:
        task: name of the task.
        data: folder with the prepared data.
        batch_size: number of sentences in a batch.
        seed: seed of the order of batches.

    Attributes:
        start_s: seconds for loading and checking the data, which happens once.
        epoch_s: seconds for planning an epoch's batches and loading the first one.
        batches: number of batches of one epoch.
        latest: the batch that was loaded last.
    """

    def __init__(self, task: str, data: Path, batch_size: int, seed: int) -> None:
        words = [str(data), "--arch", STEP.arch, "--task", task, *TASKS[task], "--source-lang", "src"]
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=[*words, "--target-lang", "tgt"])
        cfg = convert_namespace_to_omegaconf(args)
        start = time.perf_counter()
        self.task = tasks.setup_task(cfg.task)
        self.task.load_dataset("train")
        self.start_s = time.perf_counter() - start
        start = time.perf_counter()
        self.iterator = self._epoch(cfg.dataset.required_batch_size_multiple, batch_size, seed)
        self.latest: dict[str, Any] = {}
        self(0)
        self.epoch_s = time.perf_counter() - start

    def _epoch(self, multiple: int, batch_size: int, seed: int) -> Iterator[dict[str, Any]]:
        epochs = self.task.get_batch_iterator(
            self.task.dataset("train"),
            max_sentences=batch_size,
            max_positions=self.task.max_positions(),
            ignore_invalid_inputs=True,
            required_batch_size_multiple=multiple,
            seed=seed,
            num_workers=0,
            data_buffer_size=0,
        )
        iterator = epochs.next_epoch_itr(shuffle=True)
        self.batches = len(epochs)
        return iter(iterator)

    def __call__(self, index: int) -> dict[str, float]:
        """Load and collate the next batch, and process its words as the task does before each step."""
        self.latest = next(self.iterator)
        if hasattr(self.task, "map_slots"):  # the task of this project, which turns unknown words into slots
            self.task.map_slots(self.latest)
        return {}

    def describe(self) -> dict[str, float]:
        """Return the seconds spent outside the calls, and the number of batches."""
        return {"start_s": round(self.start_s, 2), "epoch_s": round(self.epoch_s, 2), "batches": self.batches}


def measure_loading(data: Path, size: Size, threads: int, args: Namespace) -> dict[str, Any]:
    """Time loading by our task and by fairseq's task, in turn with training steps on the same batches."""
    torch.set_num_threads(threads)
    loaders = {task: Loader(task, data, size.batch_size, args.seed) for task in TASKS}
    ours = loaders["paraphrase"]
    train = TrainingStep(STEP, size, data, [ours.latest], args.seed)

    def step(index: int) -> dict[str, float]:
        train.batches = [ours.latest]
        return train(index)

    steps: dict[str, harness.Step] = {**loaders, STEP.name: step}
    summary = harness.summarise(harness.interleave(steps, args.rounds, args.warmup), STEP.name)
    for task, loader in loaders.items():
        row = summary[task] | loader.describe()
        row["share"] = share_of_step(row, summary[STEP.name]["wall_ms"])
        summary[task] = row
    return summary


def share_of_step(row: Mapping[str, float], step_ms: float) -> float:
    """Return the time of loading one batch and of planning its part of the epoch, as a share of the time of a step."""
    return round(row["wall_ratio"] + row["epoch_s"] * 1e3 / row["batches"] / step_ms, 5)


def report(data: dict[str, Any]) -> list[str]:
    """Return the results as Markdown."""
    header = ["command", "pairs", "CPU s", "wall s", "**pairs / s**", "pairs / CPU s", "peak MiB"]
    rows, tables = (
        [[name, *(f"{value:,}" for value in row.values())] for name, row in data[part].items()]
        for part in ("prepare", "tables")
    )
    lines = ["# Data path", "", *harness.run_lines(data["run"]), "", "## Table to splits", ""]
    note = "Format and dialect are recognised, duplicates found, the splits drawn, and words kept unchanged."
    lines += [*harness.table(header, tables), "", f"{note} Limit: {MOST_MIB} MiB.", "", "## Text to binary data", ""]
    same = "the same files" if data["same_files"] else "DIFFERENT files"
    lines += [*harness.table(header, rows), "", f"{data['workers']} workers. {PEAK_NOTE} Both write {same}.", ""]
    for threads, loading in data["loading"].items():
        lines += _loading_section(threads, loading, data["size"]["batch_size"])
    note = (
        "The share covers loading a batch, with its part of making an epoch's batches. Everything happens in the "
        f"process that trains, without --num-workers. Limit: {LIMIT:.0%}."
    )
    return [*lines, note]


def _loading_section(threads: str, loading: Mapping[str, Mapping[str, Any]], batch_size: int) -> list[str]:
    step = loading[STEP.name]
    header = ["task", "load and check, s", "batches of an epoch, s", "a batch, ms", "its CPU ms", "**share of a step**"]
    rows = [
        [name, row["start_s"], row["epoch_s"], row["wall_ms"], row["cpu_ms"], f"{row['share']:.2%}"]
        for name, row in loading.items()
        if name != STEP.name
    ]
    note = (
        f"A step of `{STEP.name}` on the same batches of {batch_size} pairs takes {step['wall_ms']:.0f} ms; an epoch "
        f"has {loading['paraphrase']['batches']:,} batches."
    )
    return [f"## Batches for training, threads of the step: {threads}", "", *harness.table(header, rows), "", note, ""]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"training pairs (default: {PAIRS})")
    parser.add_argument("--workers", type=int, default=2, help="processes that binarise (default: 2)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the training step (default: 1 2)")
    parser.add_argument("--rounds", type=int, default=15, help="batches that count (default: 15)")
    parser.add_argument("--warmup", type=int, default=3, help="batches before (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, dropout and the order (default: 1)")
    parser.add_argument("--quick", action="store_true", help="2,000 pairs of a toy size")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/data_path", help="where .json and .md go"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the results."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(words)
    use_plugin()
    size = Size(vocabulary=300, dim=8, batch_size=4) if args.quick else Size(vocabulary=WORDS)
    if args.quick:
        args.pairs, args.rounds, args.warmup = 2000, 2, 1
    data: dict[str, Any] = {
        "run": harness.describe_run(shlex.join(["python", "benchmarks/data_path.py", *shown(words)]), PACKAGES),
        "size": {"batch_size": size.batch_size, "words": size.vocabulary},
        **{name: getattr(args, name) for name in ("workers", "threads", "rounds", "warmup", "seed")},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        splits = write_text(folder, args.pairs, size.vocabulary)
        places = {OURS: folder / "ours", PEER: folder / "peer"}
        lines = {system: command(system, splits, place, args.workers) for system, place in places.items()}
        data["prepare"] = {system: prepare(line, args.pairs) for system, line in lines.items()}
        data["tables"] = {
            f"preprocess/own_pairs.py, {table}": prepare(table_command(path), args.pairs)
            for table, path in write_tables(folder).items()
        }
        data["same_files"] = same_files(*(place / "bin" for place in places.values()))
        data["loading"] = {
            str(threads): measure_loading(places[OURS] / "bin", size, threads, args) for threads in args.threads
        }
    text = report(data)
    harness.write_results(args.output, data, text)
    print("\n".join(text))
    share = max(loading["paraphrase"]["share"] for loading in data["loading"].values())
    peak = max(row["peak_mib"] for row in data["tables"].values())
    broken = not data["same_files"] or share > LIMIT or peak > MOST_MIB
    return int(broken and not args.quick)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    sys.exit(main())
