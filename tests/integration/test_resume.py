"""A training that was killed and started again ends as one that was left alone, to the last bit."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.commands import Result, generate, needed_globals, parameters, train, train_and_kill

# 63 updates an epoch (see conftest.py), the default dropout of 0.4; --eval-bleu puts arrays into the checkpoints.
SETTINGS = ["--lr", 0.003, "--max-epoch", 2, "--log-interval", 1, "--no-epoch-checkpoints"]
BLEU = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}', "--best-checkpoint-metric", "bleu"]
BLEU += ["--maximize-best-checkpoint-metric"]
EVERY_30 = ["--save-interval-updates", 30, "--keep-interval-updates", 1]


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last checkpoint of a training that ran through."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    train(data, folder, *SETTINGS, *BLEU)
    return folder / "checkpoint_last.pt"


def assert_equal_parameters(actual: Path, expected: Path) -> None:
    ours, theirs = parameters(actual), parameters(expected)
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different


def assert_resumed_from(result: Result, folder: Path, epoch: int, updates: int) -> None:
    assert (
        f"Loaded checkpoint {folder}/checkpoint_last.pt (epoch {epoch} @ {updates} updates)" in result.out + result.err
    )


@pytest.mark.parametrize(
    ("killed_at", "options", "goes_on_from"),
    [
        (70, BLEU, (2, 63)),  # the checkpoint is that of the end of epoch 1
        (100, [*EVERY_30, *BLEU], (2, 90)),  # the checkpoint is from inside epoch 2
    ],
    ids=["epoch_boundary", "inside_epoch"],
)
def test_killed_training_ends_like_an_uninterrupted_one(
    data: Path, tmp_path: Path, uninterrupted: Path, killed_at: int, options: list[str], goes_on_from: tuple[int, int]
) -> None:
    train_and_kill(killed_at, data, tmp_path, *SETTINGS, *options)
    resumed = train(data, tmp_path, *SETTINGS, *options)
    assert_resumed_from(resumed, tmp_path, *goes_on_from)
    assert_equal_parameters(tmp_path / "checkpoint_last.pt", uninterrupted)


# --- what a checkpoint may hold -------------------------------------------------------------------------------------


def test_checkpoints_hold_nothing_that_the_safe_loader_refuses(checkpoint: Path) -> None:
    assert needed_globals(checkpoint) == set()
    assert torch.load(checkpoint, weights_only=True)["cfg"]["model"]["_name"] == "wean_lstm"


def test_bleu_counts_are_the_only_exception(uninterrupted: Path) -> None:
    # What --eval-bleu leaves; numpy.dtypes.Int64DType is needed too, but PyTorch does not list it.
    expected = {"numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"}
    assert needed_globals(uninterrupted) == expected
    assert torch.load(uninterrupted, weights_only=True)["cfg"]["task"]["_name"] == "paraphrase"


class Attack:
    """Pickled, it is a call of ``os.system`` that writes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.mark}'",)


def test_hostile_checkpoint_is_refused(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    mark, hostile = tmp_path / "executed", tmp_path / "hostile.pt"
    state = torch.load(checkpoint, weights_only=True)
    torch.save({**state, "extra_state": {"harmless": 1, "attack": Attack(mark)}}, hostile)
    result = generate(data, hostile, expect_success=False)
    assert result.code != 0
    assert "H-" not in result.out
    assert not mark.exists()
    torch.load(hostile, weights_only=False)  # the attack works where nothing guards against it
    assert mark.exists()
