"""Test C-DNPG with the real commands.

The commands write the granularities of a trained model while the model generates.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import TASK, USER_DIR, Result, generate, run, train
from tests.integration.test_bad_input import assert_one_sentence

SIZES = ["--embed-dim", 16, "--ffn-dim", 24, "--attention-heads", 2, "--encoder-layers", 2, "--decoder-layers", 2]
MODEL = ["--user-dir", USER_DIR, "--arch", "granularity_transformer", "--criterion", "model_loss", *TASK, *SIZES]
SHORT = ["--lr", 0.005, "--max-update", 20, "--no-epoch-checkpoints"]


@pytest.fixture(scope="module")
def granular(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a barely trained C-DNPG whose granularities start in the second layer."""
    folder = tmp_path_factory.mktemp("granular")
    train(data, folder, *SHORT, "--ga-start-layer", 2, model=MODEL)
    return folder / "checkpoint_best.pt"


@pytest.fixture(scope="module")
def dumped(data: Path, granular: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Return the result of decoding the test split, and the file with its granularities."""
    path = tmp_path_factory.mktemp("dump") / "granularity.jsonl"
    return generate(data, granular, "--granularity-dump", path), path


def entries(path: Path) -> dict[int, dict[str, Any]]:
    return {entry["id"]: entry for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def check(entry: dict[str, Any]) -> None:
    """Check that every word has a granularity in the second of two layers."""
    for side in ("source", "output"):
        granularities = entry[f"{side}_granularity"]
        assert list(granularities) == ["2"]
        assert len(granularities["2"]) == len(entry[side])
        assert all(0 < z < 1 for z in granularities["2"])


def test_every_sentence_has_the_granularities_of_its_words(dumped: tuple[Result, Path]):
    result, path = dumped
    found = entries(path)
    sources = dict(line.split("\t")[:2] for line in result.out.splitlines() if line.startswith("S-"))
    assert sorted(found) == list(range(60))
    for number, entry in found.items():
        check(entry)
        assert entry["source"] == [*sources[f"S-{number}"].split(), "</s>"]
        assert entry["output"] == ["</s>", *result.hypotheses[number].split()]
    assert len({z for entry in found.values() for z in entry["source_granularity"]["2"]}) > 100


def test_granularities_of_typed_sentences_have_their_numbers_and_are_those_of_a_batch(
    data: Path, granular: Path, dumped: tuple[Result, Path], tmp_path: Path
):
    """Test with sentence 1, which contains no name. The binary data of ``dumped`` has lost the spelling of names."""
    expected = entries(dumped[1])[1]
    words = expected["source"][:-1]
    typed = [words[:1], words[:3], words, words[:2]]  # fairseq decodes these sentences in another order
    result = run(
        *("fairseq-interactive", data, "--user-dir", USER_DIR, *TASK, "--path", granular, "--cpu"),
        *("--source-lang", "src", "--target-lang", "tgt", "--beam", 3, "--max-len-a", 1, "--max-len-b", 4),
        *("--granularity-dump", tmp_path / "typed.jsonl", "--buffer-size", 3, "--batch-size", 2),
        stdin="".join(f"{' '.join(sentence)}\n" for sentence in typed),
    )
    all_found = entries(tmp_path / "typed.jsonl")
    assert {number: entry["source"][:-1] for number, entry in all_found.items()} == dict(enumerate(typed))
    found = all_found[2]
    check(found)
    assert found["source"] == expected["source"], result.describe()
    assert found["source_granularity"]["2"] == pytest.approx(expected["source_granularity"]["2"], abs=2e-4)


def test_a_dump_overwrites_nothing(data: Path, granular: Path, dumped: tuple[Result, Path]):
    result = generate(data, granular, "--granularity-dump", dumped[1], expect_success=False)
    assert_one_sentence(result, str(dumped[1]), "exists already", "--granularity-dump")


def test_a_model_without_granularities_has_none_to_dump(data: Path, tmp_path: Path):
    arguments = ["--ga-variant", "none", "--granularity-dump", tmp_path / "dump"]
    result = train(data, tmp_path / "out", *SHORT, *arguments, model=MODEL, expect_success=False)
    assert_one_sentence(result, "--granularity-dump", "granularity_transformer")
    assert not (tmp_path / "dump").exists()
