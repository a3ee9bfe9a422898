"""Test wean-inspect until it serves the page: an error is one sentence, and it listens only on this computer."""

import socket
import sys
from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.inspection import cli


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message with which the command refuses its arguments."""
    assert cli.main([*arguments, "--port", "0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()[-1]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cli, "_EXTRA", ())
    monkeypatch.setattr(cli, "configure_logging", lambda _program: None)  # pytest's own logging stays


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(cli, "_EXTRA", ("json", "starlette", "uvicorn"))
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert refused(capsys, "a=b", "--data", "c") == (
        "wean-inspect: error: this needs starlette, which is not installed: pip install 'wean-fairseq[inspect]', or in "
        "a checkout: pip install -c constraints.txt -e '.[inspect]'."
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x.pt", "--data", "d"], "'x.pt' is not of the form NAME=MODEL; write for example WEAN=x.pt."),
        (["=x.pt", "--data", "d"], "'=x.pt' is not of the form NAME=MODEL; write for example WEAN=x.pt."),
        (["a=", "--data", "d"], "'a=' is not of the form NAME=MODEL; write for example a=MODEL."),
        (["a\nb=x.pt", "--data", "d"], r"model: 'a\nb' is not a name that tables can show; choose another name."),
        (["a=x.pt", "a=y.pt", "--data", "d"], "MODEL: the name 'a' is given twice; give each MODEL its own name."),
        (
            ["a=x.pt", "b=y.pt", "--data", "d", "e", "f"],
            "--data takes one value for all or one for each of the 2, and has 3.",
        ),
        (
            ["a=x.pt", "--data", "d"],
            "there is no model x.pt: name a folder of wean-export, or a checkpoint of fairseq-train.",
        ),
    ],
)
def test_arguments_that_do_not_fit(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    assert refused(capsys, *arguments) == f"wean-inspect: error: {says}"


@pytest.mark.parametrize("option", ["data", "text"])
def test_the_data_of_a_folder_is_not_given(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "model.safetensors").touch()
    said = refused(capsys, "a=x.pt", f"b={tmp_path}", f"--{option}", "-", "/nowhere")
    assert said.endswith(f"error: the folder {tmp_path} has its own data and text: leave the option {option} out.")


def test_a_closed_standard_output_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Python's ``sys.stdout`` is None if the command is started with ``>&-``."""
    monkeypatch.setattr(cli, "load_systems", lambda args: [])
    monkeypatch.setattr("sys.stdout", None)
    assert refused(capsys, "a=b", "--data", "c").startswith("wean-inspect: error: standard output is closed, so the")


def test_a_taken_port_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} cannot be opened"):
            cli.open_port(port)


def test_it_listens_to_this_computer_alone():
    with cli.open_port(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    assert "--host" not in cli.build_parser().format_help()
