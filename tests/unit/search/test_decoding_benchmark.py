"""Test the benchmark of beam search at toy size. It compares the documented systems. No test measures time."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from tests.memoised_options import memoise_options

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def decoding(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in ("harness", "workload", "training_step", "decoding"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("decoding")
    module.use_plugin()
    memoise_options(monkeypatch)
    monkeypatch.setattr(module, "LENGTHS", (2, 4))
    before = torch.get_num_threads()
    yield module
    torch.set_num_threads(before)


def test_it_compares_the_searches_and_finds_the_same_outputs(decoding, tmp_path):
    decoding.main(["--quick", "--threads", "1", "--output", str(tmp_path / "decoding")])
    data = json.loads((tmp_path / "decoding.json").read_text())
    assert list(data["time"]["1"]) == [variant.name for variant in decoding.VARIANTS]
    assert data["time"]["1"][decoding.PEER]["cpu_ratio"] == 1.0
    assert list(data["single"]) == [variant.name for variant in decoding.SINGLE_VARIANTS]
    assert list(data["families"]) == [family.name for family in decoding.FAMILIES]
    assert all(list(row) == ["2", "4"] for row in data["lengths"].values())
    assert data["outputs"]["identical"] == data["outputs"]["sentences"] == decoding.TOY.batch_size
    text = (tmp_path / "decoding.md").read_text()
    assert "decoding.py --quick" in text and str(tmp_path) not in text


def test_every_variant_searches_as_its_name_says_and_writes_as_much(decoding):
    families = [*decoding.FAMILIES, decoding.in_half(decoding.FAMILIES[0]), decoding.in_half(decoding.FAMILIES[-1])]
    variants = dict.fromkeys((*decoding.VARIANTS, *decoding.SINGLE_VARIANTS, *families))
    with decoding.built_steps(variants, decoding.TOY, 1, 1, decoding.SearchStep) as steps:
        kinds = {name: getattr(step.generator, "is_fast", False) for name, step in steps.items()}
        assert [name for name, fast in kinds.items() if not fast] == [
            decoding.PEER,
            decoding.STOCK,
            f"{decoding.CONCAT} --stock-search",
        ]
        for name, step in steps.items():
            assert (getattr(step.generator, "factors", "") == "bf16") == name.endswith("--bf16-scores")
            step(0)
            lengths = {len(one["tokens"]) for hypotheses in step.found for one in hypotheses}
            assert lengths == {decoding.TOY.target_length}
        most_frequent = decoding.TOY.vocabulary // 10 + steps[decoding.FEW].task.target_dictionary.nspecial
        written = torch.cat([one["tokens"] for hypotheses in steps[decoding.FEW].found for one in hypotheses])
        assert written.max() < most_frequent <= decoding.TOY.vocabulary // 5
