"""No command starts more processes than a machine can run, and processes end with the command that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.test_recipe_state import bash, sentence
from wean_fairseq.errors import UserError
from wean_fairseq.host.options import check_batches
from wean_fairseq.ranges import MOST_PROCESSES
from wean_fairseq.training import progress
from wean_fairseq.training.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
TOO_MANY = MOST_PROCESSES + 1


def test_the_bound_is_64_or_four_per_cpu(tmp_path: Path) -> None:
    """Recipes compute the same bound as the package."""
    assert max(64, 4 * (os.cpu_count() or 1)) == MOST_PROCESSES
    done = bash(tmp_path, 'echo "$PROCESSES"', PROCESSES=str(MOST_PROCESSES))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{MOST_PROCESSES}\n", "")


@pytest.mark.parametrize("name", ["JOBS", "PROCESSES", "GPUS", "OMP_NUM_THREADS"])
def test_recipes_refuse_more_processes(tmp_path: Path, name: str) -> None:
    least = 0 if name == "GPUS" else 1
    expected = f"{name} must be a whole number of at least {least} and at most {MOST_PROCESSES}, but is {TOO_MANY}."
    assert sentence(bash(tmp_path, ":", **{name: str(TOO_MANY)})) == expected
    assert list(tmp_path.iterdir()) == []


def test_recipes_refuse_more_gpus_than_there_are(tmp_path: Path) -> None:
    """Five processes trained on the CPU of a machine without a GPU."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("nvidia-smi", "echo GPU 0: x"), ("python", "echo 0")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    expected = (
        "GPUS is 5, more than this machine has: give GPUS=0 to use the CPU, with one process or several (PROCESSES)."
    )
    assert sentence(bash(tmp_path, "need_gpus", GPUS="5", PATH=path)) == expected
    assert bash(tmp_path, "need_gpus", GPUS="1", PATH=path).returncode == 0
    assert bash(tmp_path, ":", GPUS="5", PATH=path).returncode == 0  # scores need no GPU
    (programs / "python").write_text("#!/bin/sh\necho 5\n")  # torch finds GPUs of another vendor
    assert bash(tmp_path, "need_gpus", GPUS="5", PATH=path).returncode == 0


def test_the_processes_of_all_jobs_count(tmp_path: Path) -> None:
    said = sentence(bash(tmp_path, ":", JOBS=str(MOST_PROCESSES // 2), PROCESSES="3"))
    number = MOST_PROCESSES // 2 * 3
    assert said.startswith(f"JOBS={MOST_PROCESSES // 2} with PROCESSES=3 each are {number} processes: give")
    assert bash(tmp_path, ":", JOBS=str(MOST_PROCESSES // 2), PROCESSES="2").returncode == 0


def test_commands_refuse_more_processes(capsys: pytest.CaptureFixture) -> None:
    """Only the checks run here. Without them, the commands would start the processes."""
    with pytest.raises(UserError, match=f"--num-workers must be from 0 to {MOST_PROCESSES}, but is {TOO_MANY}"):
        check_batches({"num_workers": TOO_MANY})
    with pytest.raises(UserError, match=f"processes is {TOO_MANY}: expected `int` <= {MOST_PROCESSES}"):
        read_settings({"processes": TOO_MANY})
    with pytest.raises(SystemExit):
        progress.main(["--label", "x", "--output", "x", "--processes", str(TOO_MANY), "--", "true"])
    assert f"not a whole number of 1 to {MOST_PROCESSES}" in capsys.readouterr().err
    script = [sys.executable, ROOT / "preprocess" / "own_pairs.py", "--output", "x", "--workers", str(TOO_MANY)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--workers: '{TOO_MANY}' is not a whole number of 1 to {MOST_PROCESSES}" in done.stderr


FORK = """
import os, sys, time
from types import SimpleNamespace
from wean_fairseq.host import inputs

def start(args):
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
    time.sleep(60)

arguments = dict(only_source=True, source_lang=None, destdir=sys.argv[1], dict_only=False)
texts = dict.fromkeys(["trainpref", "validpref", "testpref", "srcdict", "tgtdict", "alignfile"])
inputs.preprocess(start, SimpleNamespace(workers=2, **arguments, **texts))
"""


def test_workers_of_fairseq_preprocess_end_with_a_killed_command(tmp_path: Path) -> None:
    """They waited forever for lines to read, and kept their memory."""
    line = [sys.executable, "-c", FORK, str(tmp_path / "bin")]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        worker = Path("/proc", command.stdout.readline().strip(), "stat")
        command.kill()
    end = time.monotonic() + 50
    while worker.exists() and worker.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


LATER = f"""
import ctypes
{FORK.partition("def start")[0]}
arguments = dict(only_source=True, source_lang=None, destdir=sys.argv[1], dict_only=False)
texts = dict.fromkeys(["trainpref", "validpref", "testpref", "srcdict", "tgtdict", "alignfile"])
inputs.preprocess(lambda args: None, SimpleNamespace(workers=2, **arguments, **texts))
if not os.fork():
    number = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
    print(number.value, flush=True)
else:
    os.wait()
"""


def test_later_workers_of_the_same_process_may_end_after_their_thread(tmp_path: Path) -> None:
    """A thread of fairseq starts the data workers of a training. Linux would end them together with this thread."""
    line = [sys.executable, "-c", LATER, str(tmp_path / "bin")]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"


LAUNCHED = """
import ctypes
from types import SimpleNamespace
from wean_fairseq.host import launchers

launchers.init_from_torchrun(None, SimpleNamespace())
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
print(number.value)
"""


def test_training_processes_end_with_a_killed_torchrun() -> None:
    done = subprocess.run([sys.executable, "-c", LAUNCHED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) == signal.SIGTERM
