"""Standard output that is closed, full or no longer read ends a command in one sentence or silently."""

import subprocess
import sys
from pathlib import Path

import pytest

#: Prints more than a pipe holds.
PROGRAM = """
import sys
from wean_fairseq.console import exit_status
sys.exit(exit_status("prog", lambda: "x" * 5_000_000))
"""


def run_in_shell(redirection: str) -> tuple[int, str]:
    """Return the exit status of the program, and what it wrote to standard error."""
    command = f'"$0" -c "$1" {redirection}; exit "${{PIPESTATUS[0]}}"'
    arguments = ["bash", "-c", command, sys.executable, PROGRAM]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_output() -> None:
    expected = (
        "prog: error: cannot write to standard output: No space left on device; make room, or send it elsewhere.\n"
    )
    assert run_in_shell(">/dev/full") == (2, expected)
    assert run_in_shell(">/dev/full 2>/dev/full")[0] == 2


def test_closed_output() -> None:
    expected = (
        "prog: error: standard output is closed, so the results cannot be printed; send it to a file or terminal.\n"
    )
    assert run_in_shell(">&-") == (2, expected)
    assert run_in_shell(">&- 2>&-") == (2, "")


def test_output_that_is_no_longer_read() -> None:
    """141 is the status of a program that SIGPIPE ended."""
    assert run_in_shell("| true") == (141, "")
