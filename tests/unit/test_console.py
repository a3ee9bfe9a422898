"""Test that a closed, full or unread standard output ends a command with one message or silently."""

import argparse
import errno
import importlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wean_fairseq import commands
from wean_fairseq.console import (
    OneLineParser,
    discard_unwritable_output,
    exit_status,
    number,
    positive_number,
    print_message,
    print_text,
    whole_number,
)

PREPROCESS = Path(__file__).resolve().parents[2] / "preprocess"
EMPTY_PATHS = [
    "evaluate --ref", "evaluate --generated", "evaluate --json", "evaluate --bert-model", "evaluate sheet --out",
    "evaluate ratings", "evaluate ratings --key", "evaluate record", "evaluate record --data",
    "evaluate record --curves", "evaluate tables",
    "evaluate tables --results", "evaluate paper-tables --output", "evaluate rerank --output",
    "report", "report --output", "plot attention --data", "plot layers",
    "plot neighbours --dict", "checksum", "average", "average --output", "export --data", "inspect --bert",
    "generate --input", "train --output", "train --config",
]  # fmt: skip


@pytest.mark.parametrize("line", EMPTY_PATHS)
def test_an_empty_path_is_refused(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty path would be the current folder, or an option that is not given."""
    program, *arguments = line.split()
    monkeypatch.setattr(sys, "argv", [program, *arguments, ""])
    with pytest.raises(SystemExit) as end:
        getattr(commands, program)()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"wean-{program}[\w -]*: error: \S+ is empty: give a path(, or leave it out)?\.\n", said)


@pytest.mark.parametrize("script", sorted(path.stem for path in PREPROCESS.glob("*.py")))
def test_an_empty_path_of_a_script_is_refused(script: str, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.syspath_prepend(PREPROCESS)
    module = importlib.import_module(script)
    if not hasattr(module, "main"):
        pytest.skip("this module is not a script")
    with pytest.raises(SystemExit):
        module.main(["--help"])
    options = set(re.findall(r"(--[a-z-]+) (?:FILE|DIR|LOG|SRC TGT|EN SEN)", capsys.readouterr().out))
    assert options
    for option in options:
        with pytest.raises(SystemExit):
            module.main([option, "", ""])
        assert f"{script}.py: error: {option} is empty: give a path" in capsys.readouterr().err


#: The program prints more text than a pipe can hold.
PROGRAM = """
import sys
from wean_fairseq.console import exit_status
sys.exit(exit_status("prog", lambda: "x" * 5_000_000))
"""


def run_in_shell(redirection: str) -> tuple[int, str]:
    """Return the exit status and the standard error of the program."""
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


def test_output_that_the_program_has_closed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook for errors that nothing handles calls this function first, and would not show the error."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    sys.stdout.close()
    discard_unwritable_output()


def test_closed_output() -> None:
    expected = (
        "prog: error: standard output is closed, so the results cannot be printed; send it to a file or terminal.\n"
    )
    assert run_in_shell(">&-") == (2, expected)
    assert run_in_shell(">&- 2>&-") == (2, "")


PROGRESS = """
import sys
from tqdm import tqdm
from wean_fairseq.console import exit_status
sys.exit(exit_status("prog", lambda: sum(tqdm([3, 4], disable=None))))
"""


def test_closed_standard_error_does_not_stop_a_command() -> None:
    """A progress bar asks ``sys.stderr`` whether it is a terminal, and Python's ``sys.stderr`` is None here."""
    line = ["bash", "-c", '"$0" -c "$1" 2>&-', sys.executable, PROGRESS]
    assert subprocess.run(line, check=False).returncode == 7


#: The program prints its help, its version, or an error about its arguments.
HELP = """
import sys
from wean_fairseq.console import OneLineParser
parser = OneLineParser(prog="prog", description="x" * 20_000 if "--long" in sys.argv else "")
parser.add_argument("--version", action="version", version="prog 1")
parser.parse_args([argument for argument in sys.argv[1:] if argument != "--long"])
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--help", "--long"], ["--version"]], ids=str)
def test_help_that_cannot_be_printed_is_one_error(arguments: list[str]) -> None:
    """argparse ignores the write error, and Python then exits with status 0 or 120, depending on the text length."""

    def run(redirection: str) -> tuple[int, str]:
        line = ["bash", "-c", f'"$0" -c "$@" {redirection}', sys.executable, HELP, *arguments]
        result = subprocess.run(line, capture_output=True, text=True, check=False)
        return result.returncode, result.stderr

    full = "prog: error: cannot write to standard output: No space left on device; make room, or send it elsewhere.\n"
    closed = (
        "prog: error: standard output is closed, so the results cannot be printed; send it to a file or terminal.\n"
    )
    assert run(">/dev/full") == (2, full)
    assert run(">&-") == (2, closed)
    assert run(">/dev/full 2>/dev/full")[0] == 2
    assert run(">/dev/null 2>&-") == (0, "")
    assert run("--wrong >&-")[0] == 2


def test_control_characters_of_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """A system or file name may contain escape sequences, which would for example set the title of a terminal."""
    print_text("system\tBLEU\nWEAN\x1b]0;x\x07\t3.00\n")
    print_message("prog", "a\x1b[2Jb")
    assert capsys.readouterr() == ("system\tBLEU\nWEAN\\x1b]0;x\\x07\t3.00\n", "prog: a\\x1b[2Jb\n")


def test_control_characters_of_arguments_are_escaped(capsys: pytest.CaptureFixture[str]):
    """A file name that matches a pattern such as * may contain an escape sequence that clears the terminal."""
    with pytest.raises(SystemExit):
        OneLineParser(prog="prog").parse_args(["a\x1b[2J"])
    assert "unrecognized arguments: a\\x1b[2J" in capsys.readouterr().err


def test_a_file_name_that_is_too_long_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("prog", lambda: str(Path("n" * 300).is_file())) == 2
    assert capsys.readouterr().err.startswith("prog: error: the file name nnnn")


def test_an_error_of_the_system_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """Unexpected errors of the operating system, such as an unreadable disk, name the file, too."""

    def fail() -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "a\x1b[2J.txt")

    assert exit_status("prog", fail) == 2
    assert capsys.readouterr().err == (
        "prog: error: a\\x1b[2J.txt cannot be read or written (Input/output error): look at its disk, or "
        "choose another place.\n"
    )


@pytest.mark.parametrize(
    "text", ["0", "-1", "+1", "1_0", " 1", "0x10", "1e3", "", "\u0663", "2147483648", "9" * 19, "9" * 5000]
)
def test_what_is_no_number_is_refused_in_a_short_sentence(text: str) -> None:
    """Python refuses to read numbers of more than 4,300 digits with a ValueError."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number of 1 to 2147483647") as caught:
        whole_number(1)(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "0x10", "", "x" * 5000])
def test_only_numbers_as_programs_print_them_are_read(text: str) -> None:
    """Python's int() and float() also accept underscores and digits of other scripts."""
    for read in (number, positive_number):
        with pytest.raises(argparse.ArgumentTypeError, match=r"is not a (finite )?number") as caught:
            read(text)
        assert len(str(caught.value)) < 100
    assert (number("-1e3"), positive_number(" .5")) == (-1000, 0.5)


def test_a_long_argument_is_cut_in_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OneLineParser(prog="prog")
    parser.add_argument("--kind", choices=["a"])
    with pytest.raises(SystemExit):
        parser.parse_args(["--kind", "\x1b" * 9000])
    error = capsys.readouterr().err
    assert "\x1b" not in error and len(error) < 20_000  # each of 4,000 characters may be escaped


def test_an_unknown_option_gets_a_similar_one_or_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OneLineParser(prog="prog")
    parser.add_argument("--n-best")
    parser.add_argument("--old-name", help=argparse.SUPPRESS)
    for option, hint in (("--n_best", " (did you mean --n-best?)"), ("--other=3", ": choose from --n-best")):
        with pytest.raises(SystemExit):
            parser.parse_args([option, "2"])
        assert f"unrecognized arguments: {option} 2{hint}; see --help." in capsys.readouterr().err


def test_output_that_is_no_longer_read() -> None:
    """141 is the status of a program that SIGPIPE ended."""
    assert run_in_shell("| true") == (141, "")


def test_a_deleted_current_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """torch would end the process with a message about a library of torch."""
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()
    try:
        assert commands.generate() == 2
        assert exit_status("own_pairs", lambda: None) == 2
    finally:
        monkeypatch.chdir(tmp_path)
    message = "error: the current directory was deleted: change to another directory.\n"
    assert capsys.readouterr().err == f"wean-generate: {message}own_pairs: {message}"


def test_a_list_or_path_that_is_given_twice_is_refused_if_the_values_differ(capsys):
    """argparse would take the last one. Options that collect values are not affected, and a number is overridden."""
    parser = OneLineParser(prog="x")
    parser.add_argument("-s", "--src", metavar="FILE")
    parser.add_argument("--data", nargs="+")
    parser.add_argument("-b", "--beam", type=int)
    parser.add_argument("--add", action="append")
    for line, says in (
        ("--data a --data b", "--data is given twice, as a and b: give it once"),
        ("--data a b --data a", "--data is given twice, as a b and a: give it once"),
        ("-s a --src b", "-s/--src is given twice, as a and b: give it once"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(line.split())
        assert capsys.readouterr().err == f"x: {says}; see --help.\n"
    for _ in range(2):
        parsed = parser.parse_args("--data a --beam 3 --beam 4 -s a --add x --add y --data a -s a".split())
        assert (parsed.data, parsed.beam, parsed.add) == (["a"], 4, ["x", "y"])
    assert parser.parse_args(["--data", "b"]).data == ["b"]
