"""A training that is killed and resumed has the same result, bit by bit, as an uninterrupted training."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.commands import (
    ADAM,
    IN_ONE,
    TASK,
    TIMEOUT,
    TINY,
    USER_DIR,
    WEAN,
    command_line,
    generate,
    needed_globals,
    train,
)
from tests.integration.observed import TWO, assert_same_end, assert_same_random_numbers, observed_train
from tests.integration.warm import ENVIRONMENT
from tests.reliability import Reliability
from wean_fairseq.checkpoints.resume import updates_of

# There are 63 updates per epoch (see conftest.py). Dropout has its default of 0.4. --eval-bleu stores arrays in
# checkpoints.
SETTINGS = ["--lr", 0.003, "--max-epoch", 2, "--log-interval", 1, "--no-epoch-checkpoints"]
BLEU = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}', "--best-checkpoint-metric", "bleu"]
BLEU += ["--maximize-best-checkpoint-metric"]
EVERY_30 = ["--save-interval-updates", 30, "--keep-interval-updates", 1]


# The kill is at most about 15 updates late, so the training resumes from the checkpoint before the given update.
KILLED = {
    "epoch_boundary": (70, [], (2, 63)),  # the checkpoint at the end of epoch 1
    "inside_epoch": (100, EVERY_30, (2, 90)),
}
LAST = "checkpoint_last.pt"


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the last checkpoint of a training that was not interrupted."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    observed_train(data, folder, *SETTINGS, *BLEU)
    return folder / LAST


def assert_resumed_from(said: str, folder: Path, epoch: int, updates: int) -> None:
    assert f"Loaded checkpoint {folder}/{LAST} (epoch {epoch} @ {updates} updates)" in said


@pytest.mark.parametrize("where", KILLED)
def test_killed_training_ends_like_an_uninterrupted_one(
    data: Path, tmp_path: Path, uninterrupted: Path, where: str
) -> None:
    killed_at, options, goes_on_from = KILLED[where]
    observed_train(data, tmp_path, *SETTINGS, *options, *BLEU, kill_at=killed_at)
    said = observed_train(data, tmp_path, *SETTINGS, *options, *BLEU)
    assert_resumed_from(said, tmp_path, *goes_on_from)
    assert_same_end(tmp_path / LAST, uninterrupted)
    assert_same_random_numbers(tmp_path, uninterrupted.parent, since=goes_on_from[1])


def test_ctrl_c_loses_no_update(data: Path, tmp_path: Path, uninterrupted: Path) -> None:
    """Check that the current update is finished and saved.

    The command ends with one sentence, and a resumed training gives the same result as an uninterrupted one.
    """
    said = observed_train(data, tmp_path, *SETTINGS, *BLEU, stop_at=70)
    (stopped,) = re.findall(
        r"^wean_fairseq: stopped after update (\d+); the same command resumes from (.*)\.$", said, re.M
    )
    assert int(stopped[0]) == updates_of(torch.load(tmp_path / LAST, weights_only=True)) >= 70
    assert stopped[1] == str(tmp_path / LAST)
    assert "Traceback" not in said
    said = observed_train(data, tmp_path, *SETTINGS, *BLEU)
    assert_resumed_from(said, tmp_path, 2, int(stopped[0]))
    assert_same_end(tmp_path / LAST, uninterrupted)


#: The traceback of the line that fairseq logs while it is imported
IMPORTED = re.compile(
    r"\A--- Logging error ---\nTraceback (?:(?!\n(?:---|Message)).)*\nMessage: 'Please install tensorboardX: [^\n]*\n",
    re.S,
)


def lost(redirection: str, *line: object) -> tuple[int, list[str]]:
    """Run a command whose output is lost. Return its exit status and its lines of errors.

    The only traceback allowed is that of a log line about tensorboardX, if this library is not installed. It cannot be
    avoided, because fairseq prints this line while it is imported, before it reads --user-dir.
    """
    script = f'"$@" {redirection}; exit "${{PIPESTATUS[0]}}"'
    command = ["bash", "-c", script, "bash", *map(str, line)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert "Traceback" not in IMPORTED.sub("", done.stderr), done.stderr
    # torch puts the rank before the errors of several processes
    return done.returncode, re.findall(r"^(?:\[rank0\]: )?(wean_fairseq: .*)$", done.stderr, re.M)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_command_whose_output_is_lost_fails(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    """Check that a training saves its updates first.

    Python's logging printed a traceback for every line, and the status was 0. 141 is a shell's status for SIGPIPE.
    """
    command = command_line(
        "fairseq-train", data, *WEAN, *TINY, *TASK, *ADAM, *IN_ONE, *SETTINGS, "--save-dir", tmp_path
    )
    status, said = lost(">/dev/full", *command)
    written = "wean_fairseq: error: cannot write to {}: No space left on device; make room, or send it elsewhere{}."
    stopped = f"; stopped after update 1; the same command resumes from {tmp_path / LAST}"
    assert (status, said) == (1, [written.format("standard output", stopped)])
    assert updates_of(torch.load(tmp_path / LAST, weights_only=True)) == 1
    stopped = f"wean_fairseq: stopped after update 2; the same command resumes from {tmp_path / LAST}."
    assert lost("| true", *command) == (141, [stopped])
    assert updates_of(torch.load(tmp_path / LAST, weights_only=True)) == 2
    command = command_line("fairseq-generate", data, "--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu")
    assert lost(">/dev/full", *command) == (1, [written.format("the output", "")])
    assert lost("| true", *command) == (141, [])
    status, (said,) = lost(">&-", *command)
    assert (status, said.split(",")[0]) == (1, "wean_fairseq: error: standard output is closed")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_process_whose_output_is_lost_ends_after_a_checkpoint(data: Path, tmp_path: Path) -> None:
    """Check that a training with two processes loses no update. Saving may need both of them."""
    folder = tmp_path / "checkpoints"
    command = command_line(
        "fairseq-train", data, *WEAN, *TINY, *TASK, *ADAM, *IN_ONE, *SETTINGS, "--save-interval-updates", 3, *TWO,
        "--save-dir", folder, "--distributed-init-method", f"file://{tmp_path}/meeting", "--distributed-rank",
    )  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "1"], env=ENVIRONMENT, **quiet) as second:
        status, (said,) = lost(">/dev/full", *command, 0)
        assert second.wait(TIMEOUT) == 1  # it cannot continue alone
    assert (status, said.partition("; stopped ")[2]) == (
        1, f"after update 3; the same command resumes from {folder / LAST}.",
    )  # fmt: skip
    assert updates_of(torch.load(folder / LAST, weights_only=True)) == 3


# --- the whole matrix -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1, 2], ids=["1 process", "2 processes"])
def left_alone(
    request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path]:
    """Return the number of processes and the folder of an uninterrupted training.

    The training has this number of processes, and no data workers.
    """
    folder = tmp_path_factory.mktemp("left_alone") / "checkpoints"
    observed_train(data, folder, *SETTINGS, "--num-workers", 0, processes=request.param)
    return request.param, folder


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where", KILLED)
def test_every_way_to_resume(
    data: Path, tmp_path: Path, left_alone: tuple[int, Path], where: str, workers: int, reliability: Reliability
) -> None:
    processes, expected = left_alone
    folder, (killed_at, options, goes_on_from) = tmp_path / "checkpoints", KILLED[where]
    arguments = [*SETTINGS, *options, "--num-workers", workers]
    observed_train(data, folder, *arguments, processes=processes, kill_at=killed_at)
    said = observed_train(data, folder, *arguments, processes=processes)
    assert_resumed_from(said, folder, *goes_on_from)
    assert_same_end(folder / LAST, expected / LAST)
    assert_same_random_numbers(folder, expected, goes_on_from[1], processes)
    reliability.count("resume combinations")


# --- a training that is done ----------------------------------------------------------------------------------------


def test_a_training_that_is_done_stays_as_it_is(data: Path, tmp_path: Path) -> None:
    """Test that a complete training gets no further update, as fairseq would add one (--max-update, --patience)."""
    rate = ["--lr", 1e-30, "--max-epoch", 9, "--no-epoch-checkpoints"]  # the model does not learn and never improves
    train(data, tmp_path, *rate, "--validate-interval-updates", 5, "--patience", 2)
    done = torch.load(tmp_path / LAST, weights_only=True)
    assert updates_of(done) == 15  # the first validation is the best, and the next two do not improve
    content = (tmp_path / LAST).read_bytes()
    for stop, why in (
        (["--patience", 2], "2 validations brought no improvement"),
        (["--max-update", 15], "it has 15 updates"),
    ):
        result = train(data, tmp_path, *rate, *stop)
        assert f"this training is complete: {why}" in result.out + result.err
        assert (tmp_path / LAST).read_bytes() == content


# --- what a checkpoint may hold -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            "{'weight_decays': 0.5}",
            "has weight_decays (did you mean weight_decay?), which is not an option of the optim",
        ),
        ("{1: 2}", "must be a dictionary, such as {'weight_decay': 0.01}, but is {1: 2}"),
        ("[1]", "must be a dictionary, such as {'weight_decay': 0.01}, but is [1]"),
        ("{", "must be a dictionary, such as {'weight_decay': 0.01}, but is '{'"),
    ],
)
def test_overrides_of_the_optimiser_are_checked(data: Path, checkpoint: Path, tmp_path: Path, overrides, message):
    """PyTorch stored unknown names, which had no effect."""
    start = ["--restore-file", checkpoint, "--reset-lr-scheduler", "--optimizer-overrides", overrides]
    assert f"--optimizer-overrides {message}" in train(data, tmp_path, *start, expect_success=False).err


def test_checkpoints_hold_nothing_that_the_safe_loader_refuses(checkpoint: Path) -> None:
    assert needed_globals(checkpoint) == set()
    assert torch.load(checkpoint, weights_only=True)["cfg"]["model"]["_name"] == "wean_lstm"


def test_bleu_counts_are_the_only_exception(uninterrupted: Path) -> None:
    # These are the types that --eval-bleu stores. numpy.dtypes.Int64DType is also needed, but PyTorch does not list it.
    expected = {"numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"}
    assert needed_globals(uninterrupted) == expected
    assert torch.load(uninterrupted, weights_only=True)["cfg"]["task"]["_name"] == "paraphrase"


class Attack:
    """An object whose pickle calls ``os.system`` to write a file."""

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
    torch.load(hostile, weights_only=False)  # without protection, the attack works
    assert mark.exists()
