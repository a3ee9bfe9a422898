"""Data sets and trained models that all tests in this folder share, because trainings take most of the time.

Shared files are never changed. A test that changes a file must use a copy. The data has checksums from the start,
because otherwise a training would add them.
"""

import fcntl
import os
import pickle
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.integration.commands import (
    TASK,
    USER_DIR,
    WEAN,
    Result,
    generate,
    preprocess,
    random_sentences,
    train,
    with_names,
    write_pairs,
)
from wean_fairseq.data.integrity import record_once

# An epoch has 63 updates for the 2,000 pairs: 62 updates with 32 pairs, and a smaller last one. The sizes 50 and 60 are
# not multiples of 8, the batch size multiple of fairseq (see tasks/paraphrase.py).
SIZES = {"train": 2000, "valid": 50, "test": 60}
Made = TypeVar("Made")


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """Return ``make(folder)``.

    Only one process of a test run calls ``make``, and the other workers of pytest-xdist wait for the result.

    Raises:
        RuntimeError: if ``make`` has failed in another process. The message has its traceback.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # folder that all processes share
    made, partial, failed = (root / f"{name}.{end}" for end in ("pickle", "part", "failed"))
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if failed.exists():
            raise RuntimeError(f"{name} was not made:\n{failed.read_text(encoding='utf-8')}")
        if not made.exists():
            try:
                partial.write_bytes(pickle.dumps(make(factory.mktemp(name))))
            except Exception:
                failed.write_text(traceback.format_exc(), encoding="utf-8")
                raise
            partial.replace(made)
        return pickle.loads(made.read_bytes())


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with {train,valid,test}.{src,tgt}."""

    def make(folder: Path) -> Path:
        for seed, (split, size) in enumerate(SIZES.items()):
            write_pairs(folder / split, with_names(random_sentences(size, seed), seed))
        return folder

    return once(tmp_path_factory, "text", make)


def make_data(text: Path, folder: Path, *options: object) -> Path:
    """Binarise ``text`` and write checksums.

    A name occurs once per side, so with a threshold of 3 all names become ``<unk>``.
    """
    preprocess(text, folder / "bin", "--thresholdsrc", 3, *options)
    record_once(folder / "bin")
    return folder / "bin"


@pytest.fixture(scope="session")
def data(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data that fairseq-preprocess has created from ``text``."""
    return once(tmp_path_factory, "data", lambda folder: make_data(text, folder))


@pytest.fixture(scope="session")
def raw_data(text: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the test split as text next to the dictionaries, for --dataset-impl raw."""
    folder = tmp_path_factory.mktemp("raw")
    for language in ("src", "tgt"):
        shutil.copy(data / f"dict.{language}.txt", folder)
        shutil.copy(text / f"test.{language}", folder / f"test.src-tgt.{language}")
    return folder


@pytest.fixture(scope="session")
def text_data(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data in text form. Its names, which occur once each, keep their spelling in this form."""
    return once(tmp_path_factory, "text_data", lambda folder: make_data(text, folder, "--dataset-impl", "raw"))


@pytest.fixture(scope="session")
def training(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Train a WEAN on the data with the task paraphrase. Return the folder and the output of the training."""
    size = ["--embed-dim", 32, "--hidden-size", 64, "--encoder-layers", 1, "--decoder-layers", 1, "--dropout", 0.1]
    rate = ["--lr", 0.006, "--lr-scheduler", "polynomial_decay", "--total-num-update", 500, "--max-update", 500]

    def make(folder: Path) -> tuple[Path, Result]:
        return folder, train(data, folder, *size, *rate, "--no-epoch-checkpoints", model=[*WEAN, *TASK])

    return once(tmp_path_factory, "training", make)


@pytest.fixture(scope="session")
def checkpoint(training: tuple[Path, Result]) -> Path:
    """Return the best checkpoint of ``training``."""
    return training[0] / "checkpoint_best.pt"


@pytest.fixture(scope="session")
def copying(text_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a CopyNet that has learnt the data. Copying needs no option except the arch."""
    model = ["--user-dir", USER_DIR, "--arch", "copynet", "--criterion", "model_loss", *TASK]
    model += ["--embed-dim", 32, "--hidden-size", 48]
    rate = ["--lr", 0.006, "--lr-scheduler", "polynomial_decay", "--total-num-update", 300, "--max-update", 300]

    def make(folder: Path) -> Path:
        train(text_data, folder, *rate, "--no-epoch-checkpoints", model=model)
        return folder / "checkpoint_best.pt"

    return once(tmp_path_factory, "copying", make)


@pytest.fixture(scope="session")
def generated(data: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return the result of decoding the test split with ``checkpoint``."""
    return once(tmp_path_factory, "generated", lambda _: generate(data, checkpoint))
