"""Test the record that a recipe keeps of its trainings (wean_fairseq/training/trainings.py)."""

import hashlib

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.training import trainings

#: LOG has the lines that are read from a log, as fairseq writes them.
LOG = """\
{'_name': None, 'optimization': {'_name': None, 'max_epoch': 9, 'max_update': 0}, 'seed': 7}
num. shared model params: 1,234 (num. trained: 1,234)
training with wean_fairseq at commit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
epoch 001:     5 / 10 loss=5, num_updates=5, cpu=30.5, threads=2
epoch 001 | valid on 'valid' subset | loss 4 | num_updates 10
epoch 001 | loss 5 | num_updates 10 | train_wall 20 | cpu 61 | threads 2
"""
RESUMED = """\
num. shared model params: 1,234 (num. trained: 1,234)
training with wean_fairseq at commit bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-dirty
epoch 002:     5 / 10 loss=4, num_updates=15, cpu=25, threads=2
epoch 002 | valid on 'valid' subset | loss 3 | num_updates 20
epoch 002 | loss 4 | num_updates 20 | train_wall 20 | cpu 40 | threads 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a system with a log."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    system = tmp_path / "system"
    system.mkdir()
    (system / "command").write_text("--arch x\n--patience 8\n", encoding="utf-8")
    (system / "train.log").write_text(LOG + RESUMED, encoding="utf-8")
    return system


def test_cost_schedule_and_threads_are_recorded(folder):
    """The CPU time is the sum of 61 s before and 40 s after the training was resumed."""
    found = trainings.describe_system(folder)
    assert (found["cpu_seconds"], found["threads"], found["schedule"]) == (101, 2, 9)
    assert (found["seed"], found["parameters"], found["end"]) == ("7", 1234, "cut")
    assert found["commit"] == "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-dirty"


def test_logs_of_older_versions_have_the_threads_of_the_environment(folder, monkeypatch):
    lines = [line for line in LOG.splitlines() if "commit" not in line]
    log = "\n".join(line.split(" | cpu")[0].split(", cpu")[0] for line in lines)
    (folder / "train.log").write_text(log + "\n", encoding="utf-8")
    found = trainings.describe_system(folder)
    assert (found["cpu_seconds"], found["threads"], found["commit"]) == (None, None, trainings.commit())
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert trainings.describe_system(folder)["threads"] == 3


def test_training_and_validation_data_are_identified(folder):
    """The expected checksums are SHA-256 of the bytes, computed with hashlib."""
    text = folder.parent / "text"
    text.mkdir()
    for name in ("train.src", "train.tgt", "valid.src", "test.src"):
        (text / name).write_bytes(f"a b {name}\n".encode())
    assert trainings.describe_system(folder)["data"] == [
        {"name": name, "sha256": hashlib.sha256(f"a b {name}\n".encode()).hexdigest(), "lines": 1}
        for name in ("train.src", "train.tgt", "valid.src")
    ]


def test_tries_keep_their_best_epoch(folder):
    for name in ("lr-1", "lr-2"):
        path = folder / "tries" / name
        path.mkdir(parents=True)
        for file in ("command", "train.log"):
            (path / file).write_bytes((folder / file).read_bytes())
    tries = trainings.describe_system(folder)["tries"]
    assert list(tries) == ["lr-1", "lr-2"]
    expected = {"best": 3.0, "epoch_of_best": 2.0, "epochs": 2.0, "schedule": 9, "cpu_seconds": 101, "end": "cut"}
    assert tries["lr-1"] == expected


def test_odd_numbers_in_the_environment_and_the_log(folder, monkeypatch):
    """OpenMP takes a list of numbers. Python refuses to convert text of more than 4,300 digits."""
    log = f"num. shared model params: {'9' * 5000}\n'max_epoch': {'9' * 5000}\n{RESUMED}"
    (folder / "train.log").write_text(log.replace(", threads=2", "").replace(" | threads 2", ""), encoding="utf-8")
    for value, expected in (("4,2", 4), ("abc", None), ("9" * 5000, 999999999)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert trainings.describe_system(folder)["threads"] == expected


def test_a_command_that_is_not_text_is_refused(folder):
    (folder / "command").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=r"command.* is not UTF-8"):
        trainings.describe_system(folder)
