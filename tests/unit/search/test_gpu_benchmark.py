"""Test the benchmark for a GPU. One call measures every table, even if one of them fails. No test measures time."""

import importlib
import json
import math
import re
import sys
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ("harness", "workload", "training_step", "decoding", "granularity", "gpu_training", "gpu")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "DEVICE", torch.device("cpu"))
    monkeypatch.setattr(module.OnDevice, "device", torch.device("cpu"))
    return module


@pytest.fixture
def measured(gpu, monkeypatch):
    """Replace the measurement, and return the titles of the measured tables and of the tables that fail."""
    titles = SimpleNamespace(asked=[], broken={"Training step", "Output layer, float32"})

    def measure_table(title, args):
        titles.asked.append(title)
        if title in titles.broken:
            raise RuntimeError("benchmarks/gpu.py failed:\nTraceback\nOutOfMemoryError: too large")
        return {"one": {"wall_ms": 1.0, "wall_ratio": 1.0}}

    monkeypatch.setattr(gpu, "measure_table", measure_table)
    return titles


def test_a_table_that_fails_takes_no_other_along(gpu, measured, tmp_path):
    gpu.main(["--quick", "--output", str(tmp_path / "gpu")])
    assert measured.asked == list(gpu.TARGETS)
    tables = json.loads((tmp_path / "gpu.json").read_text())["tables"]
    assert list(tables) == list(gpu.TARGETS)
    assert {title for title, rows in tables.items() if gpu.FAILED in rows} == measured.broken
    text = (tmp_path / "gpu.md").read_text()
    assert f"| {gpu.FAILED} | RuntimeError: OutOfMemoryError: too large |" in text
    assert all(f"Target: {target}." in text for target in gpu.TARGETS.values())


def test_what_was_measured_is_written_before_the_next_table_begins(gpu, monkeypatch, tmp_path):
    """If the connection to the machine is lost, finished tables are kept, and the next call measures the others."""

    def measure_table(title, args):
        if title == "Training step":
            raise KeyboardInterrupt
        return {"one": {"wall_ms": 1.0, "wall_ratio": 1.0}}

    monkeypatch.setattr(gpu, "measure_table", measure_table)
    with pytest.raises(KeyboardInterrupt):
        gpu.main(["--quick", "--output", str(tmp_path / "gpu")])
    done = list(gpu.TARGETS)[: list(gpu.TARGETS).index("Training step")]
    assert list(json.loads((tmp_path / "gpu.json").read_text())["tables"]) == done


def required(name: str, found: set[str] | None = None) -> set[str]:
    """Return the names of an installed package and of all its dependencies."""
    found = set() if found is None else found
    if name not in found:
        found.add(name)
        for line in requires(name) or ():
            asked = Requirement(line)
            if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                required(canonicalize_name(asked.name), found)
    return found


def test_every_package_to_carry_is_named(gpu):
    """The expected names come from the metadata of the installed packages. Three of them are build tools.

    Torchaudio is not needed either.
    """
    needed = required("fairseq-fixed") - required("torch") - {"cffi", "cython", "pycparser", "torchaudio"}
    named = gpu.__doc__.partition("carry these wheels:")[2].partition("to be compared with")[0]
    named = {canonicalize_name(name) for name in re.findall(r"[a-z][\w-]+[a-z0-9]", named)}
    assert needed | {"sacremoses", "subword-nmt"} <= named


def test_resuming_measures_what_failed_alone(gpu, measured, tmp_path):
    words = ["--quick", "--output", str(tmp_path / "gpu")]
    gpu.main(words)
    failed, measured.broken, measured.asked = measured.broken, set(), []
    gpu.main([*words, "--resume"])
    assert set(measured.asked) == failed
    tables = json.loads((tmp_path / "gpu.json").read_text())["tables"]
    assert list(tables) == list(gpu.TARGETS)
    assert not any(gpu.FAILED in rows for rows in tables.values())
    with pytest.raises(SystemExit, match="leave out --resume"):
        gpu.main([*words, "--resume", "--seed", "2"])


def test_without_a_gpu_every_table_is_said_not_to_be_measured(gpu, measured, tmp_path):
    with pytest.raises(SystemExit, match="There is no GPU here"):
        gpu.main(["--output", str(tmp_path / "x" / "gpu")])
    path = tmp_path / "x" / "gpu.md"
    rows = [line for line in path.read_text().splitlines() if line.endswith(f"| {gpu.NOT_MEASURED} |")]
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == list(gpu.TARGETS)
    assert not measured.asked
    path.write_text("measured elsewhere")
    with pytest.raises(SystemExit):
        gpu.main(["--output", str(tmp_path / "x" / "gpu")])
    assert path.read_text() == "measured elsewhere"


def test_the_process_of_a_table_answers_with_its_rows(gpu, monkeypatch, tmp_path, capsys):
    asked = []
    child = lambda script, words, limit: asked.append((script.name, words, limit)) or {"a": {}}  # noqa: E731
    monkeypatch.setattr(gpu.harness, "run_child", child)
    monkeypatch.setattr(gpu, "DEVICE", torch.device("cuda"))
    assert gpu.try_table("Beam search", ["--quick"], None, 7.0) == {"a": {}}
    assert asked == [("gpu.py", ["--quick", "--table", "Beam search"], 7.0)]
    assert "--resume" in gpu.try_table("Beam search", [], None, 0.0)[gpu.FAILED]["error"]
    monkeypatch.setattr(gpu, "DEVICE", torch.device("cpu"))
    gpu.main(asked[0][1])
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    decoding = sys.modules["decoding"]
    assert list(rows) == [decoding.PEER, decoding.STOCK, decoding.FAST, decoding.HALF, decoding.FEW, decoding.CONCAT]
    assert rows[decoding.PEER]["wall_ratio"] == 1.0


def test_a_table_of_which_nothing_runs_says_why_for_each_row(gpu):
    """This happens if the GPU does not support bfloat16."""

    def broken(query, weight, target):
        raise ValueError("needs another machine")

    args = gpu.build_parser().parse_args(["--rounds", "1", "--warmup", "0"])
    rows = gpu.measure_losses({"one": broken, "other": broken}, gpu.TOY, torch.float32, args)
    assert list(rows) == ["one", "other"]
    assert all(row == {"error": "ValueError: needs another machine"} for row in rows.values())


def largest_operand(step):
    """Return the number of elements of the largest tensor that an operation of a step reads."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        step(0)
    shapes = [shape for event in profile.events() for shape in event.input_shapes]
    return max(math.prod(shape) for shape in shapes if all(isinstance(size, int) for size in shape))


@pytest.mark.skipif(not hasattr(torch.nn, "LinearCrossEntropyOptions"), reason="this torch has no such loss")
def test_the_loss_of_torch_is_the_one_that_never_materialises_the_scores(gpu):
    """Without its options, torch's loss would use its reference form, which computes all scores at once."""
    size = replace(gpu.TOY, batch_size=70)  # 490 tokens are more than a chunk
    losses = gpu.output_losses()
    rows = [gpu.TORCH, f"{gpu.TORCH}, chunks of {gpu.TORCH_CHUNK}"]
    steps = {name: gpu.LossStep(losses[name], size, torch.float32, 1) for name in (gpu.MATERIALISED, *rows)}
    largest = {name: largest_operand(step) for name, step in steps.items()}
    assert largest[gpu.MATERIALISED] == 490 * size.vocabulary
    assert largest[rows[0]] < largest[rows[1]] == gpu.TORCH_CHUNK * size.vocabulary
    expected = steps[gpu.MATERIALISED].numbers()
    for name in rows:
        torch.testing.assert_close(steps[name].numbers(), expected, rtol=1e-5, atol=1e-5)
