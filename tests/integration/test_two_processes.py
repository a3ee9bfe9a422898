"""Processes that Slurm or torchrun has started train together.

If one of them dies, all of them end, and the training can be resumed.
"""

import fcntl
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch

from tests.integration import warm
from tests.integration.commands import (
    ADAM,
    BIN,
    ENVIRONMENT,
    TASK,
    TIMEOUT,
    TINY,
    WEAN,
    Result,
    command_line,
    parameters,
    run,
)
from tests.reliability import Reliability

UPDATES, KILLED_AT, SAVED_EVERY = 40, 8, 5
END_WITHIN = 60  # in seconds. Processes notice a closed connection immediately, but the machine may be busy
SETTINGS = [*WEAN, *TINY, *TASK, *ADAM, "--batch-size", 16, "--dropout", 0.0, "--lr", 0.01, "--log-interval", 1]
SETTINGS += ["--no-epoch-checkpoints", "--disable-validation", "--max-update", UPDATES]
# The launcher determines the number of processes.
TOGETHER = ["--save-interval-updates", SAVED_EVERY]
TORCHRUN = ["--standalone", "--nproc-per-node", 2, "--no-python"]


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """Train with one process on the same batches, two per update. Return its last checkpoint and its losses."""
    folder = tmp_path_factory.mktemp("alone")
    result = run("fairseq-train", data, *SETTINGS, "--update-freq", 2, "--save-dir", folder)
    return folder / "checkpoint_last.pt", result.logged("loss")


def assert_same_training(checkpoint: Path, expected: Path) -> None:
    found = torch.load(checkpoint, weights_only=True)
    assert found["optimizer_history"][-1]["num_updates"] == UPDATES
    for name, parameter in parameters(expected).items():
        torch.testing.assert_close(found["model"][name], parameter, rtol=0, atol=1e-6, msg=name)


@pytest.fixture
def slurm(tmp_path: Path) -> list[dict[str, str]]:
    """Return the environments of both tasks of ``srun --nodes=1 --ntasks-per-node=2``, with a fake Slurm command."""
    command = tmp_path / "slurm" / "scontrol"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\n[ "$*" = "show hostnames node[1]" ] && echo localhost\n')
    command.chmod(0o755)
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "node[1]", "SLURM_NNODES": "1", "SLURM_NTASKS": "2"}
    job |= {"SLURM_NTASKS_PER_NODE": "2", "PATH": f"{command.parent}:{ENVIRONMENT['PATH']}"}
    return [ENVIRONMENT | job | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)]


def start(line: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to a small pipe, so that the command soon waits for its reader."""
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    return process


def read_until_killed(speaker: subprocess.Popen[bytes], victim: int) -> tuple[Result, float]:
    """Kill the process ``victim`` when ``speaker`` prints its update.

    Return the result of ``speaker``, and the seconds from the kill to its end.
    """
    mark = f'"num_updates": "{KILLED_AT}"'.encode()
    said = b""
    # this limits the time to wait for a training that hangs without output
    watchdog = threading.Timer(TIMEOUT, speaker.kill)
    watchdog.start()
    try:
        for line in speaker.stdout:
            said += line
            if mark in line:
                os.kill(victim, signal.SIGKILL)
                break
        killed = time.monotonic()
        rest, _ = speaker.communicate(timeout=TIMEOUT)
    finally:
        watchdog.cancel()
        speaker.kill()
    result = Result(speaker.args, speaker.returncode, (said + rest).decode(), "")
    assert mark in said, result.describe()
    return result, time.monotonic() - killed


def test_tasks_of_slurm_end_when_one_dies_and_torchrun_goes_on(
    data: Path, tmp_path: Path, alone: tuple[Path, list[float]], slurm: list[dict[str, str]], reliability: Reliability
) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    folder = tmp_path / "two"
    # if this program is killed, the training that it has started is also killed
    command = warm.programs() / "fairseq-train"
    line = [*map(str, [command, data, *SETTINGS, *TOGETHER, "--distributed-port", port, "--save-dir", folder])]
    with (tmp_path / "second.log").open("wb") as log:  # a file is used, because a pipe would have no reader
        second = subprocess.Popen(line, env=slurm[1], stdout=log, stderr=subprocess.STDOUT)
    try:
        killed, seconds = read_until_killed(start(line, slurm[0]), second.pid)
    finally:
        second.kill()
        second.wait()
    assert killed.code not in (0, None), killed.describe()
    assert "wean_fairseq: error: another process of this training has ended" in killed.out, killed.describe()
    assert "Traceback" not in killed.out, killed.describe()
    assert seconds < END_WITHIN

    went_on = run("torchrun", *TORCHRUN, command, data, *SETTINGS, *TOGETHER, "--save-dir", folder)
    losses = killed.logged("loss")
    first = UPDATES - len(went_on.logged("loss"))  # the update from which the training was resumed
    assert first % SAVED_EVERY == 0 and SAVED_EVERY <= first <= len(losses), went_on.describe()
    assert losses[:first] + went_on.logged("loss") == alone[1]
    assert_same_training(folder / "checkpoint_last.pt", alone[0])
    reliability.count("processes of a distributed training killed")


@pytest.mark.slow
def test_torchrun_ends_when_a_process_dies(data: Path, tmp_path: Path) -> None:
    note = f'echo $BASHPID > "{tmp_path}/$RANK"; exec "{BIN}/fairseq-train" "$@"'
    line = command_line("torchrun", *TORCHRUN, "bash", "-c", note, "-", data, *SETTINGS, *TOGETHER)
    torchrun = start([*line, "--save-dir", str(tmp_path / "two")], ENVIRONMENT)
    try:
        head = b""
        while b"begin training epoch" not in head:  # then both processes have written their process ids
            head += torchrun.stdout.readline()
            assert torchrun.poll() is None, head.decode()
        result, seconds = read_until_killed(torchrun, int((tmp_path / "1").read_text()))
    finally:
        torchrun.terminate()  # this also terminates the processes that torchrun has started
        torchrun.wait(TIMEOUT)
    assert result.code not in (0, None), result.describe()
    assert "SIGKILL" in result.out, result.describe()
    assert seconds < END_WITHIN
