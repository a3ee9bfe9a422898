"""Test examples/train_until_done.sh: a training that is killed repeatedly ends like an uninterrupted training."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.integration import killed_train
from tests.integration.commands import ADAM, ENVIRONMENT, ROOT, TASK, TINY, WEAN, command_line, parameters, train
from tests.integration.observed import assert_same_end
from tests.reliability import Reliability

SCRIPT = ROOT / "examples" / "train_until_done.sh"
KILLS, SEED = 20, 9
# There are 310 updates, with a checkpoint after every sixth update. An epoch has 63 updates (see conftest.py).
SETTINGS = ["--lr", 0.003, "--max-update", 310, "--save-interval-updates", 6, "--keep-interval-updates", 2]
SETTINGS += ["--no-epoch-checkpoints", "--log-interval", 50]


def until_done(*command: object, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run the script with a command."""
    environment = ENVIRONMENT | {"WAIT": "0"} | {name: str(value) for name, value in variables.items()}
    line = ["bash", str(SCRIPT), *map(str, command)]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=3600, check=False)


@pytest.mark.slow
def test_a_training_killed_twenty_times_ends_like_one_that_was_left_alone(
    data: Path, tmp_path: Path, reliability: Reliability
) -> None:
    alone, folder, log = tmp_path / "alone", tmp_path / "killed", tmp_path / "kills"
    train(data, alone, *SETTINGS)
    command = command_line("fairseq-train", data, *WEAN, *TINY, *TASK, *ADAM, "--save-dir", folder, *SETTINGS)
    done = until_done(sys.executable, killed_train.__file__, log, KILLS, SEED, *command, TRIES=KILLS + 1)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    found = [json.loads(line) for line in log.with_suffix(".found").read_text().splitlines()]
    assert len(log.read_text().splitlines()) == len(found) == KILLS
    assert f"done, after {KILLS} restart(s)" in done.stderr
    assert [entry["partial"] for entry in found] == [[]] * KILLS
    assert killed_train.look(folder) == {"partial": [], "unfinished": []}
    assert_same_end(folder / "checkpoint_last.pt", alone / "checkpoint_last.pt")
    best = parameters(alone / "checkpoint_best.pt")
    assert all(torch.equal(value, best[name]) for name, value in parameters(folder / "checkpoint_best.pt").items())
    reliability.count("kills survived", KILLS)
    reliability.count("of these, kills that left a half-written file behind", sum(bool(e["unfinished"]) for e in found))


# --- the script, with pretended trainings ---------------------------------------------------------------------------


def pretend(folder: Path, line: str) -> list[object]:
    """Return a command that counts its starts in ``folder``/starts. ``line`` can use the count as $n."""
    folder.mkdir()
    program = f"n=$(cat {folder}/starts 2>/dev/null || echo 0); echo $((n + 1)) >{folder}/starts; {line}"
    return ["bash", "-c", program, "training", "--save-dir", folder]


NEW = "touch $2/checkpoint_last.pt"
WAITS = "trap 'echo $n >>$2/told; exit 7' INT TERM; touch $2/ready; sleep 60 & wait"


@pytest.mark.parametrize(
    ("line", "status", "starts", "said"),
    [
        ("exit 0", 0, 1, "done, after 0 restart(s)"),
        ("((n < 2)) && kill -KILL $$; exit 0", 0, 3, "done, after 2 restart(s)"),
        ("exit 1", 1, 3, "has ended 3 times in a row without a new checkpoint"),
        (f"{NEW}; ((n < 6)) && exit 1; exit 0", 0, 7, "done, after 6 restart(s)"),
        ("exit 2", 2, 1, "called wrongly (exit status 2)"),
        (
            "echo 'wean_fairseq: error: no room.' >&2; exit 1",
            2,
            1,
            "starting the training again cannot fix this: no room",
        ),
        ("echo 'wean_fairseq.host.divergence.Diverged: at 7' >&2; exit 1", 2, 1, "cannot fix this: .*Diverged: at 7"),
        (
            "((n > 0)) && exit 0; echo 'wean_fairseq: error: another process of this training has ended' >&2; exit 1",
            *(0, 2, "done, after 1 restart(s)"),
        ),
    ],
)
def test_what_is_started_again_and_what_is_not(tmp_path: Path, line: str, status: int, starts: int, said: str) -> None:
    folder = tmp_path / "out"
    done = until_done(*pretend(folder, line), TRIES=3)
    assert (done.returncode, (folder / "starts").read_text()) == (status, f"{starts}\n"), done.stderr
    assert said.replace(".*", "wean_fairseq.host.divergence.") in done.stderr


def test_processes_that_a_killed_training_leaves_are_ended_before_the_next(tmp_path: Path) -> None:
    """Test with a process in a separate session, as torchrun starts its processes."""
    folder = tmp_path / "out"
    line = '((n > 0)) && { sleep 3; exit 0; }; setsid bash -c "sleep 2; touch $2/survived" & sleep 0.3; kill -KILL $$'
    done = until_done(*pretend(folder, line), TRIES=2)
    assert (done.returncode, (folder / "starts").read_text()) == (0, "2\n"), done.stderr
    assert not (folder / "survived").exists()


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_and_the_script(tmp_path: Path, signal_: signal.Signals) -> None:
    folder = tmp_path / "out"
    # A shell cannot trap a signal that was ignored when the shell started, and tests that run in the background may
    # ignore Ctrl-C.
    begin = f"import os, signal, sys; signal.signal({int(signal_)}, signal.SIG_DFL); os.execvp('bash', sys.argv[1:])"
    line = [sys.executable, "-c", begin, "bash", str(SCRIPT), *map(str, pretend(folder, WAITS))]
    with subprocess.Popen(line, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (folder / "ready").exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(process.pid, signal_)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal_
    assert (folder / "told").read_text() == "0\n"
    assert f"stopped by {signal_.name.removeprefix('SIG')}" in said


def test_a_signal_between_two_tries_ends_the_next_one_at_once(tmp_path: Path) -> None:
    """Test a signal that arrives while the script runs mkfifo, before the next training has started.

    At this moment, no training exists that could receive the signal.
    """
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "mkfifo"
    command.write_text(f'#!/bin/sh\nkill -TERM $PPID\nexec {shutil.which("mkfifo")} "$@"\n')
    command.chmod(0o755)
    began = time.monotonic()
    done = until_done("sleep", 50, PATH=f"{command.parent}:{ENVIRONMENT['PATH']}")
    assert done.returncode == 128 + signal.SIGTERM and "stopped by TERM" in done.stderr
    assert time.monotonic() - began < 40


def test_no_pause_is_longer_than_ten_minutes(tmp_path: Path) -> None:
    """Test that the pause doubles each time, up to ten minutes.

    Without a limit, 2 ^ 63 seconds would exceed the integers of the shell.
    """
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "sleep"
    command.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/pauses\n')
    command.chmod(0o755)
    variables = {"PATH": f"{command.parent}:{ENVIRONMENT['PATH']}", "WAIT": 10, "TRIES": 66}
    assert until_done("false", **variables).returncode == 1
    assert list(map(int, (tmp_path / "pauses").read_text().split())) == [10, 20, 40, 80, 160, 320, *[600] * 59]


def test_what_is_no_command_is_one_sentence() -> None:
    for command, variables in (
        ([], {}),
        (["no-such-command"], {}),
        (["true"], {"TRIES": 0}),
        (["true"], {"WAIT": "x"}),
        (["true"], {"WAIT": "08"}),  # the shell would read this as an invalid octal number
    ):
        done = until_done(*command, **variables)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1 and "[until done] error: " in done.stderr


# --- two at a time --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["wean_lstm", "seq2seq_lstm"])
def test_a_script_killed_with_no_chance_to_tidy_up_makes_no_second_training(
    data: Path, tmp_path: Path, arch: str, reliability: Reliability
) -> None:
    """Test that the training of a killed script continues.

    If the script or another training is started in the same folder, it must end with one error sentence.
    """
    folder = tmp_path / "out"
    command = command_line("fairseq-train", data, *WEAN, *TINY, *TASK, *ADAM, "--save-dir", folder, *SETTINGS)
    endless = [*command, "--max-update", 100_000, "--save-interval-updates", 0]
    script = ["bash", str(SCRIPT), *map(str, endless)]
    with subprocess.Popen(script, env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 120
        while not (found := re.match(r"\d+", _text(folder / ".training.lock"))) and time.monotonic() < until:
            time.sleep(0.1)
        process.kill()
    try:
        done = until_done(*endless, "--arch", arch)
        assert done.returncode == 2, done.stderr[-3000:]
        assert f"another training (process {found[0]} on" in done.stderr
    finally:
        os.kill(int(found[0]), signal.SIGKILL)
    reliability.count("second trainings in a folder")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
