"""No output of a command overwrites an input, and output paths are checked before the work."""

import json

import pytest

from wean_fairseq.evaluation.cli import main
from wean_fairseq.reporting.plot_cli import main as plot

EVALUATION = json.dumps({"systems": {}, "data": {}})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "old.json").write_text(EVALUATION)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "log.tsv").write_text("nothing\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (main, ["paper-tables", "--results", "{}", "--output", "{}/old.json"]),
        (main, ["record", "{}/old.json", "--experiment", "old", "--command", "x", "--seed", "1", "--results", "{}"]),
        (plot, ["curves", "a={}/log.tsv", "--output", "{}/log"]),
        (plot, ["granularity", "--dump", "{}/log.tsv", "--output", "{}/log"]),
    ],
    ids=["paper-tables", "record", "curves", "granularity"],
)
def test_an_input_is_never_overwritten(command, arguments, folder, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert command([argument.format(folder) for argument in arguments]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (main, ["paper-tables", "--results", "{}", "--output", "{}"]),
        (plot, ["curves", "a={}/missing.log", "--output", "{}/folder"]),
    ],
    ids=["paper-tables", "curves"],
)
def test_a_place_that_cannot_be_written_is_named_before_anything_is_read(command, arguments, folder, capsys):
    assert command([argument.format(folder) for argument in arguments]) == 2
    assert "is a directory" in capsys.readouterr().err


def test_a_place_for_sheets_is_looked_at_before_the_outputs(folder, capsys):
    arguments = ["sheet", "--hyp", f"A={folder}/missing", "--out", f"{folder}/old.json"]
    assert main(arguments) == 2
    assert "old.json is not a folder" in capsys.readouterr().err
