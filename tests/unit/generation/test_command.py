"""Test that wean-generate writes one output line per input line, even after it was stopped and resumed."""

import json
import os
import re
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.generation.models import MOSES, build
from wean_fairseq.checkpoints import export
from wean_fairseq.errors import UserError
from wean_fairseq.generation import TextModel, cli, growing
from wean_fairseq.generation.growing import GrowingFile
from wean_fairseq.storage.files import write_text

LINES = ["What's the best way?", "", "How do I lose weight", "   ", 'who is "Zorblax", the café friend?'] * 5


@pytest.fixture(name="model")
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TextModel:
    """Return the model that the command loads. The options with which the command loads it are ignored."""
    model = build(tmp_path / "data", "copynet", MOSES)
    monkeypatch.setattr(cli, "load", lambda *_args, **_options: model)
    monkeypatch.setattr(cli, "configure_logging", lambda _program: None)  # this keeps pytest's own logging
    return model


@pytest.fixture(name="given")
def input_file(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def generate(*arguments: object) -> int:
    return cli.main([*([] if "--model" in arguments else ["--model", "x"]), *map(str, arguments)])


def test_a_line_for_every_line(model: TextModel, given: Path, tmp_path: Path):
    out = tmp_path / "out.txt"
    assert generate("--input", given, "--output", out, "--buffer-size", 7) == 0
    assert out.read_text(encoding="utf-8").split("\n") == [*model.generate(LINES), ""]
    assert {path.name for path in tmp_path.iterdir()} == {"data", "in.txt", "out.txt"}


@pytest.mark.parametrize(("content", "said"), [("what\n", "1 line in"), ("what\n\n", "2 lines in")])
def test_lines_are_counted(model: TextModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], content, said):
    (tmp_path / "in").write_text(content)
    assert generate("--input", tmp_path / "in", "--output", tmp_path / "out") == 0
    assert f"wean-generate: {said} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "search"),
    [
        ([], "--beam 4 --max-len-b 12 --search-preset copynet"),
        (["--beam", 3, "--nbest", 5, "--lenpen", 2], "--beam 5 --max-len-b 12 --lenpen 2.0 --search-preset copynet"),
        (["--sampling", "--sampling-topp", 0.5], "--beam 1 --max-len-b 12 --sampling --sampling-topp 0.5"),
        (["--constraints"], "--beam 4 --max-len-b 12 --constraints"),
    ],
)
def test_the_search_is_printed(model: TextModel, given: Path, tmp_path: Path, capsys, arguments, search):
    """The printed search has the options of the model and of the call, but not a preset that the call replaces."""
    model.task.cfg.search_preset = "copynet"
    assert generate("--input", given, "--output", tmp_path / "out", *arguments) == 0
    assert capsys.readouterr().err.endswith(f"; search: {search}\n")


def test_constraints_follow_the_line_after_tabs(model: TextModel, tmp_path: Path):
    (tmp_path / "in").write_text("what is it\tlose weight\tway\n\nhow do i\n", encoding="utf-8")
    line = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--beam", 6)
    assert generate(*line, "--constraints") == 0
    lines = (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]
    assert lines[0] == model.generate("what is it", constraints=["lose weight", "way"], beam=6)
    assert lines[1:] == ["", model.generate("how do i", constraints=[], beam=6)]


def test_a_line_with_constraints_but_no_sentence_is_named(model: TextModel, tmp_path: Path, capsys):
    """In earlier versions, the first constraint was read as the sentence."""
    (tmp_path / "in").write_text("what is it\tway\n\tway\n", encoding="utf-8")
    assert generate("--input", tmp_path / "in", "--output", tmp_path / "out", "--beam", 6, "--constraints") == 2
    assert "line 2: there are constraints, but the sentence has no words: give" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_words_send_no_commands_to_a_terminal(tmp_path: Path):
    """The words of a downloaded model's dictionary may contain control characters, which a terminal would execute.

    They are escaped on a terminal, but written unchanged to a file.
    """
    line = "a\x1b[2Jb\u202ec\td"
    leader, terminal = os.openpty()
    tty.setraw(terminal)
    for place in (os.ttyname(terminal), tmp_path / "out"):
        with GrowingFile(str(place), {}) as output:
            output.write(["x"], [line])
    assert os.read(leader, 100) == b"a\\x1b[2Jb\\u202ec\td\n"
    assert (tmp_path / "out").read_text(encoding="utf-8") == f"{line}\n"
    os.close(leader)
    os.close(terminal)


def test_a_full_disk_is_one_sentence(model: TextModel, given: Path, capsys: pytest.CaptureFixture[str]):
    assert generate("--input", given, "--output", "/dev/full") == 2
    said = capsys.readouterr().err
    assert "/dev/full cannot be written (No space left on device): make room, or choose another --output." in said
    assert "Traceback" not in said


def test_n_best_stand_side_by_side_with_scores(model: TextModel, given: Path, tmp_path: Path):
    assert generate("--input", given, "--output", tmp_path / "out", "--nbest", 2, "--scores") == 0
    lines = (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]
    expected = [
        "\t".join(f"{output.score:.4f}\t{output.text}" for output in item.outputs) for item in model.explain(LINES, 2)
    ]
    assert lines == expected
    assert generate("--input", given, "--output", tmp_path / "json", "--jsonl", "--n-best", 2) == 0
    entries = [json.loads(line) for line in (tmp_path / "json").read_text(encoding="utf-8").splitlines()]
    assert [entry["line"] for entry in entries] == list(range(1, 26))
    assert [output["text"] for output in entries[0]["outputs"]] == model.generate(LINES[0], n_best=2)
    assert len(entries[0]["outputs"][0]["copied_from"][0]) == len(entries[0]["source"])
    assert entries[1]["outputs"] == []


def stop_after(model: TextModel, buffers: int, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    explain, calls = model.explain, []

    def explain_until(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > buffers:
            raise error
        return explain(*args, **kwargs)

    monkeypatch.setattr(model, "explain", explain_until)


def test_what_was_stopped_goes_on(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.txt"
    expected = model.generate(LINES)
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate("--input", given, "--output", out, "--buffer-size", 4) == 130
    said = "stopped; the outputs of 8 lines are kept, and the same command continues from there\n"
    assert capsys.readouterr().err.endswith(said)
    assert not out.exists()
    with (tmp_path / "out.txt.part").open("a", encoding="utf-8") as part:
        part.write("half a li")  # an incomplete last line, as after a power failure
    seen: list[int] = []
    explain = model.explain
    monkeypatch.setattr(model, "explain", lambda lines, *a, **k: seen.append(len(lines)) or explain(lines, *a, **k))
    assert generate("--input", given, "--output", out, "--buffer-size", 4, "--nbest", 2) == 2
    assert "was begun with another model or other options" in capsys.readouterr().err
    given.write_text(given.read_text(encoding="utf-8").replace("weight", "money", 1), encoding="utf-8")
    assert generate("--input", given, "--output", out, "--buffer-size", 4) == 2
    assert "was begun with another input" in capsys.readouterr().err
    given.write_text(given.read_text(encoding="utf-8").replace("money", "weight", 1), encoding="utf-8")
    assert generate("--input", given, "--output", out, "--buffer-size", 3) == 0
    assert sum(seen) == 25 - 8
    assert out.read_text(encoding="utf-8").split("\n") == [*expected, ""]


CONTENTS: dict[str, Any] = {
    "the text steps": lambda model: setattr(model.text, "settings", replace(model.text.settings, lowercase=False)),
    "the dictionaries": lambda model: model.task.target_dictionary.symbols.reverse(),
    "the search": lambda model: model.search_options.update(lenpen=2.0),
    "--bert": lambda model: (Path(model.task.cfg.bert) / "config.json").write_text("{}"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_outputs_are_continued_with_the_same_content_only(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, name: str
):
    """A data folder that was prepared again has the same name, but other text steps."""
    (tmp_path / "bert").mkdir()
    for file in ("config.json", "vocab.txt", "model.safetensors"):
        (tmp_path / "bert" / file).write_bytes(bytes(8))  # the header of weights without tensors
    monkeypatch.setattr(model.task.cfg, "bert", str(tmp_path / "bert"), raising=False)
    line = ["--input", given, "--output", tmp_path / "out.txt", "--buffer-size", 4]
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate(*line) == 130
    CONTENTS[name](model)
    assert generate(*line) == 2
    assert f"was begun with other values of {name}: choose another" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_outputs_of_an_older_version_are_not_continued(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    """Its state file has the member ``draws``, and no hashes of the text steps and the search."""
    line = ["--input", given, "--output", tmp_path / "out.txt", "--buffer-size", 4]
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate(*line) == 130
    state = tmp_path / "out.txt.part.json"
    members = json.loads(state.read_text())
    del members["loaded"]
    state.write_text(json.dumps({**members, "draws": {}}), encoding="utf-8")
    assert generate(*line) == 2
    assert "was begun with an older version of wean-generate: choose another" in capsys.readouterr().err
    assert generate(*line, "--overwrite") == 0


def change_state(folder: Path, **values: object) -> None:
    state = folder / "out.txt.part.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | values), encoding="utf-8")


def remove_middle(part: Path) -> None:
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:3] + lines[4:]) + lines[3])


CHANGES: dict[str, Any] = {
    "a line is missing": lambda folder: remove_middle(folder / "out.txt.part"),
    "shorter": lambda folder: os.truncate(folder / "out.txt.part", 5),
    "empty": lambda folder: os.truncate(folder / "out.txt.part", 0),
    "sparse": lambda folder: [
        change_state(folder, bytes=1 << 43),
        os.truncate(folder / "out.txt.part", 1 << 43),
    ],
    "fewer lines are recorded": lambda folder: change_state(folder, lines=4),
    "no input hash": lambda folder: change_state(folder, input=7),
    "negative": lambda folder: change_state(folder, bytes=-1, lines=8),
    "another member": lambda folder: change_state(folder, more=1),
    "nested": lambda folder: (folder / "out.txt.part.json").write_text("[" * 100_000),
    "not UTF-8": lambda folder: (folder / "out.txt.part.json").write_bytes(b'{"lines": "\xff"}'),
    "huge": lambda folder: os.truncate(folder / "out.txt.part.json", 1 << 40),
    "no state": lambda folder: (folder / "out.txt.part.json").unlink(),
    "a pipe": lambda folder: ((folder / "out.txt.part.json").unlink(), os.mkfifo(folder / "out.txt.part.json")),
    "a link": lambda folder: (
        (folder / "out.txt.part").rename(folder / "b") and (folder / "out.txt.part").symlink_to("b")
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_part_is_never_continued(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
):
    """If the command resumed from a changed file, it would lose lines or mix in lines of another input."""
    out = tmp_path / "out.txt"
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate("--input", given, "--output", out, "--buffer-size", 4) == 130
    CHANGES[change](tmp_path)
    assert generate("--input", given, "--output", out) == 2
    assert not out.exists()


def test_a_state_without_outputs_is_a_leftover(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A run that is killed after it has renamed its outputs leaves the state, which has nothing to protect."""
    out, whole = tmp_path / "out.txt", tmp_path / "whole.txt"
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate("--input", given, "--output", out, "--buffer-size", 4) == 130
    (tmp_path / "out.txt.part").unlink()
    assert generate("--input", given, "--output", out, "--buffer-size", 4) == 0
    assert generate("--input", given, "--output", whole, "--buffer-size", 4) == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("sampled", ["option", "preset", "model"])
def test_random_outputs_are_continued_with_the_same_draws_only(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, sampled: str
):
    """The lines of a buffer share random numbers. The outputs of two seeds were mixed if a preset or model sampled."""
    options = {"option": ["--sampling"], "preset": ["--search-preset", "cdnpg-sampling"], "model": []}[sampled]
    if sampled == "preset":
        monkeypatch.setattr(model.task.cfg, "search_preset", "cdnpg-sampling")
    if sampled == "model":
        monkeypatch.setitem(model.search_options, "sampling", True)
    line = ["--input", given, "--output", tmp_path / "out.txt", "--buffer-size", 4, *options]
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate(*line) == 130
    for changed in (["--seed", 2], ["--buffer-size", 3], ["--batch-size", 2]):
        assert generate(*line, *changed) == 2
        assert f"was begun with other values of {changed[0]}: choose another" in capsys.readouterr().err
    assert generate(*line) == 0
    resumed = (tmp_path / "out.txt").read_bytes()
    assert generate(*line, "--overwrite") == 0
    assert (tmp_path / "out.txt").read_bytes() == resumed


def sparse(path: Path) -> None:
    """Make a file of 8 TiB that takes no space. Reading it would take an hour."""
    path.touch()
    os.truncate(path, 1 << 43)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "cannot be read (it is not a regular file)"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot be read (it is not a regular file)"),
        (lambda path: path.write_bytes(b"a" * ((1 << 24) + 1)), "line 1 of the input has more than 16,777,216 bytes"),
        (sparse, "line 1 of the input has more than 16,777,216 bytes"),
    ],
)
def test_an_input_without_an_end_is_refused(model: TextModel, tmp_path: Path, capsys, make, said):
    """Test that the command neither waits for a pipe without a writer nor reads an endless line into memory."""
    make(tmp_path / "in")
    assert generate("--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    assert said in capsys.readouterr().err


def test_the_input_is_never_overwritten(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with monkeypatch.context() as patch:
        stop_after(model, 2, patch, KeyboardInterrupt())
        assert generate("--input", given, "--output", out, "--buffer-size", 4) == 130
    before = part.read_bytes()
    for name in ("hard link", "symbolic link"):
        other = tmp_path / name
        other.symlink_to(part) if name == "symbolic link" else other.hardlink_to(part)
        assert generate("--input", other, "--output", out, "--overwrite") == 2
        assert part.read_bytes() == before
    assert generate("--input", part, "--output", out, "--overwrite") == 2
    assert "is read by this run, which would write it" in capsys.readouterr().err
    assert part.read_bytes() == before


@pytest.mark.parametrize(
    "name",
    ["in.txt", "link to the input", "model/config.json", "data/dict.src.txt", "text/manifest.json", "bert/vocab.txt"],
)
def test_a_file_that_is_read_is_never_the_output(model: TextModel, given: Path, tmp_path: Path, capsys, name: str):
    (tmp_path / "link to the input").symlink_to(given)
    for file in ("model/config.json", "text/manifest.json", "bert/vocab.txt"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text("a model", encoding="utf-8")
    model.text.folder, model.task.cfg.bert = tmp_path / "text", str(tmp_path / "bert")
    before = (tmp_path / name).resolve()
    content = before.read_bytes()
    arguments = ["--model", tmp_path / "model", "--input", given, "--output", tmp_path / name]
    assert generate(*arguments, "--overwrite") == 2
    assert "is read by this run, which would write it: choose another --output" in capsys.readouterr().err
    assert before.read_bytes() == content
    assert not list(tmp_path.rglob("*.part*"))


@contextmanager
def descriptors(*files: IO[Any]) -> Iterator[None]:
    """Use the files as the process's standard input and output."""
    kept = [os.dup(number) for number in range(len(files))]
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@pytest.mark.parametrize("descriptor", [0, None])
@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_output_that_is_added_to_the_input_is_refused(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, descriptor: int | None
):
    """A command that reads its own output would never end. The input and the output may be the same device."""
    read = Path("-") if descriptor == 0 else given
    before = given.read_bytes()
    for place, refused in ((given, True), (tmp_path / "new", False), (Path("/dev/null"), False)):
        with (place if place.name == "null" else given).open() as source, place.open("a") as added:
            monkeypatch.setattr("sys.stdout", added)
            says = pytest.raises(UserError, match="is read by this run, which would write it")
            outputs = GrowingFile(output, {}, reads=[read])
            with descriptors(source, added), says if refused else nullcontext(), outputs as file:
                file.write(["a"], ["b"])
        if place == tmp_path / "new":
            assert place.read_bytes() == b"b\n"
    assert given.read_bytes() == before


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_only_lines_in_the_state_are_said_to_be_kept(
    model: TextModel, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, failing: int
):
    """Test a disk that is full when the first, the second or the third state file is written.

    The first state file is written before any output line.
    """
    states: list[Path] = []

    def fill(path: Path, text: str) -> None:
        states.append(path)
        if len(states) == failing:
            raise OSError(28, "No space left on device", str(path))
        write_text(path, text)

    monkeypatch.setattr(growing, "write_text", fill)
    assert generate("--input", given, "--output", tmp_path / "out", "--buffer-size", 4) == 2
    said = capsys.readouterr().err
    assert ("the outputs of 4 lines are kept" in said) == (failing == 3)
    assert "8 lines" not in said
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.part", "out.part.json"] * (failing == 3)
    assert generate("--input", given, "--output", tmp_path / "out") == 0
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n") == [*model.generate(LINES), ""]


def test_the_data_of_a_folder_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(export, "is_export", lambda _path: True)
    assert generate("--text", tmp_path) == 2
    assert "the folder x has its own data and text: leave the option text out." in capsys.readouterr().err


def test_output_that_is_no_longer_read_ends_quietly(model: TextModel, given: Path, capsys):
    """141 is the status of a program that was ended by SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    assert generate("--input", given, "--output", f"/dev/fd/{writer}") == 141
    os.close(writer)
    assert capsys.readouterr().err == ""


def test_a_partial_file_that_is_a_fifo_is_named(model: TextModel, given: Path, tmp_path: Path, capsys):
    os.mkfifo(tmp_path / "out.part")
    assert generate("--input", given, "--output", tmp_path / "out") == 2
    assert "out.part cannot be written (it is not a regular file): make room, or choose an" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--output", "out.txt", "--overwrite"], "stopped; the same command starts again"), ([], "stopped")]
    + [(["--output", "/dev/null"], "stopped"), (["--output", "pipe"], "stopped")],
)
def test_what_is_said_at_ctrl_c_is_true(
    model: TextModel, given: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments, says
):
    """Only a run that writes a new file can be resumed later."""
    monkeypatch.chdir(given.parent)
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    stop_after(model, 2, monkeypatch, KeyboardInterrupt())
    assert generate("--input", given, "--buffer-size", 4, *arguments) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"wean-generate: {says}"
    os.close(reader)


def test_standard_output_that_is_a_file_is_added_to(model: TextModel, given: Path, tmp_path: Path):
    """A shell does this for ``{ echo first; wean-generate --output /dev/stdout; } > file``."""
    out = tmp_path / "out.txt"
    with given.open() as source, out.open("wb") as file, descriptors(source, file):
        os.write(1, b"first\n")
        assert generate("--input", given, "--output", "/dev/stdout") == 0
        os.write(1, b"last\n")
    assert out.read_text(encoding="utf-8").split("\n") == ["first", *model.generate(LINES), "last", ""]
    assert not list(tmp_path.glob("*.part*"))


def test_a_link_to_a_file_that_is_not_there_yet_stays(model: TextModel, given: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to("out.txt")
    assert generate("--input", given, "--output", tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 25


def test_a_file_that_appears_during_the_run_is_not_overwritten(
    model: TextModel, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    out, write = tmp_path / "out.txt", GrowingFile.write
    monkeypatch.setattr(GrowingFile, "write", lambda self, *lines: (write(self, *lines), out.write_text("mine\n"))[0])
    assert generate("--input", given, "--output", out) == 2
    assert (
        f"{out} was made by another program during this run. The outputs are in {out}.part" in capsys.readouterr().err
    )
    assert out.read_text() == "mine\n"
    assert len(Path(f"{out}.part").read_text(encoding="utf-8").splitlines()) == 25


def test_nothing_is_overwritten(model: TextModel, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.txt"
    out.write_text("mine\n")
    assert generate("--input", given, "--output", out) == 2
    assert "exists already: choose another --output, or pass --overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine\n"
    part = tmp_path / "new.txt.part"
    part.write_text("mine too\n")
    assert generate("--input", given, "--output", tmp_path / "new.txt") == 2
    assert generate("--input", given, "--output", tmp_path / "new.txt", "--overwrite") == 2
    assert "are not an unfinished output of wean-generate: move them away" in capsys.readouterr().err
    assert part.read_text() == "mine too\n"
    os.truncate(part, 0)
    with pytest.raises(UserError, match="no model"), GrowingFile(str(tmp_path / "new.txt"), {}):
        raise UserError("no model")
    assert part.exists()
    out.chmod(0o640)
    assert generate("--input", given, "--output", out, "--overwrite") == 0
    assert out.stat().st_mode & 0o777 == 0o640
    assert len(out.read_text(encoding="utf-8").splitlines()) == 25
    assert generate("--input", given, "--output", os.devnull) == 0
    (tmp_path / "link").symlink_to(out)
    assert generate("--input", given, "--output", tmp_path / "link", "--overwrite", "--nbest", 2) == 0
    assert (tmp_path / "link").is_symlink()
    assert "\t" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"fine\n\xff\xfe\n", "line 2 of .* is not UTF-8"), (None, "there is no file")],
)
def test_bad_input_is_one_sentence(model: TextModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], content, says):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    assert generate("--input", tmp_path / "bad", "--output", tmp_path / "out") == 2
    assert re.search(f"^wean-generate: error: {says}", capsys.readouterr().err, flags=re.MULTILINE)
    assert not list(tmp_path.glob("out*"))


def test_long_lines_are_cut_and_counted(model: TextModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model.task.cfg.max_source_positions = 4
    (tmp_path / "in").write_text("what\nwhat is the way\n\nwhat is the best\n")
    assert generate("--input", tmp_path / "in", "--output", tmp_path / "out") == 0
    assert "lines cut to the 3 words that the model reads: 2, first line 2" in capsys.readouterr().err
    assert len((tmp_path / "out").read_text().splitlines()) == 4


ANYTHING = st.text(
    st.one_of(
        st.characters(exclude_characters="\n"), st.sampled_from("\r\x0b\x0c\x1c\x85\u2028\u200b\ufeff <>@#\t\"'")
    ),
    max_size=20,
)


@given(lines=st.lists(ANYTHING, max_size=6), size=st.integers(1, 4))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_is_lost_or_shifted_whatever_is_in_it(model: TextModel, tmp_path: Path, lines: list[str], size: int):
    """Test that every line has the output that it has without the other lines.

    The lines contain no surrogates, because UTF-8 cannot encode them.
    """
    lines = [line.encode("utf-8", "replace").decode("utf-8") for line in lines]
    (tmp_path / "any").write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert generate("--input", tmp_path / "any", "--output", tmp_path / "o", "--overwrite", "--buffer-size", size) == 0
    found = (tmp_path / "o").read_bytes().decode("utf-8").split("\n")
    alone = [model.generate(line.removeprefix("\ufeff") if number == 0 else line) for number, line in enumerate(lines)]
    assert found == [*alone, ""]


def test_the_model_inside_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").touch()
    assert generate("--model", tmp_path) == 2
    assert f"there is no model {tmp_path}: did you mean {model}?" in capsys.readouterr().err


def test_the_command_answers_a_pipe(tmp_path: Path):
    done = subprocess.run(
        [Path(sys.executable).parent / "wean-generate", "--model", str(tmp_path)],
        input="a\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    says = f"there is no model {tmp_path}: name a folder of wean-export, or a checkpoint of fairseq-train."
    assert done.stderr == f"wean-generate: error: {says}\n"


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_a_number_that_json_cannot_hold_is_named_and_leaves_no_file(
    model: TextModel, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
):
    """The state of an unfinished output contains all options as JSON."""
    assert generate("--input", given, "--output", tmp_path / "out", "--lenpen", value) == 2
    assert "lenpen must be a number of -60 to 60, but is " in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"data", "in.txt"}
