"""Test the findings of the fuzzing one by one, each with the shortest input that showed the defect."""

import importlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import _lcs_table

from tests.fuzz.text import assert_one_sentence, call
from wean_fairseq.console import print_text
from wean_fairseq.data.pairs import check_text
from wean_fairseq.data.typed_text import read_typed_lines
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.granularity import read_dump
from wean_fairseq.evaluation.human.design import Design
from wean_fairseq.evaluation.metrics.rouge import common_length
from wean_fairseq.evaluation.output_reader import parse_log, read_generated
from wean_fairseq.evaluation.tables import Table
from wean_fairseq.evaluation.text_files import write_atomically
from wean_fairseq.reporting.plot_cli import main as plot
from wean_fairseq.reporting.plot_cli import read_history
from wean_fairseq.training.state import main as record_state

LINE = "H-{}\t-1\ta\n"

# --- what fairseq-interactive reads ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\rb\nc\n", ["a\rb", "c"]),  # fairseq treats the carriage return as a line end and reads three lines
        (b"a\r\nb\r\n", ["a", "b"]),
        # fairseq keeps the first byte order mark as a part of the first word
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"", []),
        # fairseq reads the first constraint of an empty sentence as its text
        ("\u3000\ta \tb\t\n\t\n".encode(), ["\ta \tb", ""]),
        ("a\u2028b\x85c\x0bd\n\n".encode(), ["a\u2028b\x85c\x0bd", ""]),
    ],
)
def test_typed_lines_end_at_line_feeds_alone(tmp_path, monkeypatch, content, lines):
    (tmp_path / "typed").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="latin-1"))
    for given_as in (str(tmp_path / "typed"), "-"):
        buffers = list(read_typed_lines(given_as, 2))
        assert [line for buffer in buffers for line in buffer] == lines
        assert all(len(buffer) == 2 for buffer in buffers[:-1])


def test_typed_bytes_that_are_no_text_are_named_by_their_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xffb\n"), encoding="utf-8"))
    lines = read_typed_lines("-", 1)
    assert next(lines) == ["a"]
    with pytest.raises(UserError, match="line 2 of the input is not UTF-8"):
        next(lines)
    with pytest.raises(UserError, match="nowhere cannot be read"):
        next(read_typed_lines(str(tmp_path / "nowhere"), 1))


def test_what_is_no_pipe_can_be_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\n"))
    assert list(read_typed_lines("-", 2)) == [["a", "b"]]


def test_a_closed_input_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="the input is closed"):
        next(read_typed_lines("-", 1))


def test_commands_with_a_closed_input_say_so(tmp_path, monkeypatch, capsys):
    """Before the check, both commands failed with an AttributeError."""
    monkeypatch.setattr(sys, "stdin", None)
    options = ["--checkpoint", "model.pt", "--data", str(tmp_path), "--text", "-", "--output", str(tmp_path / "a")]
    assert plot(["attention", *options]) == 2
    assert "the input is closed" in capsys.readouterr().err
    assert record_state([str(tmp_path / "settings")]) == 2
    assert "the input is closed" in capsys.readouterr().out


# --- text that fairseq reads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # fairseq treats the carriage return as a line end and reads three lines
        (b"a\nb\rc\n", "line 2 of .* has a carriage return in it"),
        (b"\xef\xbb\xbfa\n", "line 1 of .* begins with a byte order mark"),
        (b"a\nb\n\xe9\n", "line 3 of .* is not UTF-8"),  # fairseq ends with a traceback for bytes that are not UTF-8
    ],
)
def test_raw_text_that_fairseq_misreads_is_refused(tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError, match=message):
        check_text(tmp_path / "text")


def test_other_raw_text_is_fine(tmp_path):
    (tmp_path / "text").write_bytes("a\r\n\nb \u2028\x85 c".encode())
    check_text(tmp_path / "text")
    check_text(tmp_path / "nowhere")


# --- logs -----------------------------------------------------------------------------------------------------------


def test_an_enormous_number_is_no_list_of_all_before_it(tmp_path):
    (tmp_path / "log").write_text(LINE.format(0) + LINE.format(10**15), encoding="utf-8")
    with pytest.raises(UserError, match=r"id 1, 2, 3, 4, 5 and 999999999999994 more of 0\.\.10{15} missing"):
        parse_log(tmp_path / "log")


# int() fails for the first and the last value, but accepts the second
@pytest.mark.parametrize("number", ["9" * 5000, "٣", "²"])
def test_what_fairseq_does_not_print_is_no_number(tmp_path, number):
    (tmp_path / "log").write_text(LINE.format(0) + LINE.format(number), encoding="utf-8")
    assert read_generated("", tmp_path / "log").hypotheses == ["a"]


# --- scores ---------------------------------------------------------------------------------------------------------


@given(*[st.lists(st.sampled_from("abcd"), max_size=30)] * 2)
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_the_longest_common_subsequence_is_that_of_the_table(first, second):
    """Compare with the length in rouge-score's table over all pairs of words."""
    assert common_length(first, second) == _lcs_table(first, second)[-1][-1]


def test_a_long_common_subsequence():
    words = [str(number) for number in np.random.default_rng(1).permutation(30_000)]
    assert common_length(words, [*words[:9], *words[20_000:], "x"]) == 10_009


# --- names ----------------------------------------------------------------------------------------------------------


def files(folder):
    for name in ("out", "ref"):
        (folder / name).write_text("a b c d\n", encoding="utf-8")
    return ["--ref", folder / "ref", "--metric", "bleu", "--resamples", 0, "--quiet"]


@pytest.mark.parametrize("name", ["a\nb", "\ud800", "\u2028", "\u202e", " "])
def test_a_name_that_no_table_can_show_is_refused(tmp_path, name):
    status, _, err = call(main, "--hyp", f"{name}={tmp_path / 'out'}", *files(tmp_path))
    assert status == 2
    assert_one_sentence(err, "wean-evaluate")
    assert "is not a name that tables can show" in err


@pytest.mark.parametrize("name", ["a\x1bb", "\u202e", "\x00"])
def test_a_name_of_a_group_or_set_that_no_table_can_show_is_refused(tmp_path, name):
    (tmp_path / "groups").write_text(f"{name}\n", encoding="utf-8")
    given_files = ["--hyp", f"A={tmp_path / 'out'}", *files(tmp_path)]
    for options in (["--groups", tmp_path / "groups", *given_files], ["--set", name, *given_files]):
        status, _, err = call(main, "--markdown", tmp_path / "md", *options)
        assert status == 2
        assert "is not a name that tables can show" in err
        assert not (tmp_path / "md").exists()


def test_a_bar_in_a_name_is_no_new_cell(tmp_path):
    assert Table(["a|b", "1"], []).as_markdown().startswith("| a\\|b | 1 |")
    options = ["--markdown", tmp_path / "md"]
    assert call(main, "--hyp", f"a|b={tmp_path / 'out'}", *files(tmp_path), *options)[0] == 0
    assert "\n| a\\|b | 100.00 |\n" in (tmp_path / "md").read_text(encoding="utf-8")


def test_file_names_that_are_no_utf8_stay_readable(tmp_path):
    """Test that the JSON contains the names of all files, even of files whose names are not UTF-8.

    A terminal without Unicode shows replacement characters for such names.
    """
    given_files = files(tmp_path)
    place = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    (tmp_path / "out").rename(place)
    command = "import sys; from wean_fairseq.evaluation.cli import main; sys.exit(main())"
    line = [sys.executable, "-c", command, "--hyp", f"中={place}", *map(str, given_files)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*line, "--json", str(tmp_path / "json")], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\n\\u4e2d" in done.stdout
    systems = json.loads((tmp_path / "json").read_text(encoding="utf-8"))["data"]["files"]
    assert "caf\udce9" in json.dumps(systems, ensure_ascii=False)


def test_what_cannot_be_printed_is_shown_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print_text("é\udc80\n")
    sys.stdout.flush()
    assert raw.getvalue() == b"\\xe9\\udc80\n"


def test_what_cannot_be_written_is_written_escaped(tmp_path):
    write_atomically(tmp_path / "f.json", '"caf\udce9"')
    assert json.loads((tmp_path / "f.json").read_text(encoding="utf-8")) == "caf\udce9"


# --- JSON, tables and sheets ----------------------------------------------------------------------------------------

UNREADABLE = [b"\xff", b"[" * 100_000, b"1" * 5000, b"{", b"[]", b"null"]
RESULT = {"experiment": "f", "command": "c", "seed": 1, "evaluation": {"systems": {}, "data": {}}}


@pytest.mark.parametrize("content", [*UNREADABLE, json.dumps(RESULT).encode()], ids=range(7))
def test_a_result_that_cannot_be_read_is_one_sentence(tmp_path, content):
    (tmp_path / "f.json").write_bytes(content)
    (tmp_path / "d.md").write_text("<!-- results: f -->\n<!-- /results -->\n", encoding="utf-8")
    status, _, err = call(main, "tables", tmp_path / "d.md", "--results", tmp_path)
    assert status == 2
    assert_one_sentence(err, "wean-evaluate")
    assert "f.json" in err


def test_a_document_that_is_no_text_is_one_sentence(tmp_path):
    (tmp_path / "d.md").write_bytes(b"a\xff")
    status, _, err = call(main, "tables", tmp_path / "d.md")
    said = f"{tmp_path / 'd.md'}: byte 0xff at position 2 is not UTF-8; convert the file to UTF-8 first."
    assert (status, err) == (2, f"wean-evaluate: error: {said}\n")


HEAD = '{"format": "wean-human-evaluation-1", "systems": [], "raters": [], '
KEY = HEAD + '"items": [%s], "kind": "%s", "criteria": %s, %s}'
ITEM = '{"name": "i", "sentence": 1, "systems": ["A"], "texts": ["a"], "source": ""}'


@pytest.mark.parametrize(
    "content",
    [
        *UNREADABLE,
        (KEY % ("", "likert", "[]", '"seed": 1')).encode(),
        (KEY % (ITEM, "other", "[]", '"seed": 1')).encode(),
        (KEY % (ITEM, "likert", "[1]", '"seed": 1')).encode(),
        (KEY % (ITEM, "likert", "3", '"seed": 1')).encode(),
    ],
    ids=range(10),
)
def test_a_key_that_cannot_be_read_is_one_sentence(tmp_path, content):
    (tmp_path / "key.json").write_bytes(content)
    with pytest.raises(
        UserError, match=r"key.json(: byte 0xff|.*; give the unchanged key.json that wean-evaluate sheet wrote)"
    ):
        Design.from_file(tmp_path / "key.json")


@pytest.mark.parametrize("text", ["a,b" * 50_000, "a\rb", 'a "b" \r c'], ids=["long", "return", "quotes"])
def test_sheets_of_any_text_can_be_read_back(tmp_path, text):
    (tmp_path / "out").write_text(f"{text}\n", encoding="utf-8", newline="")
    study = ["--sentences", 1, "--raters", 1, "--criteria", "good", "--out", tmp_path / "study"]
    assert call(main, "sheet", "--hyp", f"A={tmp_path / 'out'}", *study)[0] == 0
    sheet = tmp_path / "study" / "rater-1.csv"
    rated = sheet.read_bytes().removesuffix(b"\r\n") + b"4\r\n"
    sheet.write_bytes(rated)
    status, out, err = call(main, "ratings", sheet, "--key", tmp_path / "study" / "key.json")
    assert (status, err) == (0, "")
    assert "A: good 4.00" in out


def test_a_sheet_that_is_no_table_is_one_sentence(tmp_path):
    """Test a sheet for which the csv module raises csv.Error."""
    (tmp_path / "out").write_text("a\n", encoding="utf-8")
    study = ["--sentences", 1, "--raters", 1, "--out", tmp_path / "study"]
    assert call(main, "sheet", "--hyp", f"A={tmp_path / 'out'}", *study)[0] == 0
    (tmp_path / "sheet").write_bytes(b"rater,item\nrater-1,a\rb\n")
    status, _, err = call(main, "ratings", tmp_path / "sheet", "--key", tmp_path / "study" / "key.json")
    assert status == 2
    assert_one_sentence(err, "wean-evaluate")


# --- logs of trainings, and dumps -----------------------------------------------------------------------------------


def test_lines_that_only_look_like_fairseqs_are_passed_over(tmp_path):
    bad = ["epoch 001:     5 / 0 loss=5, num_updates=5", "epoch 001 | valid on 'valid' subset | num_updates nan"]
    bad += ['{"epoch": 1, "update": []}', '{"epoch": ' + "[" * 100_000 + "}", '{"epoch": 1, "update": "1e999"}']
    good = "epoch 001 | valid on 'valid' subset | loss 4 | num_updates 100"
    (tmp_path / "log").write_text("\n".join([*bad, good]), encoding="utf-8")
    history = read_history("A", str(tmp_path / "log"))
    assert [point.updates for point in history.valid] == [100]


@pytest.mark.parametrize("layers", ['{"one": [0.5]}', '{"1": ["x"]}', "[" * 100_000, '{"1": []}'], ids=range(4))
def test_a_dump_that_cannot_be_read_is_one_sentence(tmp_path, layers):
    line = f'{{"id": 0, "source": ["a"], "source_granularity": {layers}}}\n'
    (tmp_path / "dump").write_text(line, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(f"line 1 of {tmp_path / 'dump'} has no granularities")):
        read_dump(str(tmp_path / "dump"))


# --- preparation ----------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_alone_is_no_line(tmp_path: Path):
    reading = importlib.import_module("corpus.reading")
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbf")
    assert list(reading.read_lines(tmp_path / "f")) == []
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbf\na")
    assert list(reading.read_lines(tmp_path / "f")) == ["", "a"]
