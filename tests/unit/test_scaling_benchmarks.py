"""Test the benchmarks of several processes and of data at toy size, without measuring time."""

import csv
import importlib
import json
import sys
from argparse import Namespace
from dataclasses import replace

import duckdb
import pytest
import torch
from fairseq.data import indexed_dataset

from tests.unit.test_benchmarks import ROOT, scripts  # noqa: F401 - an autouse fixture


@pytest.fixture
def workload():
    return importlib.import_module("workload")


# --- scaling --------------------------------------------------------------------------------------------------------


@pytest.fixture
def scaling():
    return importlib.import_module("scaling")


@pytest.fixture
def group(tmp_path):
    """Create a process group with only this process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_a_shared_step_is_the_step(workload, scaling, group, tmp_path, monkeypatch):
    """The expected parameters come from a plain step of a single process on the whole batch."""
    monkeypatch.setattr(scaling, "PROCESSES", 1)
    size = replace(workload.TOY, dropout=0.0)
    workload.write_dictionaries(tmp_path, size.vocabulary)
    batches = workload.make_batches(size, 1, seed=1)
    for variant in scaling.VARIANTS:
        plain, shared = (
            kind(variant, size, tmp_path, batches, seed=1) for kind in (workload.TrainingStep, scaling.SharedStep)
        )
        start = plain.model.state_dict()["decoder.embed_tokens.weight"].clone()
        assert set(shared(0)) == {*plain(0), scaling.EXCHANGE}
        found = shared.model.state_dict()
        for name, parameter in plain.model.state_dict().items():
            torch.testing.assert_close(found[name], parameter, rtol=0, atol=0)
        assert not torch.equal(found["decoder.embed_tokens.weight"], start)


def test_two_processes_have_half_of_the_sentences_each(workload, scaling, monkeypatch):
    (batch,) = workload.make_batches(workload.TOY, 1, seed=1)
    parts = []
    for rank in range(2):
        monkeypatch.setattr(scaling.distributed, "get_rank", lambda rank=rank: rank)
        parts.append(scaling.part_of(batch))
    assert [part["ntokens"] for part in parts] == [batch["ntokens"] // 2] * 2
    for rows in (batch["target"], *batch["net_input"].values()):
        assert len(rows) == workload.TOY.batch_size
    together = torch.stack([part["target"] for part in parts], dim=1).flatten(0, 1)
    assert torch.equal(together, batch["target"])


def test_speed_up_and_exchange(scaling):
    """One process takes 4 s per step, and two processes take 2.5 s, including 0.5 s for the exchange."""
    walls = {scaling.ALONE: 4.0, scaling.THREADS: 2.0, scaling.TOGETHER: 2.5}
    timings = {way: [scaling.harness.Timing(1.0, wall, {scaling.EXCHANGE: 0.5})] * 2 for way, wall in walls.items()}
    row = scaling.summarise({**timings, "parameters": 2**18})
    assert (row["speed_up"], row["speed_up_of_threads"], row["exchange_share"]) == (1.6, 2.0, 0.2)
    assert (row["gradient_mib"], row["exchange_ms"], row["wall_ms"][scaling.ALONE]) == (1.0, 500.0, 4000.0)


def test_the_table_of_scaling_is_written_with_its_command(scaling, monkeypatch, tmp_path):
    walls = {scaling.ALONE: 4.0, scaling.THREADS: 2.0, scaling.TOGETHER: 2.5}
    timings = {way: [scaling.harness.Timing(1.0, wall, {scaling.EXCHANGE: 0.5})] * 2 for way, wall in walls.items()}
    row = scaling.summarise({**timings, "parameters": 2**18})
    asked = []
    monkeypatch.setattr(scaling, "measure", lambda words: asked.append(words) or {"a model": row})
    scaling.main(["--quick", "--batch-size", "8", "--output", str(tmp_path / "scaling")])
    assert asked[0][:3] == ["--quick", "--batch-size", "8"]
    text = (tmp_path / "scaling.md").read_text()
    assert "| a model | 262,144 | 1.0 | 4000 ms | 2000 ms | 2500 ms | 500 ms, 20% | 1.60 |" in text
    assert "Command: `python benchmarks/scaling.py --quick --batch-size 8`" in text and "batch 8," in text


@pytest.mark.slow
def test_two_real_processes_are_measured(scaling, tmp_path):
    scaling.main(["--quick", "--output", str(tmp_path / "scaling")])
    rows = json.loads((tmp_path / "scaling.json").read_text())["rows"]
    assert list(rows) == [variant.name for variant in scaling.VARIANTS]
    for row in rows.values():
        assert all(len(times) == 2 and min(times) > 0 for times in row["all_wall_ms"].values())
        assert 0 < row["exchange_ms"] < row["wall_ms"][scaling.TOGETHER]


# --- bytes of an update ---------------------------------------------------------------------------------------------


@pytest.fixture
def update_bytes():
    return importlib.import_module("update_bytes")


def test_the_page_on_scaling_has_the_table_of_characters(update_bytes):
    """The linear output layer has V d + V parameters, and the score general has d^2 instead."""
    words, width = 4_000, 512
    numbers = update_bytes.counted(update_bytes.WORDS[words], words)
    seq2seq, wean = numbers.values()
    size = words + update_bytes.SPECIALS
    assert seq2seq - wean == size * width + size - width**2
    assert "\n".join(update_bytes.render(words, numbers)) in (ROOT / "docs/scaling.md").read_text()


@pytest.mark.slow
def test_the_page_on_scaling_has_the_table_of_words_and_the_estimate(update_bytes):
    numbers = update_bytes.counted(update_bytes.WORDS[50_000], 50_000)
    page = (ROOT / "docs/scaling.md").read_text()
    assert "\n".join(update_bytes.render(50_000, numbers)) in page
    assert "\n".join(update_bytes.estimate(numbers)) in page


def test_every_arch_family_has_its_bytes(update_bytes):
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY

    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq")}
    listed = {ARCH_MODEL_NAME_REGISTRY[model.arch] for models in update_bytes.WORDS.values() for model in models}
    assert {ARCH_MODEL_NAME_REGISTRY[arch] for arch in ours} <= listed


def test_the_estimate_is_the_formula_of_a_ring(update_bytes):
    """10^9 gradients in float32 are 4 GB.

    Between machines 2 x 15 / 16 of them are sent at 12.5 GB/s, and within a machine 2 x 7 / 8 at 300 GB/s.
    """
    assert update_bytes.exchange_ms(10**9, 16, 12.5) == pytest.approx(600)
    assert update_bytes.exchange_ms(10**9, 8, 12.5) == pytest.approx(7 / 300 * 1e3)


# --- data path ------------------------------------------------------------------------------------------------------


@pytest.fixture
def data_path():
    return importlib.import_module("data_path")


def test_generated_text_has_the_lines_lengths_and_frequencies_asked_for(data_path, tmp_path):
    splits = data_path.write_text(tmp_path, pairs=3000, words=50)
    assert [name for name, _ in splits] == ["train", "valid", "test"]
    for language, (shortest, longest) in data_path.LENGTHS.items():
        sizes = [len(line.split()) for line in (tmp_path / f"train.{language}").read_text().splitlines()]
        assert (len(sizes), min(sizes), max(sizes)) == (3000, shortest, longest)
        assert len((tmp_path / f"test.{language}").read_text().splitlines()) == data_path.HELD_OUT
    words = (tmp_path / "train.src").read_text().split()
    # By Zipf's law, the second most frequent word is half as frequent as the first.
    assert words.count("w1") / words.count("w0") == pytest.approx(0.5, abs=0.05)
    assert set(words) == {f"w{number}" for number in range(50)}


def test_every_table_has_the_pairs_of_the_text(data_path, tmp_path):
    """The test reads the tables with csv, json and DuckDB, independently of the package."""
    data_path.write_text(tmp_path, pairs=30, words=50)
    paths = data_path.write_tables(tmp_path)
    with paths["csv"].open(newline="", encoding="utf-8") as file:
        rows = [(row["source"], row["target"]) for row in csv.DictReader(file)]
    objects = [json.loads(line) for line in paths["jsonl"].read_text().splitlines()]
    assert [(row["source"], row["target"]) for row in objects] == rows
    assert duckdb.sql(f"SELECT source, target FROM '{paths['parquet']}'").fetchall() == rows
    plain = [source.replace(' "and", ', " ") for source, _ in rows]
    assert plain == (tmp_path / "train.src").read_text().splitlines()
    assert sum('"' in source for source, _ in rows) == 10


def test_a_preparation_that_fails_is_an_error_with_its_own_words(data_path):
    row = data_path.prepare([sys.executable, "-c", "import time; time.sleep(0.5)"], pairs=100)
    assert row["wall_s"] >= 0.5  # seconds are rounded to one decimal
    assert row["pairs_per_s"] == pytest.approx(100 / row["wall_s"], rel=0.15)
    with pytest.raises(SystemExit, match="no such text"):
        data_path.prepare([sys.executable, "-c", "import sys; sys.exit('no such text')"], pairs=1)


def test_same_files_are_the_same_bytes(data_path, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "train.src-tgt.src.bin").write_bytes(b"words")
        (folder / "preprocess.log").write_text(folder.name)  # log files are not compared
    assert data_path.same_files(one, other)
    (other / "train.src-tgt.src.bin").write_bytes(b"wordz")
    assert not data_path.same_files(one, other)
    (other / "train.src-tgt.src.bin").unlink()
    assert not data_path.same_files(one, other) and not data_path.same_files(other, one)


def test_loading_is_a_share_of_the_step(data_path, workload, monkeypatch, tmp_path):
    """Both tasks must load the same batches as the training step."""
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    size = replace(workload.TOY, batch_size=4)
    workload.write_dictionaries(tmp_path, size.vocabulary)
    for language, length in (("src", 5), ("tgt", 7)):
        prefix = str(tmp_path / f"train.src-tgt.{language}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=size.vocabulary)
        for number in range(38):
            builder.add_item(torch.tensor([4 + number] * (length - 1) + [2]))
        builder.finalize(f"{prefix}.idx")
    args = Namespace(seed=1, rounds=2, warmup=1)
    summary = data_path.measure_loading(tmp_path, size, 1, args)
    step = summary[data_path.STEP.name]
    for task in data_path.TASKS:
        row = summary[task]
        assert row["batches"] == 10  # 38 pairs in batches of 4, including the last one
        assert row["share"] == data_path.share_of_step(row, step["wall_ms"]) > 0


def test_the_share_has_the_batch_and_its_part_of_the_epoch(data_path):
    """Loading a batch takes 1 %, and planning takes 10 s for 1,000 batches, which is 10 ms or 2 % of 500 ms."""
    assert data_path.share_of_step({"wall_ratio": 0.01, "epoch_s": 10.0, "batches": 1000}, 500.0) == 0.03


@pytest.mark.parametrize(
    ("share", "same", "peak", "words", "status"),
    [
        (0.019, True, 299, [], 0),
        (0.021, True, 299, [], 1),
        (0.019, False, 299, [], 1),
        (0.019, True, 301, [], 1),
        (0.021, True, 301, ["--quick"], 0),
    ],
)
def test_a_broken_limit_is_the_exit_status(data_path, monkeypatch, tmp_path, share, same, peak, words, status):
    prepared = dict.fromkeys(("pairs", "cpu_s", "wall_s", "pairs_per_s", "pairs_per_cpu_s", "peak_mib"), peak)
    row = {"start_s": 1.0, "epoch_s": 1.0, "batches": 10, "wall_ms": 1.0, "cpu_ms": 1.0, "share": share}
    loading = {**dict.fromkeys(data_path.TASKS, row), data_path.STEP.name: {"wall_ms": 500.0}}
    small = {**loading, "paraphrase": row | {"share": 0.001}}
    monkeypatch.setattr(data_path, "write_text", lambda *args: [])
    monkeypatch.setattr(data_path, "write_tables", lambda folder: dict.fromkeys(data_path.TABLES, folder))
    monkeypatch.setattr(data_path, "prepare", lambda *args: prepared)
    monkeypatch.setattr(data_path, "same_files", lambda *args: same)
    monkeypatch.setattr(
        data_path, "measure_loading", lambda data, size, threads, args: loading if threads == 2 else small
    )
    assert data_path.main([*words, "--output", str(tmp_path / "data_path")]) == status
    text = (tmp_path / "data_path.md").read_text()
    assert all(f"| paraphrase | 1.0 | 1.0 | 1.0 | 1.0 | {value:.2%} |" in text for value in (0.001, share))
    assert "Limit: 2%." in text
    assert "Limit: 300 MiB." in text
    assert ("DIFFERENT files" in text) == (not same)


@pytest.mark.slow
def test_the_whole_data_path_runs(data_path, tmp_path):
    before = torch.get_num_threads()
    assert data_path.main(["--quick", "--output", str(tmp_path / "data_path")]) == 0
    torch.set_num_threads(before)
    data = json.loads((tmp_path / "data_path.json").read_text())
    assert data["same_files"] and list(data["prepare"]) == [data_path.OURS, data_path.PEER]
    assert data["prepare"][data_path.OURS]["pairs"] == 2000
