"""Test that a training resumes from the last checkpoint, or from the newest intact one with a warning, or fails."""

import logging
import os
from pathlib import Path

import pytest
import torch
from fairseq.dataclass.configs import CheckpointConfig
from omegaconf import OmegaConf

from wean_fairseq.checkpoints import resume, writing
from wean_fairseq.checkpoints.reading import Hostile, read_checkpoint
from wean_fairseq.checkpoints.resume import AVERAGE_OF, choose
from wean_fairseq.errors import UserError
from wean_fairseq.host.checkpoints import _starting_from
from wean_fairseq.storage.manifest import NAME as CHECKSUMS
from wean_fairseq.storage.manifest import Damaged


def save(folder, name, updates, manifest=True, **more):
    state = {
        "model": {"weight": torch.full((4,), float(updates))},
        "optimizer_history": [{"num_updates": updates}],
        "last_optimizer_state": {},
        "extra_state": {},
        **more,
    }
    if manifest:
        writing.save(state, folder / name)
    else:
        torch.save(state, folder / name)


def cfg(folder, **options):
    result = CheckpointConfig(save_dir=str(folder))
    for name, value in options.items():
        setattr(result, name, value)
    return result


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


@pytest.fixture(params=[True, False], ids=["manifest", "no manifest"])
def folder(request, tmp_path):
    """Return a folder whose file names and times suggest a different order than the updates."""
    for name, updates in (("checkpoint1.pt", 10), ("checkpoint_2_15.pt", 15), ("checkpoint_best.pt", 10)):
        save(tmp_path, name, updates, request.param)
    save(tmp_path, "checkpoint_last.pt", 20, request.param)
    os.utime(tmp_path / "checkpoint_2_15.pt", (1, 1))
    return tmp_path


def chosen(folder, **options):
    choice = choose(cfg(folder, **options))
    return None if choice is None else choice.path.name


def test_the_last_checkpoint_is_gone_on_from_without_a_word(folder, caplog):
    assert chosen(folder) == "checkpoint_last.pt"
    assert not caplog.records


@pytest.mark.parametrize("damage", [cut, lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_else_the_newest_by_updates_and_loudly(folder, caplog, damage):
    damage(folder / "checkpoint_last.pt")
    with caplog.at_level(logging.WARNING):
        assert chosen(folder) == "checkpoint_2_15.pt"
    said = caplog.records[-1].getMessage()
    assert said.startswith("RESUMING FROM AN OLDER CHECKPOINT: ")
    assert "checkpoint_last.pt" in said and "checkpoint_2_15.pt (15 updates)" in said


def test_tensors_stay_on_the_disk_until_they_are_used(folder, monkeypatch):
    read, asked = resume.read_checkpoint, []
    monkeypatch.setattr(resume, "read_checkpoint", lambda path, lazily: (asked.append(lazily), read(path, lazily))[1])
    chosen(folder)
    chosen(folder, restore_file=str(folder / "checkpoint1.pt"))
    chosen(folder / "new", finetune_from_model=str(folder / "checkpoint1.pt"))
    cut(folder / "checkpoint_last.pt")
    chosen(folder)
    assert asked == [True] * 5  # the last checkpoint is read before the newest one


def test_a_damaged_newest_is_passed_over(folder, caplog):
    for name in ("checkpoint_last.pt", "checkpoint_2_15.pt"):
        path = folder / name
        content = path.read_bytes()
        place = content.index(torch.full((4,), 20.0 if "last" in name else 15.0).numpy().tobytes())
        path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert chosen(folder) in ("checkpoint1.pt", "checkpoint_best.pt")
    assert any("passed over" in record.getMessage() for record in caplog.records)


def test_where_none_is_intact_a_training_is_not_begun_anew(folder):
    for path in folder.glob("*.pt"):
        cut(path)
    with pytest.raises(UserError, match="training never starts again in such a folder"):
        choose(cfg(folder))


def test_a_new_training_begins_with_nothing(tmp_path):
    assert chosen(tmp_path) is None
    assert chosen(tmp_path / "not made yet") is None


def test_averages_and_crash_reports_are_not_gone_on_from(tmp_path):
    save(tmp_path, "crash.pt", 99)
    assert chosen(tmp_path) is None
    save(tmp_path, "checkpoint_best.pt", 50, extra_state={AVERAGE_OF: ["a", "b"]})
    save(tmp_path, "checkpoint1.pt", 10)
    assert chosen(tmp_path) == "checkpoint1.pt"


def test_a_checkpoint_without_optimiser_is_only_gone_on_from_where_none_keeps_it(tmp_path):
    save(tmp_path, "checkpoint1.pt", 10)
    save(tmp_path, "checkpoint2.pt", 20)
    state = torch.load(tmp_path / "checkpoint2.pt", weights_only=True)
    del state["last_optimizer_state"]
    writing.save(state, tmp_path / "checkpoint2.pt")
    assert chosen(tmp_path) == "checkpoint1.pt"
    assert chosen(tmp_path, no_save_optimizer_state=True) == "checkpoint2.pt"


def test_where_none_keeps_the_optimiser_a_training_is_not_begun_anew_unless_it_is_reset(tmp_path):
    torch.save({"model": {"weight": torch.ones(4)}}, tmp_path / "checkpoint_best.pt")
    with pytest.raises(UserError, match=r"no other checkpoint in .* has the state of the optimiser"):
        choose(cfg(tmp_path))
    assert chosen(tmp_path, reset_optimizer=True) == "checkpoint_best.pt"


@pytest.mark.parametrize("name", ["checkpoint_average.pt", "checkpoint.pt", "checkpoint3_old.pt"])
def test_files_that_fairseq_did_not_name_are_the_users(folder, name):
    """Test files of users, such as averages, with the optimiser state and the updates of one of their inputs."""
    save(folder, name, 30)
    (folder / "checkpoint_last.pt").unlink()
    assert chosen(folder) == "checkpoint_2_15.pt"


@pytest.mark.parametrize("name", ["checkpoint1.pt", "checkpoint_last.pt", "checkpoint_best.pt"])
def test_a_checkpoint_that_is_not_in_the_checksums_is_refused(tmp_path, name):
    """A copy of a listed checkpoint is known by its content, and files with other names belong to the user."""
    for number, file in enumerate(("checkpoint1.pt", "checkpoint_best.pt", "checkpoint_last.pt")):
        save(tmp_path, file, number)
    save(tmp_path, "mine.pt", 7, manifest=False)
    save(tmp_path, "checkpoint9.pt", 9)
    (tmp_path / "checkpoint10.pt").write_bytes((tmp_path / "checkpoint9.pt").read_bytes())
    manifest = (tmp_path / CHECKSUMS).read_text().splitlines(keepends=True)
    (tmp_path / CHECKSUMS).write_text("".join(line for line in manifest if name not in line))
    with pytest.raises(Damaged, match=rf"/{name} is not in .*/{CHECKSUMS}: .*run wean-checksum on it"):
        read_checkpoint(tmp_path / name)
    for other in ("mine.pt", "checkpoint9.pt", "checkpoint10.pt"):
        read_checkpoint(tmp_path / other)


def test_the_last_checkpoint_named_by_its_path_is_the_last_checkpoint(folder, tmp_path):
    """Test --restore-file with the path of the last checkpoint, which some scripts also pass at the first start."""
    new = tmp_path / "new"
    assert chosen(new, restore_file=str(new / "checkpoint_last.pt")) is None
    cut(folder / "checkpoint_last.pt")
    assert chosen(folder, restore_file=str(folder / "checkpoint_last.pt")) == "checkpoint_2_15.pt"


def test_a_named_checkpoint_is_that_one_or_an_error(folder):
    assert chosen(folder, restore_file=str(folder / "checkpoint1.pt")) == "checkpoint1.pt"
    with pytest.raises(UserError, match="there is no checkpoint"):
        choose(cfg(folder, restore_file=str(folder / "gone.pt")))
    cut(folder / "checkpoint1.pt")
    with pytest.raises(Damaged):
        choose(cfg(folder, restore_file=str(folder / "checkpoint1.pt")))


def test_finetuning_begins_with_its_model_unless_it_has_begun(folder, tmp_path):
    start = str(folder / "checkpoint1.pt")
    assert chosen(tmp_path / "new", finetune_from_model=start) == "checkpoint1.pt"
    (folder / "checkpoint_last.pt").unlink()
    assert chosen(folder, finetune_from_model=start) == "checkpoint_2_15.pt"
    with pytest.raises(UserError, match="there is no checkpoint"):
        choose(cfg(tmp_path / "new", finetune_from_model=start + "x"))


class Attack:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("name", ["checkpoint_last.pt", "checkpoint_best.pt"])
def test_a_hostile_checkpoint_is_never_passed_over(folder, tmp_path, name):
    """Test that a hostile checkpoint is an error, because it is an attack that the user has to know about."""
    (folder / "checkpoint_last.pt").unlink()
    (folder / "checksums.sha256").unlink(missing_ok=True)
    save(folder, name, 30, manifest=False, attack=Attack(tmp_path / "ran"))
    with pytest.raises(Hostile):
        choose(cfg(folder))
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_an_export_to_begin_with_is_read_as_its_file(tmp_path: Path) -> None:
    """Test an export folder, which fairseq would treat as a missing file, so that it would train from scratch."""
    configuration = OmegaConf.structured(CheckpointConfig)
    configuration.finetune_from_model = str(tmp_path)
    assert _starting_from(configuration, None).finetune_from_model == str(tmp_path / "model.safetensors")
    assert configuration.finetune_from_model == str(tmp_path)
    older = _starting_from(configuration, "older.pt")
    assert (older.restore_file, older.finetune_from_model) == ("older.pt", None)
    configuration.finetune_from_model = str(tmp_path / "file.pt")
    assert _starting_from(configuration, None) is configuration
