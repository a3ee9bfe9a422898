"""Test the generator of the quickstart data: reproducible bytes, refused input, and splits without common sentences."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"
sys.path.insert(0, str(PREPROCESS))

import synthetic_paraphrase as generator  # noqa: E402

from wean_fairseq.errors import UserError  # noqa: E402
from wean_fairseq.text import Text, read_text_settings  # noqa: E402


def collect_splits(counts, seed, *draw):
    """Return the pairs of each split."""
    splits = {split: [] for split in generator.SPLITS}
    for split, pair in generator.draw_splits(Random(seed), counts, *draw):
        splits[split].append(pair)
    return splits


@pytest.fixture(scope="module")
def splits():
    return collect_splits({"train": 5000, "valid": 300, "test": 200}, seed=3)


@pytest.fixture(scope="module")
def pairs(splits):
    return [pair for split in generator.SPLITS for pair in splits[split]]


def run(output, *options, **environment):
    return subprocess.run(
        [sys.executable, PREPROCESS / "synthetic_paraphrase.py", "--output", output, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


FILES = [f"{split}.{side}" for split in ("train", "valid", "test") for side in ("src", "tgt")]
SMALL = ("--train", 50, "--valid", 10, "--test", 7)


# --- the draw


def test_other_seed_gives_other_sentences():
    counts = {"train": 50, "valid": 5, "test": 5}
    one, two = (collect_splits(counts, seed) for seed in (1, 2))
    assert all(not set(one[split]) & set(two[split]) for split in counts)


def test_only_the_stable_method_of_random_is_used():
    class OnlyRandom:
        """A source of random numbers with `random()` only, which Python promises to keep the same between versions."""

        def __init__(self):
            self.random = Random(5).random

    plain = Random(5)
    stub = OnlyRandom()
    assert [generator.draw_pair(stub) for _ in range(300)] == [generator.draw_pair(plain) for _ in range(300)]


def test_valid_and_test_do_not_depend_on_the_training_size():
    one, two = (collect_splits({"train": size, "valid": 20, "test": 20}, 1) for size in (30, 200))
    assert one["valid"] == two["valid"]
    assert one["test"] == two["test"]
    assert one["train"] == two["train"][:30]


# --- files


def test_files_counts_and_manifest(tmp_path):
    result = run(tmp_path / "new" / "data", *SMALL, "--seed", 4)
    assert result.returncode == 0, result.stderr
    found = contents(tmp_path / "new" / "data")
    assert set(found) == {*FILES, "manifest.json"}
    manifest = json.loads(found["manifest.json"])
    assert manifest["options"] == {"train": 50, "valid": 10, "test": 7, "seed": 4}
    assert {split: found["kept"] for split, found in manifest["splits"].items()} == {
        "train": 50,
        "valid": 10,
        "test": 7,
    }
    words = {"src": set(), "tgt": set()}
    for name in FILES:
        split, side = name.split(".")
        text = found[name].decode("ascii")
        assert text.endswith("\n")
        assert "\r" not in text
        assert len(text.splitlines()) == manifest["files"][name]["lines"] == manifest["splits"][split]["kept"]
        assert manifest["files"][name]["sha256"] == hashlib.sha256(found[name]).hexdigest()
        words[side].update(text.split())
    sizes = {"source": len(words["src"]), "target": len(words["tgt"]), "joint": len(words["src"] | words["tgt"])}
    assert manifest["vocabulary"] == sizes
    assert "ynthetic" in manifest["remark"]
    assert str(tmp_path) not in found["manifest.json"].decode()


def test_a_model_of_the_text_reads_ordinary_sentences(tmp_path, pairs):
    """The text settings in the manifest turn the running text of each sentence into the tokens of the data."""
    assert run(tmp_path / "data", *SMALL).returncode == 0
    text = Text(read_text_settings(tmp_path / "data"))
    assert (
        text.prepare("The famous physician purchased a car in 1969.")
        == "the famous physician purchased a car in 1969 ."
    )
    assert text.prepare("Paula Fischer fed Daniel Dawson's horse.") == "paula fischer fed daniel dawson 's horse ."
    for line in {side for pair in pairs[:500] for side in pair}:
        assert text.prepare(text.restore(line)) == line


def test_manifest_lists_only_synonyms_that_the_text_has(splits):
    manifest = generator.measure(splits)
    text = {word for pairs in splits.values() for pair in pairs for side in pair for word in side.split()}
    listed = [line.split() for line in manifest["synonym_sets"]]
    assert len(listed) > 300
    assert all(len(words) > 1 and set(words) <= text for words in listed)


# --- no leak


def test_no_sentence_occurs_twice(splits, pairs):
    assert {split: len(found) for split, found in splits.items()} == {"train": 5000, "valid": 300, "test": 200}
    for side in (0, 1):
        assert len({pair[side] for pair in pairs}) == 5500


def test_repeated_draws_are_dropped_and_an_exhausted_grammar_is_refused():
    def draw_one_of(count):
        return lambda rng: (f"source {(number := int(rng.random() * count))}", f"target {number}")

    counts = {"train": 3, "valid": 1, "test": 1}
    splits = collect_splits(counts, 1, draw_one_of(5))
    assert sorted(pair[0] for found in splits.values() for pair in found) == [f"source {number}" for number in range(5)]
    with pytest.raises(UserError, match="after 4 of 5 pairs there is no other one for train: ask for fewer"):
        collect_splits(counts, 1, draw_one_of(4))


def test_shared_target_counts_as_a_leak():
    with pytest.raises(UserError, match="after 1 of 3 pairs"):
        collect_splits({"train": 1, "valid": 1, "test": 1}, 1, lambda rng: (str(rng.random()), "same"))


def test_exhaustion_is_one_line_on_the_command_line(tmp_path, monkeypatch, capsys):
    def exhausted(*_):
        raise UserError("there are only 4 pairs")

    monkeypatch.setattr(generator, "draw_splits", exhausted)
    assert generator.main(["--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "synthetic_paraphrase: error: there are only 4 pairs\n"
    assert not list(tmp_path.iterdir())
