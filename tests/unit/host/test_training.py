"""Test the log file of a training, its values in TensorBoard, and its end if its output is lost."""

import errno
import logging
import os
import sys
from pathlib import Path

import fairseq_cli.train
import pytest
from fairseq.data.iterators import CountingIterator, GroupedIterator
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar
from omegaconf import OmegaConf

import wean_fairseq
from wean_fairseq.errors import UserError
from wean_fairseq.host import interruption

wean_fairseq.register()


def test_an_epoch_writes_every_line_of_the_log_once(tmp_path, caplog):
    """fairseq opens the log again for every epoch.

    The validation gives no log file and writes to the log file of the training.
    """
    caplog.set_level("INFO", logger=progress_bar.__name__)
    log = tmp_path / "train.log"
    for epoch in (1, 2, 3):
        training = progress_bar.progress_bar([], log_format="simple", log_file=str(log), epoch=epoch)
        progress_bar.progress_bar([], log_format="simple", epoch=epoch, prefix="valid").print({"loss": 1}, tag="valid")
        training.print({"loss": 2}, tag="train")
    assert log.read_text(encoding="utf-8").splitlines() == [
        line for epoch in (1, 2, 3) for line in (f"epoch {epoch:03d} | valid | loss 1", f"epoch {epoch:03d} | loss 2")
    ]


def test_tensorboard_gets_the_values_of_a_training(tmp_path):
    """The test needs the tensorboard package, which fairseq recommends in a message."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    training = progress_bar.progress_bar([], log_format="simple", tensorboard_logdir=str(tmp_path))
    for step in (10, 20):
        training.log({"loss": step / 2, "num_updates": step}, tag="train", step=step)
    progress_bar._close_writers()
    read = events.EventAccumulator(str(tmp_path / "train"))
    read.Reload()
    assert [(value.step, value.value) for value in read.Scalars("loss")] == [(10, 5.0), (20, 10.0)]


def test_a_log_file_on_a_full_disk_is_reported_once(caplog):
    """Python's logging would print a traceback for every line and continue."""
    caplog.set_level("INFO", logger=progress_bar.__name__)
    training = progress_bar.progress_bar([], log_format="simple", log_file="/dev/full", epoch=1)
    for number in range(3):
        training.print({"loss": number}, tag="train")
    said = [record.getMessage() for record in caplog.records if "the log" in record.getMessage()]
    assert said == [
        "the log /dev/full gets no further lines, because it cannot be written: [Errno 28] No space left on device"
    ]
    assert sum("loss" in record.getMessage() for record in caplog.records) == 3


def test_a_command_whose_log_is_lost_does_not_end_well(caplog):
    """A training on a full disk ended with status 0, and its log was incomplete."""
    caplog.set_level("INFO", logger=progress_bar.__name__)

    def train():
        for number in range(3):
            progress_bar.progress_bar([], log_format="simple", log_file="/dev/full", epoch=1).print({"loss": number})

    expected = "cannot write to /dev/full: No space left on device; make room, or send it elsewhere."
    with pytest.raises(UserError, match=f"^{expected}$"), interruption.checked_outputs():
        train()
    train()  # this is not a command, so its program decides how it ends
    with interruption.checked_outputs():
        pass


class Full:
    """A stream on a full disk."""

    def write(self, *_: str) -> None:
        """Raise the error of a full disk."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    flush = fileno = write


def test_only_a_log_on_standard_output_ends_a_command(monkeypatch, capsys):
    """A library may log to another stream. Python's logging then prints its traceback to standard error."""
    handler = logging.StreamHandler(Full())

    def command() -> None:
        with interruption.checked_outputs():
            handler.handle(logging.makeLogRecord({"msg": "lost"}))

    command()
    assert "No space left on device" in capsys.readouterr().err
    monkeypatch.setattr(sys, "__stdout__", handler.stream)
    with pytest.raises(UserError, match="cannot write to standard output"):
        command()
    assert capsys.readouterr().err == ""


def test_a_command_inside_another_one_leaves_it_a_command(monkeypatch):
    """A program may run a command of fairseq inside its own ``checked_outputs``."""

    def outer() -> None:
        with interruption.checked_outputs():
            with interruption.checked_outputs():
                assert interruption.is_command()
            assert interruption.is_command()
            monkeypatch.setattr(sys, "stdout", Full())

    with pytest.raises(UserError, match="cannot write to standard output"):
        outer()
    assert not interruption.is_command()


class Training:
    """A training whose output is lost at its seventh update."""

    def __init__(self, folder: Path) -> None:
        self.last = folder / "checkpoint_last.pt"
        self.cfg = OmegaConf.structured(FairseqConfig())
        self.cfg.checkpoint.save_dir = str(folder)
        self.updates = 7

    def get_num_updates(self) -> int:
        """Return the number of updates. fairseq's trainer has this method."""
        return self.updates

    def run(self, error: OSError, *updates: str, is_alone: bool = False) -> None:
        """Run updates, each of which is "saved", "unsaved" or the "end" of an epoch without a checkpoint."""

        def original(*_: object) -> None:
            if kind == "saved":
                self.last.write_text(kind)

        with interruption.checked_outputs() as watch:
            watch.active, watch.failed = is_alone, ("standard output", error)
            for self.updates, kind in enumerate(updates, self.updates):  # noqa: B020 - it starts with the old value
                interruption.validate_and_save(original, self.cfg, self, None, None, [], kind != "unsaved")


@pytest.fixture
def training(tmp_path: Path, monkeypatch) -> Training:
    training = Training(tmp_path)
    monkeypatch.setattr(
        interruption.checkpoint_utils, "save_checkpoint", lambda *_: training.last.write_text("stopped")
    )
    return training


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_training_with_several_processes_ends_after_its_next_checkpoint(training: Training):
    """One process alone cannot save a checkpoint, and --save-interval may skip the end of an epoch."""
    with pytest.raises(UserError, match=f"; stopped after update 9; the same command resumes from {training.last}.$"):
        training.run(FULL, "unsaved", "end", "saved", "saved")
    assert training.last.read_text() == "saved"


@pytest.mark.parametrize("option", ["no_save", "no_last_checkpoints"])
def test_a_training_that_saves_no_checkpoint_does_not_wait_for_one(training: Training, option: str):
    training.cfg.checkpoint[option] = True
    name = option.replace("_", "-")
    with pytest.raises(UserError, match=f"; stopped after update 7; no checkpoint is saved because of --{name}.$"):
        training.run(FULL, "end", "end")


@pytest.mark.parametrize(("update", "expected"), [("end", "stopped"), ("saved", "saved")])
def test_a_training_whose_reader_has_ended_says_where_it_has_stopped(
    training: Training, capsys, update: str, expected: str
):
    """A training with one process saves its updates, also at the end of an epoch that --save-interval skips."""
    with pytest.raises(SystemExit) as end:
        training.run(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), update, is_alone=True)
    said = f"wean_fairseq: stopped after update 7; the same command resumes from {training.last}.\n"
    assert (end.value.code, capsys.readouterr().err, training.last.read_text()) == (141, said, expected)


@pytest.mark.parametrize("kind", ["FIFO", "device", "folder"])
def test_a_log_file_that_is_no_file_is_refused_at_once(tmp_path: Path, kind: str):
    """fairseq-train and fairseq-hydra-train call this fairseq function before they open the log file."""
    cfg, path = OmegaConf.structured(FairseqConfig), tmp_path / "log"
    cfg.common.log_file = str(path)
    assert distributed_utils.is_master(cfg.distributed_training)
    {"FIFO": os.mkfifo, "device": lambda path: path.symlink_to("/dev/full"), "folder": Path.mkdir}[kind](path)
    with pytest.raises(UserError, match=f"--log-file {path} is a folder, a device or a pipe: give the name of a file"):
        distributed_utils.is_master(cfg.distributed_training)


@pytest.mark.parametrize("name", ["train.src-tgt.src", "dict.src.txt", "checkpoint_last.pt", "checksums.sha256"])
def test_a_log_is_not_appended_to_data_or_a_model(tmp_path: Path, name: str):
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.common.log_file = str(tmp_path / name)
    with pytest.raises(UserError, match=rf"--log-file .*/{name} has the name of data or of a model: give another name"):
        distributed_utils.is_master(cfg.distributed_training)


@pytest.mark.parametrize(
    ("name", "content", "accepted"),
    [
        ("notes.txt", "a sentence of the user\n", False),
        ("train.src", "a sentence of the user\n" * 1000, False),
        ("notes.txt", "", True),
        ("notes.txt", "{'_name': None, 'common': {}}\nepoch 001\n", True),
        ("output", "2026-11-28 03:58:11 | INFO | train_inner | epoch 001\n", True),
        ("output", "epoch 012:    420 / 4001 loss=3.1\n", True),
        ("output", '{"epoch": 12, "update": 3.5, "loss": "3.1"}\n', True),
        ("output", "job 17 on node-3\n" * 1000 + "| epoch 012 | loss 3.1\n", True),
        ("notes.log", "written by another program\n", True),
    ],
)
def test_a_log_is_appended_to_logs_only(tmp_path: Path, name: str, content: str, accepted: bool):
    cfg, path = OmegaConf.structured(FairseqConfig), tmp_path / name
    cfg.common.log_file = str(path)
    path.write_text(content, encoding="utf-8")
    if accepted:
        assert distributed_utils.is_master(cfg.distributed_training)
    else:
        with pytest.raises(UserError, match=f"--log-file {path} exists and is not a training log"):
            distributed_utils.is_master(cfg.distributed_training)


@pytest.mark.parametrize(("batches", "done", "size"), [(0, 0, 1), (3, 0, 4), (5, 3, 4)])
def test_an_epoch_without_batches_names_the_option(batches: int, done: int, size: int):
    """fairseq's own loop fails with an ``UnboundLocalError`` if an epoch has no update."""
    with pytest.raises(UserError, match="--skip-remainder-batch leaves out the last batches of an epoch"):
        GroupedIterator(CountingIterator(range(done, batches), start=done, total=batches), size, True)
    assert len(list(GroupedIterator(CountingIterator(range(8)), 4, True))) == 2


def test_a_training_that_has_saved_no_checkpoint_does_not_end_well(tmp_path: Path):
    """The number of updates in an epoch does not follow from the options, so this is checked only at the end."""
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.checkpoint.save_dir, cfg.distributed_training.distributed_world_size = str(tmp_path), 1

    def train() -> None:
        interruption.run_command(lambda _cfg, _main, **_: None, cfg, fairseq_cli.train.main)

    with pytest.raises(UserError, match=f"before its first checkpoint, and --save-dir {tmp_path} has none"):
        train()
    cfg.checkpoint.no_save = True
    train()
    cfg.checkpoint.no_save = False
    (tmp_path / "checkpoint_9_99.pt").touch()
    train()


def to_results(folder: Path) -> FairseqConfig:
    """Return a configuration of fairseq-generate that writes to a folder."""
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.common_eval.results_path = str(folder)
    return cfg


def write_results(cfg: FairseqConfig) -> Path:
    """Write to the file that fairseq-generate opens, and return its path."""
    file = Path(cfg.common_eval.results_path) / "generate-test.txt"
    file.write_text("new", encoding="utf-8")
    return file


def test_results_replace_older_ones_when_they_are_complete(tmp_path):
    """fairseq-generate empties the older file before it loads the model."""
    old, link = tmp_path / "kept" / "old.txt", tmp_path / "out" / "generate-test.txt"
    for folder in (old.parent, link.parent):
        folder.mkdir()
    old.write_text("old", encoding="utf-8")
    old.chmod(0o640)
    link.symlink_to(old)
    cfg = to_results(link.parent)

    def fail(cfg: FairseqConfig) -> None:
        write_results(cfg)
        raise UserError("the disk is full")

    with pytest.raises(UserError, match=r"^the disk is full$"):
        interruption.generate_results(fail, cfg)
    assert old.read_text(encoding="utf-8") == "old"
    assert interruption.generate_results(write_results, cfg).name == link.name
    assert (old.read_text(encoding="utf-8"), old.stat().st_mode & 0o777, link.is_symlink()) == ("new", 0o640, True)
    assert [path.name for folder in (old.parent, link.parent) for path in folder.iterdir()] == [old.name, link.name]
    assert cfg.common_eval.results_path == str(link.parent)


def test_results_that_cannot_be_written_are_refused(tmp_path):
    os.mkfifo(tmp_path / "generate-test.txt")  # fairseq-generate would wait for a reader
    with pytest.raises(UserError, match=r"generate-test\.txt is not a regular file: give another --results-path"):
        interruption.generate_results(write_results, to_results(tmp_path))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UserError, match=f"^cannot write to {file}: File exists"):
        interruption.generate_results(write_results, to_results(file))
