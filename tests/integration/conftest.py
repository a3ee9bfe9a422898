"""One data set and one trained model for all tests of this folder: most of the time goes into starting commands."""

import shutil
from pathlib import Path

import pytest

from tests.integration.commands import (
    TASK,
    WEAN,
    Result,
    generate,
    preprocess,
    random_sentences,
    train,
    with_names,
    write_pairs,
)

# 2,000 pairs are 63 updates of 32, the last one smaller; 50 and 60 are no multiples of 8 (see tasks/paraphrase.py).
SIZES = {"train": 2000, "valid": 50, "test": 60}


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of {train,valid,test}.{src,tgt}."""
    folder = tmp_path_factory.mktemp("text")
    for seed, (split, size) in enumerate(SIZES.items()):
        write_pairs(folder / split, with_names(random_sentences(size, seed), seed))
    return folder


@pytest.fixture(scope="session")
def data(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of fairseq-preprocess from ``text``: a name occurs once a side, so threshold 3 makes names ``<unk>``."""
    folder = tmp_path_factory.mktemp("data") / "bin"
    preprocess(text, folder, "--thresholdsrc", 3)
    return folder


@pytest.fixture(scope="session")
def raw_data(text: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test split as text beside the dictionaries, for --dataset-impl raw."""
    folder = tmp_path_factory.mktemp("raw")
    for language in ("src", "tgt"):
        shutil.copy(data / f"dict.{language}.txt", folder)
        shutil.copy(text / f"test.{language}", folder / f"test.src-tgt.{language}")
    return folder


@pytest.fixture(scope="session")
def training(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A WEAN that has learnt the data, by task paraphrase: its folder, and what the training said."""
    folder = tmp_path_factory.mktemp("trained")
    size = ["--embed-dim", 32, "--hidden-size", 64, "--encoder-layers", 1, "--decoder-layers", 1, "--dropout", 0.1]
    rate = ["--lr", 0.006, "--lr-scheduler", "polynomial_decay", "--total-num-update", 500, "--max-update", 500]
    result = train(data, folder, *size, *rate, "--no-epoch-checkpoints", model=[*WEAN, *TASK])
    return folder, result


@pytest.fixture(scope="session")
def checkpoint(training: tuple[Path, Result]) -> Path:
    """The best checkpoint of ``training``."""
    return training[0] / "checkpoint_best.pt"


@pytest.fixture(scope="session")
def generated(data: Path, checkpoint: Path) -> Result:
    """The test split, decoded by ``checkpoint``."""
    return generate(data, checkpoint)
