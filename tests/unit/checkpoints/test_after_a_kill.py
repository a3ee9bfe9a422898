"""Test the restart of a training after a kill: partial files, remembered state, and whether updates are left."""

import fcntl
import logging
import os
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli.train import should_stop_early
from omegaconf import OmegaConf

from wean_fairseq.checkpoints import writing
from wean_fairseq.errors import UserError
from wean_fairseq.host import checkpoints as host
from wean_fairseq.host import stopping
from wean_fairseq.storage import files
from wean_fairseq.storage.files import remove_partial, whole_folder, write_whole
from wean_fairseq.tasks import guarded

LEFT = ".wean-0123456789abcdef.partial"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- partial files --------------------------------------------------------------------------------------------------


def test_partial_files_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    kept = ["checkpoint_last.pt", "checkpoint_last.pt.tmp", ".wean-notes.partial", ".wean-0123456789ABCDEF.partial"]
    for name in [*kept, LEFT]:
        (tmp_path / name).write_bytes(b"half")
    folder = tmp_path / LEFT.replace("0", "1")
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"half")
    (tmp_path / LEFT.replace("0", "2")).symlink_to(tmp_path / "checkpoint_last.pt")
    assert remove_partial(tmp_path) == 2
    assert names(tmp_path) == sorted([*kept, LEFT.replace("0", "2")])
    assert remove_partial(tmp_path / "not there") == 0


@pytest.mark.parametrize("is_folder", [False, True])
def test_partial_files_of_running_processes_stay(tmp_path, is_folder):
    path, descriptor = files._create_locked(tmp_path, is_folder)
    assert remove_partial(tmp_path) == 0
    assert path.exists()
    os.close(descriptor)
    assert remove_partial(tmp_path) == 1


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_partial_file_that_is_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch, is_folder):
    flock, calls = fcntl.flock, []

    def late(descriptor, operation):
        calls.append(operation)
        if len(calls) == 1:
            remove_partial(tmp_path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    path, descriptor = files._create_locked(tmp_path, is_folder)
    assert names(tmp_path) == [path.name]
    os.close(descriptor)


@pytest.mark.parametrize("locks", [True, False])
def test_over_nfs_only_what_is_open_for_writing_can_be_locked(tmp_path, monkeypatch, locks):
    flock = fcntl.flock

    def of_nfs(descriptor, operation):
        if not locks or fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError("a lock that cannot be had")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    write_whole(tmp_path / "checkpoint1.pt", lambda file: file.write(b"whole"))
    (tmp_path / LEFT).write_bytes(b"half")
    assert remove_partial(tmp_path) == int(locks)
    assert (tmp_path / "checkpoint1.pt").read_bytes() == b"whole"


def test_two_writers_of_one_file_write_two_files_of_which_the_last_stays(tmp_path):
    """Without separate files, two trainings in one folder would mix their content in one file."""
    path = tmp_path / "checkpoint_last.pt"

    def write(file):
        file.write(b"the ")
        file.flush()
        write_whole(path, lambda other: other.write(b"second"))
        assert path.read_bytes() == b"second"
        file.write(b"first")

    write_whole(path, write)
    assert path.read_bytes() == b"the first" and names(tmp_path) == [path.name]


def test_a_file_of_the_user_with_a_similar_name_stays(tmp_path):
    """Test that the file stays even if it is the input, as in ``wean-generate --input OUT.tmp --output OUT``."""
    for name in ("out.tmp", "out.part", ".out"):
        (tmp_path / name).write_bytes(b"mine")
    write_whole(tmp_path / "out", lambda file: file.write(b"new"))
    assert [(tmp_path / name).read_bytes() for name in ("out.tmp", "out.part", ".out")] == [b"mine"] * 3


def test_the_longest_name_can_be_written(tmp_path):
    """Linux allows 255 bytes. A partial name that is longer than the name itself would not fit."""
    path = tmp_path / ("n" * 255)
    write_whole(path, lambda file: file.write(b"whole"))
    assert path.read_bytes() == b"whole"


def test_a_file_taken_from_its_writer_is_one_sentence_and_the_old_one_stays(tmp_path):
    """Another computer that does not see the locks of this computer can remove the partial file."""
    path = tmp_path / "checkpoint_last.pt"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match=r"checkpoint_last\.pt cannot be written \(No such file or directory\)"):
        writing._write(path, lambda file: next(tmp_path.glob(".wean-*")).unlink())
    assert path.read_bytes() == b"old"


def test_a_start_removes_partial_files_and_says_so(tmp_path, caplog):
    (tmp_path / LEFT).touch()
    with caplog.at_level(logging.INFO):
        host._remove_partial(tmp_path)
        host._remove_partial(tmp_path)
    assert names(tmp_path) == []
    said = f"Removed 1 partial file(s) left by killed processes from {tmp_path}"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    def fill(fails):
        with whole_folder(tmp_path / "more" / "model") as folder:
            (folder / "config.json").write_text("{}")
            if fails:
                raise KeyError

    with pytest.raises(KeyError):
        fill(fails=True)
    assert names(tmp_path / "more") == []
    (tmp_path / "more" / LEFT).mkdir()
    fill(fails=False)
    assert names(tmp_path / "more") == ["model"]
    assert names(tmp_path / "more" / "model") == ["config.json"]


def test_an_older_folder_is_kept_if_its_replacement_is_interrupted(tmp_path, monkeypatch):
    folder, move = tmp_path / "old", type(tmp_path).replace  # also test a name that is used inside the partial folder
    folder.mkdir()
    (folder / "config.json").write_text("older")

    def interrupt(self, target):
        monkeypatch.undo()
        move(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(tmp_path), "replace", interrupt)
    with pytest.raises(KeyboardInterrupt), whole_folder(folder, replace=True) as new:
        (new / "config.json").write_text("newer")
    assert names(tmp_path) == ["old"]
    assert (folder / "config.json").read_text() == "older"
    with whole_folder(folder, replace=True) as new:
        (new / "config.json").write_text("newer")
    assert names(tmp_path) == ["old"]
    assert (folder / "config.json").read_text() == "newer"


def test_an_older_folder_of_a_process_that_was_killed_while_replacing_it_is_put_back(tmp_path):
    for part, content in (("new", "newer"), ("old", "older")):
        (tmp_path / LEFT / part / "model").mkdir(parents=True)
        (tmp_path / LEFT / part / "model" / "config.json").write_text(content)
    write_whole(tmp_path / "file", lambda file: file.write(b"content"))
    assert names(tmp_path) == [LEFT, "file"]  # the only copy stays until its own writer returns
    with pytest.raises(KeyError), whole_folder(tmp_path / "model"):
        raise KeyError
    assert names(tmp_path) == ["file", "model"]
    assert (tmp_path / "model" / "config.json").read_text() == "older"


@pytest.mark.parametrize("place", [LEFT, f"{LEFT}/old", f"{LEFT}/old/model"])
def test_links_in_a_planted_partial_folder_are_not_followed(tmp_path, place):
    victim, folder = tmp_path / "victim", tmp_path / "data"
    (victim / "old").mkdir(parents=True)
    (victim / "thesis.tex").touch()
    (victim / "old" / "model").mkdir()
    (folder / place).parent.mkdir(parents=True)
    (folder / place).symlink_to(victim)
    write_whole(folder / "file", lambda file: file.write(b"content"))
    with whole_folder(folder / "model") as new:
        (new / "config.json").touch()
    assert names(victim) == ["old", "thesis.tex"]
    assert names(victim / "old") == ["model"]
    assert names(folder / "model") == ["config.json"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_planted_older_file_or_other_folder_is_not_put_in_place(tmp_path, is_folder):
    planted = tmp_path / LEFT / "old" / "checkpoint_last.pt"
    planted.mkdir(parents=True) if is_folder else planted.parent.mkdir(parents=True)
    (planted / "file" if is_folder else planted).touch()
    assert remove_partial(tmp_path) == 0
    with whole_folder(tmp_path / "model"):
        pass
    assert names(tmp_path) == [LEFT, "model"]


def test_partial_files_of_other_users_stay(tmp_path, monkeypatch):
    (tmp_path / LEFT).touch()
    (tmp_path / LEFT.replace("0", "1")).mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert remove_partial(tmp_path) == 0
    assert len(names(tmp_path)) == 2


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--save-dir .*/file/folder cannot be written \(Not a directory\)"):
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "file" / "folder"))
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "folder"))
    assert names(tmp_path) == ["file", "folder"]


# --- remembered state -----------------------------------------------------------------------------------------------


@pytest.fixture
def forgetful():
    """Reset fairseq to the state of a new process. Its state is kept in attributes of a function."""
    kept = dict(vars(should_stop_early))
    vars(should_stop_early).clear()
    yield
    vars(should_stop_early).clear()
    vars(should_stop_early).update(kept)


def settings(**values):
    checkpoint = {"maximize_best_checkpoint_metric": False, "reset_meters": False, "reset_optimizer": False}
    limits = {"max_update": 0, "max_epoch": 9, "stop_time_hours": 0.0}
    sections = {"optimization": limits, "checkpoint": {"patience": -1, **checkpoint}}
    for name, value in values.items():
        sections["optimization" if name in limits else "checkpoint"][name] = value
    cfg = OmegaConf.create(sections)
    OmegaConf.set_struct(cfg, True)
    return cfg


@pytest.mark.usefixtures("forgetful")
def test_patience_is_counted_on_after_a_restart():
    cfg, losses, stops = settings(patience=3), [5.0, 4.0, 4.5, 4.4, 4.1], []
    for loss in losses:
        state = stopping.patience()  # simulates a new process for every validation
        vars(should_stop_early).clear()
        stopping.restore_patience(state)
        stops.append(should_stop_early(cfg, loss))
    assert stops == [False, False, False, False, True]
    assert stopping.patience() == {"best": 4.0, "num_runs": 3}


@pytest.mark.usefixtures("forgetful")
def test_patience_is_the_commands_own_where_the_module_is_the_program(monkeypatch):
    def should_stop():
        pass

    should_stop.best = 3.0
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(should_stop_early=should_stop))
    assert stopping.patience() == {"best": 3.0}


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize(
    ("values", "updates", "waited", "done"),
    [
        ({"max_update": 10}, 10, 0, True),
        ({"max_update": 10}, 9, 0, False),
        ({"max_update": 0}, 9, 0, False),
        ({"patience": 2}, 9, 2, True),
        ({"patience": 2}, 9, 1, False),
        ({"patience": -1}, 9, 7, False),
        ({"patience": 2, "reset_meters": True}, 9, 2, False),
        ({"patience": 2, "reset_optimizer": True}, 9, 2, False),
        ({"stop_time_hours": 1.5}, 9, 0, True),
        ({"stop_time_hours": 2.5}, 9, 0, False),
        ({"stop_time_hours": 1.5}, 0, 0, False),  # the first updates of a short training
    ],
)
def test_a_training_that_is_done_is_not_gone_on_with(values, updates, waited, done):
    stopping.restore_patience({"best": 1.0, "num_runs": waited})
    cfg = settings(**values)
    passed = 2 * 3600.0  # seconds
    trainer = SimpleNamespace(cfg=cfg, get_num_updates=lambda: updates, cumulative_training_time=lambda: passed)
    assert stopping.stop_if_done(trainer) == done
    assert cfg.optimization.max_epoch == (-1 if done else 9)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that loads a checkpoint of a training which both limits have ended.

    The function returns the conditions that may stop the next training.
    """
    writing.save({"model": {}}, tmp_path / "checkpoint_best.pt")

    def load(is_older=False, **options):
        values = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt", "finetune_from_model": None}
        values |= {"no_save": False, "no_last_checkpoints": False, "optimizer_overrides": "{}"}
        checkpoint = OmegaConf.create(values | options)
        state = {"best": 1.0, "num_runs": 2}
        monkeypatch.setattr(host, "_agree_on_checkpoint", lambda *_: (str(tmp_path / "checkpoint_best.pt"), is_older))
        cfg = settings(max_update=10, patience=2)
        trainer = SimpleNamespace(cfg=cfg, get_num_updates=lambda: 10, checkpoint_suffix="")
        trainer.cumulative_training_time = lambda: 60.0
        trainer.should_save_checkpoint_on_current_rank = True
        trainer.optimizer = SimpleNamespace(optimizer=SimpleNamespace(param_groups=[], state={}))
        trainer.model = None
        host.load_checkpoint(lambda *_: stopping.restore_patience(state), checkpoint, trainer)
        return cfg.optimization.max_epoch, stopping.patience()["num_runs"]

    return load


@pytest.mark.usefixtures("forgetful")
def test_what_a_finished_training_was_the_end_of_does_not_end_one_that_begins_with_it(load, tmp_path):
    assert load() == (-1, 2)
    assert load(restore_file=str(tmp_path / "checkpoint_last.pt")) == (-1, 2)
    assert load(restore_file="elsewhere/checkpoint_last.pt") == (9, 0)


@pytest.mark.usefixtures("forgetful")
def test_a_finished_training_gets_a_last_checkpoint(load, tmp_path):
    """If a training is killed after writing only the best checkpoint, no later step would write the last one."""
    load(is_older=True, no_last_checkpoints=True)
    load(is_older=False)
    assert names(tmp_path) == ["checkpoint_best.pt", "checksums.sha256"]
    assert load(is_older=True) == (-1, 2)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == (tmp_path / "checkpoint_best.pt").read_bytes()


def test_nothing_but_the_count_is_taken_from_a_checkpoint():
    stopping.restore_patience({"__doc__": "somebody's"})
    assert should_stop_early.__doc__ is None


# --- random numbers -------------------------------------------------------------------------------------------------


class Task(guarded.GuardedTask):
    """Task that draws a number of each kind in every batch."""

    def __init__(self):
        self._update, self.cfg = None, SimpleNamespace(loss_limit=0)


@pytest.fixture
def drawn(monkeypatch):
    """Return the random numbers of the two batches of each update, in trainings that start at one of ``updates``."""
    numbers = []

    def draw(*_, **__):
        numbers.append((random.random(), float(np.random.uniform()), float(torch.rand(()))))  # noqa: NPY002
        return 0.0, 1, {}

    monkeypatch.setattr(guarded.TranslationTask, "train_step", draw)

    def train(updates):
        task = Task()
        numbers.clear()
        for update in updates:
            torch.manual_seed(1 + update)  # fairseq's trainer sets this seed
            for _ in range(2):
                task.train_step({}, update_num=update)
        return list(numbers)

    return train


def test_an_update_draws_the_same_numbers_whatever_came_before(drawn):
    random.seed(5)
    straight = drawn([0, 1, 2])
    random.random()
    assert drawn([2]) == straight[4:]
    for kind in zip(*straight, strict=True):
        assert len(set(kind)) == 6  # the second batch of an update draws other numbers than the first
