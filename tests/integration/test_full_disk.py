"""On a full disk or in a read-only folder, a command prints one sentence and leaves the checkpoints unchanged."""

import functools
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import ADAM, ENVIRONMENT, TASK, TIMEOUT, TINY, WEAN, Result, command_line, run, train
from tests.integration.killed_train import look
from tests.integration.test_bad_input import assert_one_sentence
from tests.reliability import Reliability

# The small disk is a mount that only the command and its child processes see. The mount needs no privileges on systems
# where users may create name spaces.
PRIVATE = ["unshare", "--map-root-user", "--mount", "bash", "-ec"]
FULL = """
mount -t tmpfs -o "size=$2" none "$1"
cp -p "$3"/* "$1"
shift 3
"$@" || code=$?
cp -p "$SAVED"/* "$COPY"
exit "${code:-0}"
"""
READ_ONLY = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"'


# The limit also applies to the log, so a twentieth of a checkpoint must be larger than the log.
SETTINGS = ["--embed-dim", 128, "--lr", 0.003, "--no-epoch-checkpoints"]


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a training that was stopped, with its best and its last checkpoint and their checksums."""
    folder = tmp_path_factory.mktemp("begun")
    train(data, folder, *SETTINGS, "--max-update", 2)
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder of the stopped training."""
    return Path(shutil.copytree(begun, tmp_path / "begun"))


def go_on(data: Path, folder: Path) -> list[object]:
    """Return the arguments of the command that resumes the training."""
    return [data, *WEAN, *TINY, *TASK, *ADAM, *SETTINGS, "--max-update", 4, "--save-dir", folder]


def execute(line: list[str], **variables: object) -> Result:
    """Run a command that is not in ``warm``."""
    environment = ENVIRONMENT | {name: str(value) for name, value in variables.items()}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return Result(line, done.returncode, done.stdout, done.stderr)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder, except the lock file and the checksums, whose lines may be in another order."""
    others = ("checksums.sha256", ".training.lock")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in others}


def assert_as_before(folder: Path, before: dict[str, bytes]) -> None:
    assert contents(folder) == before
    assert look(folder) == {"partial": [], "unfinished": []}


def limit_files(size: int) -> None:
    """Limit the size of the files that this process writes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize(
    "part", [0.5, *(pytest.param(part, marks=pytest.mark.slow) for part in (0.05, 0.9, 0.999))], ids=str
)
def test_a_file_that_may_not_grow_is_one_sentence(
    data: Path, folder: Path, part: float, reliability: Reliability
) -> None:
    before = contents(folder)
    size = int(part * len(before["checkpoint_last.pt"]))
    limit = functools.partial(limit_files, size)
    result = run("fairseq-train", *go_on(data, folder), expect_success=False, prepare=limit)
    assert "Loaded checkpoint" in result.out
    assert_one_sentence(result, f"{folder}/checkpoint_", "cannot be written (File too large)", "resume from the last")
    assert_as_before(folder, before)
    reliability.count("faults injected")


def needs_private_mounts() -> None:
    tried = subprocess.run([*PRIVATE, "mount -t tmpfs none /mnt"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine gives no mounts of one's own: {tried.stderr.strip()}")


@pytest.mark.slow
def test_a_full_disk_is_one_sentence(data: Path, folder: Path, tmp_path: Path, reliability: Reliability) -> None:
    needs_private_mounts()
    before, disk, copy = contents(folder), tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    copy.mkdir()
    room = sum(len(content) for content in before.values()) + len(before["checkpoint_last.pt"]) // 2
    line = [*PRIVATE, FULL, "bash", str(disk), str(room), str(folder)]
    result = execute([*line, *command_line("fairseq-train", *go_on(data, disk))], SAVED=disk, COPY=copy)
    assert_one_sentence(result, f"{disk}/checkpoint_", "cannot be written (No space left on device)", "free some space")
    assert_as_before(copy, before)
    reliability.count("faults injected")


@pytest.mark.slow
def test_a_read_only_folder_is_one_sentence(data: Path, folder: Path, reliability: Reliability) -> None:
    needs_private_mounts()
    before = contents(folder)
    result = execute([*PRIVATE, READ_ONLY, "bash", str(folder), *command_line("fairseq-train", *go_on(data, folder))])
    assert_one_sentence(result, f"--save-dir {folder} cannot be written (Read-only file system)")
    assert_as_before(folder, before)
    reliability.count("faults injected")


@pytest.mark.slow
def test_a_folder_below_a_file_is_one_sentence(data: Path, tmp_path: Path, reliability: Reliability) -> None:
    """Test a folder below a regular file, where no user can write, not even root."""
    (tmp_path / "file").write_text("a file\n")
    result = train(data, tmp_path / "file" / "folder", expect_success=False)
    assert_one_sentence(result, f"--save-dir {tmp_path}/file/folder cannot be written (Not a directory)")
    assert (tmp_path / "file").read_text() == "a file\n"
    reliability.count("faults injected")
