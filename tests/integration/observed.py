"""Run trainings that record their random states, and compare the results of two trainings bit by bit."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.integration import warm
from tests.integration.commands import ADAM, ENVIRONMENT, TASK, TIMEOUT, TINY, WEAN

TWO = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
TWO += ["--distributed-no-spawn"]


def observed_train(
    data: Path,
    folder: Path,
    *arguments: object,
    processes: int = 1,
    kill_at: int | None = None,
    stop_at: int | None = None,
    model: Any = None,
) -> str:
    """Run ``commands.train`` through ``observed_train.py`` in a process of ``warm``.

    Args:
        data: folder of fairseq-preprocess.
        folder: folder of the checkpoints (--save-dir).
        arguments: arguments of fairseq-train.
        processes: number of processes. Two processes each have half of every batch.
        kill_at: update after which all processes are killed and cannot clean up. ``None`` = never.
        stop_at: update after which the user presses Ctrl-C. ``None`` = never.
        model: arguments that select the model (default: a tiny WEAN).

    Returns:
        The output of the first process.
    """
    chosen = [*WEAN, *TINY, *TASK] if model is None else model
    line = [warm.programs() / "observed-train", data, *chosen, *ADAM, "--batch-size", 32 // processes]
    line += ["--save-dir", folder, "--log-interval", 1, *arguments]
    with contextlib.ExitStack() as stack:
        others = []
        if processes == 2:
            meeting = folder.with_name(f"{folder.name}.meeting")
            meeting.unlink(missing_ok=True)
            line += [*TWO, "--distributed-init-method", f"file://{meeting}", "--distributed-rank"]
            log = stack.enter_context(folder.with_name(f"{folder.name}.second.log").open("wb"))
            others.append(stack.enter_context(_started([*line, 1], log)))
            line += [0]
        first = stack.enter_context(_started(line, subprocess.PIPE))
        said = _read(first, kill_at or stop_at)
        if stop_at is not None:
            first.send_signal(signal.SIGINT)
            said += first.stdout.read().decode()
            assert first.wait(TIMEOUT) == 130, said[-8000:]
        if kill_at is not None or stop_at is not None:
            return said
        codes = [process.wait(TIMEOUT) for process in (first, *others)]
    assert codes == [0] * processes, f"exit status {codes}\n{said[-8000:]}"
    return said


@contextlib.contextmanager
def _started(line: list[object], output: Any) -> Iterator[subprocess.Popen]:
    """Start a program of ``warm`` in a separate process group. At the end, the program and its command are killed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore SIGINT
    process = subprocess.Popen(
        list(map(str, line)), env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            # read until the last writer has ended, because the training and its data workers outlive the program
            process.stdout.read()
            process.stdout.close()


def _read(process: subprocess.Popen, kill_at: int | None) -> str:
    """Read the output of a process to its end, or up to an update.

    The training makes at most about 15 updates after this update.
    """
    if kill_at is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)  # a small pipe makes the training wait for its reader
    mark = None if kill_at is None else f'"num_updates": "{kill_at}"'.encode()
    said = []
    for line in process.stdout:
        said.append(line)
        if mark is not None and mark in line:
            break
    else:
        assert mark is None, f"the training ended before update {kill_at}:\n{b''.join(said)[-4000:].decode()}"
    return b"".join(said).decode()


def assert_same_end(actual: Path, expected: Path) -> None:
    """Assert that two checkpoints have the same model, optimiser state, schedule and position in the data."""
    ours, theirs = (torch.load(path, weights_only=True) for path in (actual, expected))
    for what in ("model", "last_optimizer_state"):
        different = _different(ours[what], theirs[what], what)
        assert not different, f"{actual} and {expected} differ in {different}"
    assert ours["optimizer_history"][-1] == theirs["optimizer_history"][-1]
    for what in ("train_iterator", "val_loss", "best"):
        assert ours["extra_state"][what] == theirs["extra_state"][what], what


def assert_same_random_numbers(actual: Path, expected: Path, since: int, processes: int = 1) -> None:
    """Assert that, in each process, every update after ``since`` began with the same torch, NumPy and Python states."""
    for rank in range(processes):
        ours, theirs = (_random_numbers(folder / f"random.{rank}.jsonl") for folder in (actual, expected))
        updates = [update for update in theirs if update > since]
        assert updates and [update for update in updates if ours[update] != theirs[update]] == [], f"in process {rank}"


def _random_numbers(path: Path) -> dict[int, dict[str, Any]]:
    """Return the random states at the start of each update.

    If a killed training was resumed and repeated an update, the last states are returned.
    """
    return {entry["update"]: entry for entry in map(json.loads, path.read_text().splitlines())}


def _different(ours: Any, theirs: Any, where: str) -> list[str]:
    """Return the places at which two nested states differ. Tensors must be bit-identical."""
    if torch.is_tensor(ours):
        return [] if ours.dtype == theirs.dtype and torch.equal(ours, theirs) else [where]
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return [f"the names in {where}"]
        return [found for key in ours for found in _different(ours[key], theirs[key], f"{where}.{key}")]
    if isinstance(ours, list | tuple):
        if len(ours) != len(theirs):
            return [f"the length of {where}"]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [found for number, pair in pairs for found in _different(*pair, f"{where}.{number}")]
    return [] if ours == theirs else [where]
