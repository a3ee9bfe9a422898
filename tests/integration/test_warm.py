"""The commands of ``warm`` start and end like separate processes. Shared fixtures are created only once."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration import warm
from tests.integration.commands import BIN, ENVIRONMENT, ROOT, USER_DIR
from tests.integration.conftest import once

STUB = """
import multiprocessing, os, sys, time

def cli_main():
    if sys.argv[1] == "wait":
        print(os.getpid(), flush=True)
        time.sleep(120)
    if sys.argv[1] == "interrupt":
        print("begun")
        raise KeyboardInterrupt
    if sys.argv[1] == "show":
        print(multiprocessing.get_start_method(), os.environ.get("ONLY_HERE"), *sys.path, sep="\\n")
    elif sys.argv[1] == "loaded":
        print(*(name for name in ("preloaded", "torch._dynamo", "wean_fairseq") if name in sys.modules))
        print(sys.stdout.errors, sys.path[0])
    else:
        time.sleep(0.1)
        return int(sys.argv[1])
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Create a program of ``warm`` whose argument selects what it does. Its folder has a long name with a space."""
    folder = tmp_path / f"a {'long ' * 40}"
    folder.mkdir()
    monkeypatch.setitem(warm.COMMANDS, "stub", "stub_of_a_command:cli_main")
    (folder / "stub_of_a_command.py").write_text(STUB, encoding="utf-8")
    (folder / "stub").symlink_to(warm.programs() / "fairseq-train")
    return [str(folder / "stub")]


def environment(stub: list[str]) -> dict[str, str]:
    return ENVIRONMENT | {"PYTHONPATH": str(Path(stub[0]).parent)}


def test_parallel_programs_each_have_their_own_status(stub: list[str]) -> None:
    lines = [[*stub, str(number)] for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        codes = pool.map(lambda line: subprocess.run(line, env=environment(stub), check=False).returncode, lines)
    assert list(codes) == list(range(10))


def test_no_other_thread_takes_the_status_of_a_command(stub: list[str]) -> None:
    """Test with active_children(), because Python then polls all children, and a status can be read only once."""
    with subprocess.Popen([*stub, "wait"], env=environment(stub), stdout=subprocess.PIPE, text=True) as program:
        process = int(program.stdout.readline())
        children = [child.pid for child in multiprocessing.active_children()]
        program.terminate()
    assert process not in children


@pytest.fixture
def heeded_interrupt() -> Iterator[None]:
    """Let the processes that the test starts handle SIGINT, although background jobs of a shell ignore it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("heeded_interrupt")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_a_program_ends_the_command(number: signal.Signals, stub: list[str]) -> None:
    with subprocess.Popen(
        [*stub, "wait"], env=environment(stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        process = int(program.stdout.readline())
        program.send_signal(number)
        _, said = program.communicate(timeout=60)
    assert program.returncode == -number
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    assert is_soon(lambda: not is_alive(process))


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def is_soon(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_an_interrupted_command_ends_as_by_its_signal(stub: list[str]) -> None:
    code, out, err = warm.run([*stub, "interrupt"], "", None, environment(stub), 60)
    assert (code, out) == (-signal.SIGINT, "begun\n")
    assert err.endswith("KeyboardInterrupt\n")


def test_a_command_sees_what_a_new_interpreter_sees(stub: list[str], tmp_path: Path) -> None:
    """Compare the module path and the start method of workers with a script in the environment's bin folder."""
    given = environment(stub)
    code, out, _ = warm.run([*stub, "show"], "", tmp_path, given | {"ONLY_HERE": "yes"}, 60)
    script = "import multiprocessing, sys; print(multiprocessing.get_start_method(), *sys.path[1:], sep='\\n')"
    fresh = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=True)
    method, *folders = fresh.stdout.splitlines()
    assert code == 0
    assert out.splitlines() == [method, "yes", str(Path(sys.executable).parent), *folders]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], f"preloaded torch._dynamo\nstrict {BIN}\n"),
        (["--user-dir", "wean_fairseq"], f"preloaded torch._dynamo\nstrict {BIN}\n"),
        (["--user-dir", USER_DIR], f"preloaded torch._dynamo wean_fairseq\nbackslashreplace {ROOT}\n"),
    ],
)
def test_a_command_finds_what_is_loaded_before(stub: list[str], arguments: list[str], expected: str) -> None:
    """Test that a command has the preloaded modules, because Python prints no message if it cannot load them.

    The plugin must use the streams of the command.
    """
    for _ in range(2):
        assert warm.run([*stub, "loaded", *arguments], "", None, environment(stub), 60)[:2] == (0, expected)


def test_what_cannot_be_made_is_tried_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    called = []

    def make(folder: Path) -> None:
        called.append(folder)
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        once(tmp_path_factory, "not-made", make)
    with pytest.raises(RuntimeError, match="no model"):
        once(tmp_path_factory, "not-made", make)
    assert len(called) == 1


def test_shared_data_is_whole_from_the_start(data: Path, text_data: Path) -> None:
    """Test that shared data has checksums, because a training would otherwise add them while another test runs."""
    assert (data / "checksums.sha256").exists()
    assert (text_data / "checksums.sha256").exists()
