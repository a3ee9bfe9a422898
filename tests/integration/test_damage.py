"""Test damaged checkpoints, changed data and a training that diverges, with the real commands."""

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.commands import TASK, WEAN, Result, generate, train
from tests.integration.test_bad_input import assert_one_sentence

SIZE = ["--embed-dim", 32, "--hidden-size", 64, "--encoder-layers", 1, "--decoder-layers", 1, "--dropout", 0.1]


@pytest.fixture
def folder(training: tuple[Path, Result], tmp_path: Path) -> Path:
    """Return a copy of the trained model's folder: its best and its last checkpoint, and their checksums."""
    copied = shutil.copytree(training[0], tmp_path / "trained")
    names = {"checkpoint_best.pt", "checkpoint_last.pt", "checksums.sha256", ".training.lock"}
    assert {path.name for path in copied.iterdir()} == names
    return copied


@pytest.fixture
def unmarked(data: Path, tmp_path: Path) -> Path:
    """Return a copy of the data as fairseq-preprocess wrote it, without checksums."""
    return shutil.copytree(data, tmp_path / "bin", ignore=shutil.ignore_patterns("checksums.sha256"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of the files of a training, except its lock file, which names the process."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".training.lock"}


def go_on(data: Path, folder: Path, *arguments: object, **kwargs: object) -> Result:
    """Restart the training. It is already complete, so no updates are added."""
    rate = ["--lr", 0.006, "--lr-scheduler", "polynomial_decay", "--total-num-update", 500, "--max-update", 1]
    return train(data, folder, *SIZE, *rate, "--no-epoch-checkpoints", *arguments, model=[*WEAN, *TASK], **kwargs)


def test_a_training_goes_on_from_the_checkpoint_that_is_intact_and_says_so(data: Path, folder: Path) -> None:
    last = folder / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:-4000])
    (folder / ".wean-0123456789abcdef.partial").write_bytes(b"what a killed training leaves")
    result = go_on(data, folder)
    said = result.out + result.err
    assert re.search(r"WARNING.*RESUMING FROM AN OLDER CHECKPOINT: .*checkpoint_last\.pt has changed since", said)
    assert re.search(rf"Loaded checkpoint {folder}/checkpoint_best\.pt \(epoch \d+ @ \d\d+ updates\)", said)
    assert not list(folder.glob(".wean-*"))
    # the resumed training adds no update, so it writes no other checkpoint
    assert last.read_bytes() == (folder / "checkpoint_best.pt").read_bytes()


def test_another_model_is_one_sentence_and_the_checkpoints_stay(data: Path, folder: Path) -> None:
    before = contents(folder)
    result = go_on(data, folder, "--hidden-size", 24, expect_success=False)
    assert_one_sentence(result, "checkpoint_last.pt is of --arch wean_lstm", "size mismatch for", "--save-dir")
    assert contents(folder) == before


def test_another_order_of_the_dictionary_is_one_sentence(unmarked: Path, checkpoint: Path) -> None:
    """Test a reordered dictionary, which fairseq would accept, although it would write wrong words."""
    for side in ("src", "tgt"):
        path = unmarked / f"dict.{side}.txt"
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    result = generate(unmarked, checkpoint, expect_success=False)
    assert_one_sentence(result, str(checkpoint), "dict.src.txt", "has its words in another order")
    assert "H-" not in result.out


def test_changed_data_is_one_sentence_before_the_training(unmarked: Path, tmp_path: Path) -> None:
    train(unmarked, tmp_path / "first", "--max-update", 1, "--disable-validation")
    path = unmarked / "train.src-tgt.tgt.bin"
    content = bytearray(path.read_bytes())
    content[0], content[2] = content[2], content[0]  # swap two words
    path.write_bytes(content)
    result = train(unmarked, tmp_path / "second", "--max-update", 1, expect_success=False)
    assert_one_sentence(result, "train.src-tgt.tgt.bin has changed since its checksum was written")
    assert not list((tmp_path / "second").glob("*.pt"))


def test_a_training_that_explodes_keeps_nothing(data: Path, tmp_path: Path) -> None:
    """Test divergence, where fairseq would end with status 0 and keep the diverged model as the best one."""
    result = train(data, tmp_path, "--lr", 1e20, "--max-update", 1, expect_success=False)
    assert_one_sentence(result, "training diverged at the validation after update 1", "the sentences ")
    assert not list(tmp_path.glob("checkpoint*.pt"))
