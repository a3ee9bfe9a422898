"""Test that only one training can use a folder. A second training is refused, and the message names the first.

A training that was killed does not block others.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq import checkpoint_utils

from wean_fairseq.checkpoints import training_lock
from wean_fairseq.errors import UserError

HOLDER = """
import os, sys, time, types
for name in ("wean_fairseq", "wean_fairseq.checkpoints"):  # packages that do not register the plugin
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join(sys.argv[1], *name.split("."))]
from pathlib import Path
from wean_fairseq.checkpoints import training_lock
training_lock.acquire(Path(sys.argv[2]))
worker = os.fork()  # as data workers, which see a while later that the training is gone
if worker == 0:
    time.sleep(30)
print(worker, flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    root = Path(__file__).resolve().parents[3]
    line = [sys.executable, "-c", HOLDER, root, tmp_path]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        worker = int(process.stdout.readline())
        yield process
        for number in (process.pid, worker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def test_a_second_training_is_refused_by_name(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(training_lock, "_WAIT", 0.2)
    (tmp_path / "checkpoint_last.pt").write_bytes(b"of the first")
    with pytest.raises(UserError, match=rf"another training \(process {holder.pid} on .+\) is writing into --save-dir"):
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    (tmp_path.parent / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="another training"):  # also if the folder is given by another name
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path.parent / "link"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [training_lock.LOCK_FILE, "checkpoint_last.pt"]


def test_a_killed_training_keeps_nobody_out_though_its_workers_live(tmp_path, holder, monkeypatch):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    assert (tmp_path / training_lock.LOCK_FILE).read_text().startswith(f"{os.getpid()} on ")
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))  # this training already has the lock
    monkeypatch.setattr(training_lock, "_held", {})


def test_where_the_file_system_has_no_locks_the_training_begins(tmp_path, monkeypatch):
    def lockf(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(training_lock.fcntl, "lockf", lockf)
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "new"))


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / training_lock.LOCK_FILE).symlink_to(victim)
    with pytest.raises(UserError, match="cannot be written"):
        checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "out"))
    assert victim.read_text() == "precious"
