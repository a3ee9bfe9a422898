"""Test that pipes and devices are refused as input files, immediately and in one sentence."""

import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from matplotlib.figure import Figure

from tests.unit.checkpoints.test_reading_checkpoints import READERS, state
from tests.unit.reporting.run_folder import make_run
from wean_fairseq.checkpoints.reading import read_checkpoint
from wean_fairseq.data.integrity import check_data
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.cli import main as evaluate
from wean_fairseq.reporting import report_cli
from wean_fairseq.storage.cli import main_checksum
from wean_fairseq.storage.files import open_regular, read_regular
from wean_fairseq.storage.manifest import NAME, Manifest
from wean_fairseq.text import prepared_text


def bind(path: Path) -> None:
    """Create a socket by its base name in its folder, because a name may have only about 100 characters."""
    before = Path.cwd()
    os.chdir(path.parent)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(path.name)
    os.chdir(before)


KINDS = {
    "FIFO": os.mkfifo,
    "socket": bind,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "folder": lambda path: path.mkdir(),
    "link to itself": lambda path: path.symlink_to(path),
}


@pytest.fixture(autouse=True)
def _at_once():
    def late(*_):
        raise AssertionError("it waits")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.fixture(params=KINDS)
def put(request):
    """Return a function that replaces a file by something that is not a regular file."""

    def place(path):
        path.unlink(missing_ok=True)
        KINDS[request.param](path)

    return place


def test_only_regular_files_are_opened(tmp_path, put):
    put(tmp_path / "thing")
    for read in (open_regular, read_regular):
        with pytest.raises(OSError):  # noqa: PT011 - the messages of the system differ
            read(tmp_path / "thing")
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"content"


# The reader "ensemble" is left out, because its messages call the reader "fairseq's".
@pytest.mark.parametrize("reader", [name for name in READERS if name != "ensemble"])
def test_a_checkpoint_that_is_no_file(tmp_path, put, reader):
    put(tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match="there is no checkpoint"):
        READERS[reader](tmp_path / "checkpoint_last.pt")


def test_a_manifest_that_is_no_file(tmp_path, put):
    torch.save(state(), tmp_path / "checkpoint_last.pt")
    put(tmp_path / NAME)
    for read in (lambda: Manifest(tmp_path), lambda: read_checkpoint(tmp_path / "checkpoint_last.pt")):
        with pytest.raises(UserError, match=f"{NAME} cannot be read"):
            read()


def test_an_export_whose_configuration_is_no_file(tmp_path, put):
    (tmp_path / "model.safetensors").touch()
    put(tmp_path / "config.json")
    with pytest.raises(UserError, match=r"there is no .*config\.json"):
        READERS["fairseq's"](str(tmp_path / "model.safetensors"))


def test_data_that_is_no_file(tmp_path, put, capsys):
    Dictionary().save(str(tmp_path / "dict.src.txt"))
    put(tmp_path / "dict.tgt.txt")
    if (tmp_path / "dict.tgt.txt").exists():
        with pytest.raises(UserError, match=r"dict\.tgt\.txt is not a regular file"):
            check_data(tmp_path, bool)
    assert main_checksum([str(tmp_path / "dict.tgt.txt")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_prepared_text_whose_record_is_no_file(tmp_path, put):
    put(tmp_path / "manifest.json")
    with pytest.raises(UserError, match=r"manifest\.json"):
        prepared_text(tmp_path, tmp_path)
    put(tmp_path / "preprocess.log")
    assert prepared_text(tmp_path) is None


def test_scores_that_are_no_file(tmp_path, put, capsys):
    put(tmp_path / "scores.json")
    (tmp_path / "page.md").write_text("<!-- results: scores -->\n<!-- /results -->\n")
    assert evaluate(["tables", str(tmp_path / "page.md"), "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["test.json", "text/manifest.json", "settings", "transformer/train.log"])
def test_a_report_of_a_run_with_what_is_no_file(tmp_path, put, name, monkeypatch):
    # Replace the drawing of figures, which takes most of the time of a report.
    monkeypatch.setattr(Figure, "savefig", lambda _figure, file, **_: file.write(b""))
    folder = make_run(tmp_path / "run")
    put(folder / name)
    put(folder / "transformer" / "other.err")
    put(folder / "transformer" / "dump.jsonl")
    put(folder / "transformer" / "checkpoint_best.pt")
    assert report_cli.main([str(folder), "--no-checkpoints", "--output", str(tmp_path / "report")]) in (0, 2)


@pytest.mark.parametrize("name", ["test.json", "settings", "transformer/train.log", "text/test.src"])
def test_a_report_of_a_run_with_a_sparse_file(tmp_path, name, monkeypatch):
    """A sparse file uses no disk space, but reading it would take all memory. Optional files are skipped."""
    # Replace the drawing of figures, which takes most of the time of a report.
    monkeypatch.setattr(Figure, "savefig", lambda _figure, file, **_: file.write(b""))
    folder = make_run(tmp_path / "run")
    os.truncate(folder / name, 1 << 40)
    assert report_cli.main([str(folder), "--no-checkpoints", "--output", str(tmp_path / "report")]) in (0, 2)
