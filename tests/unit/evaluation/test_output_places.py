"""Test that no output of a command overwrites an input, and that output paths are checked before the work starts."""

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


LOG = "epoch 001 | valid on 'valid' subset | loss 2.5 | num_updates 10\n"
SCORED = ["--hyp", "A={}/text", "--ref", "{}/text", "--metric", "exact@1", "--resamples", "0", "--quiet"]
RERANKED = ["rerank", "--tune", "5={}/hyp.log", "--test", "5={}/hyp.log", "--ref", "{}/text", "--ranks", "1"]
WRITERS = {
    "--json": (main, [*SCORED, "--json", "{}/out"], "out"),
    "--markdown": (main, [*SCORED, "--markdown", "{}/out"], "out"),
    "rerank --output": (main, [*RERANKED, "--output", "{}/out"], "out"),
    "rerank --json": (main, [*RERANKED, "--output", "{}/new", "--json", "{}/out"], "out"),
    "paper-tables": (
        main,
        ["paper-tables", "--table", "wean-table5", "--results", "{}/none", "--output", "{}/out"],
        "out",
    ),
    "record": (
        main,
        ["record", "{}/scores.json", "--experiment", "out", "--command", "x", "--seed", "1", "--results", "{}"],
        "out.json",
    ),
    "curves": (plot, ["curves", "a={}/train.log", "--metric", "loss", "--output", "{}/out"], "out.tsv"),
}


@pytest.mark.parametrize(("command", "arguments", "output"), WRITERS.values(), ids=WRITERS)
def test_an_older_file_is_replaced_only_if_that_is_asked_for(command, arguments, output, tmp_path, capsys):
    (tmp_path / "none").mkdir()
    (tmp_path / "text").write_text("a cat\n")
    (tmp_path / "hyp.log").write_text("S-0\ta cat\nH-0\t-1\ta cat\nD-0\t-1\ta cat\n")
    (tmp_path / "train.log").write_text(f"2026-01-01 00:00:00 | INFO | valid | {LOG}")
    assert main([argument.format(tmp_path) for argument in [*SCORED, "--json", "{}/scores.json"]]) == 0
    (tmp_path / output).write_text("of the user")
    before = {path.name for path in tmp_path.iterdir()}
    arguments = [argument.format(tmp_path) for argument in arguments]
    assert command(arguments) == 2
    assert f"{output} exists already: choose another name, or pass --overwrite" in capsys.readouterr().err
    assert (tmp_path / output).read_text() == "of the user"
    assert {path.name for path in tmp_path.iterdir()} == before
    assert command([*arguments, "--overwrite"]) == 0
    assert "of the user" not in (tmp_path / output).read_text()
