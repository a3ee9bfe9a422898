"""Test that files which are not plain sentences are refused, with a command that writes the plain file."""

import json
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation import read_corpus, read_plain
from wean_fairseq.evaluation.corpus import check_systems
from wean_fairseq.evaluation.file_formats import check_format
from wean_fairseq.generation.cli import _line as generated_line
from wean_fairseq.generation.outputs import Generated, Output

TEXTS = ["The cat sat down.", 'It rained 3 days, "all" of them.', "Zoë's dog: 7.", "Nothing else"]
SCORES = ["-0.3421", "-1.2000", "-3e-05", "-0.9"]


def pairs(form: Callable[[str, str], str]) -> list[str]:
    return [form(score, text) for score, text in zip(SCORES, TEXTS, strict=True)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


# The commands in the messages are run, and their output must be TEXTS.
@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (pairs("{}\t{}".format), "columns with tabs"),
        (pairs(lambda score, text: f"{text}\t{score}"), "columns with tabs"),
        (pairs(lambda score, text: f"{text}\tother\t{score}"), "columns with tabs"),
        (pairs(lambda score, text: f"{score}\t{text}\t-9\tother"), "columns with tabs"),
        (pairs(lambda score, text: f"{text};other"), "columns with semicolons"),
        (pairs(lambda score, text: f"{text} ||| {score}"), r"columns with '\|\|\|'"),
        (pairs("{} ||| {}".format), r"columns with '\|\|\|'"),
        (pairs(lambda score, text: f"{text}|||other"), r"columns with '\|\|\|'"),
        ([f"{n} ||| {text} ||| F= 1 ||| {end}" for n, text in enumerate(TEXTS) for end in (-1, -2)], "an n-best list"),
        ([json.dumps({"id": 7, "prediction": text}) for text in TEXTS], "JSON"),
        ([json.dumps({"src": "s", "out": [{"score": 1, "text": text}]}) for text in TEXTS], "JSON"),
        ([json.dumps([text, "other"]) for text in TEXTS], "JSON"),
        ([json.dumps(TEXTS)], "JSON"),
        (json.dumps([{"text": text} for text in TEXTS], indent=2).split("\n"), "JSON"),
        ([f'<seg id="{n}">{text}</seg>' for n, text in enumerate(TEXTS)], "markup"),
    ],
)
def test_the_command_in_the_message_writes_the_plain_file(lines: list[str], name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "it's odd", lines)
    for read in (lambda: read_plain("A", path), lambda: read_corpus([path])):
        with pytest.raises(UserError, match=name) as error:
            read()
    (command,) = re.findall(r"(?:^|: )((?:cut|awk|sed|python) .*?)(?:\.$|\. Where)", str(error.value))
    command = command.replace("python -c", f"{sys.executable} -c", 1)
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, encoding="utf-8")
    assert shown.stdout.splitlines() == TEXTS


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([repr(text.split()) for text in TEXTS], "as Python prints"),
        ([repr(text.encode()) for text in TEXTS], "as Python prints"),
        ([json.dumps({"outputs": TEXTS}, indent=1)], "JSON"),
        ([json.dumps({"id": 7, "text": text})[:-3] for text in TEXTS], "JSON that is cut or damaged"),
        ([f"{text}\tb\tc" for text in TEXTS[:3]] + ["no tab"], "3 of 4 lines"),
    ],
)
def test_other_formats_are_named(lines: list[str], name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=name):
        read_plain("A", write(tmp_path / "odd", lines))


@pytest.mark.parametrize(
    "lines",
    [
        TEXTS,
        ["", *TEXTS, ""],
        ["one\ttab", *TEXTS],
        ["a {json: like} line", "[ 1 ] footnote", "{ }", "[]", "[a, b]"],
        ["|", "a | b", "x ||||| y", "||", "|||"],  # some corpora separate documents by five bars
        ["<unk> said", "a < b > c", "<3", "<person> left"],
        ['"quoted"', "'quoted'"],
        ["rain; it stopped", "wait ;)", "Tom&apos;s dog", "f(x);g(y);h", "x;"],
        ["12", "3.5", "-1"],
    ],
)
def test_plain_sentences_are_no_other_format(lines: list[str]) -> None:
    check_format(lines, "file")


def test_a_source_may_be_a_table(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", TEXTS)
    corpus = read_corpus([reference], write(tmp_path / "src", [f"a\t{text}" for text in TEXTS]))
    (note,) = corpus.notes
    assert note.startswith("the source may not be plain text, so the copy row means little: ")
    assert read_corpus([reference], reference).notes == []


def outputs_of_generate(tmp_path: Path, n_best: int, scores: bool = False, jsonl: bool = False) -> Path:
    """Return the output of ``wean-generate`` for four lines, the third of which is empty."""
    found = []
    for text in TEXTS:
        outputs = [Output(f"{text}{'!' * rank}", -0.5 - rank, ["x"], [True], None, None) for rank in range(n_best)]
        found.append(Generated(["x", "</s>"], [True, True], [] if text == TEXTS[2] else outputs))
    args = Namespace(jsonl=jsonl, scores=scores)
    return write(tmp_path / "out", [generated_line(args, number, item) for number, item in enumerate(found, 1)])


@pytest.mark.parametrize(
    ("n_best", "scores", "advice"),
    [
        (3, False, "several outputs or references .*cut -f1 "),
        (1, True, "numbers in the first.*cut -f2 "),
        (3, True, "numbers in the first.*cut -f2 "),
    ],
)
def test_columns_of_wean_generate_are_refused(n_best: int, scores: bool, advice: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=advice):
        read_plain("A", outputs_of_generate(tmp_path, n_best, scores))


def test_json_lines_of_wean_generate_are_read(tmp_path: Path) -> None:
    output = read_plain("A", outputs_of_generate(tmp_path, 2, jsonl=True))
    assert output.nbest == [[text, f"{text}!"] if text != TEXTS[2] else [""] for text in TEXTS]
    assert output.notes == ["out was read as JSON lines of wean-generate, with up to 2 output(s) of a sentence."]
    assert read_plain("A", outputs_of_generate(tmp_path, 1)).hypotheses == [*TEXTS[:2], "", TEXTS[3]]


#: These numbers must not be accepted. NaN and -Infinity are not JSON, 1e999 overflows to infinity, and Python refuses
#: integers of 6,000 digits.
NUMBERS = ["NaN", "-Infinity", "1e999", "9" * 6000]


def with_number(number: str, place: int, lines: list[str]) -> list[str]:
    """Replace the score in the line with the index ``place``."""
    return [line.replace("-0.5", number) if at == place else line for at, line in enumerate(lines)]


@pytest.mark.parametrize("value", [*NUMBERS, "[" * 100_000 + "]" * 100_000])
def test_json_with_odd_numbers_or_depth_is_not_scored_as_text(value: str, tmp_path: Path) -> None:
    path = write(tmp_path / "out", [f'{{"text": "{text}", "score": {value}}}' for text in TEXTS])
    with pytest.raises(UserError, match="holds JSON, not one sentence per line"):
        read_plain("A", path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda lines: [*lines[:3], lines[3][:40]],
            "line 4: this is not a line of wean-generate --jsonl, or it is cut",
        ),
        (lambda lines: [lines[0][:9], *lines[1:]], "line 1: this is not a line of wean-generate --jsonl, or it is cut"),
        (lambda lines: [lines[0][9:], *lines[1:]], "line 1: this is not a line of wean-generate --jsonl, or it is cut"),
        (lambda lines: lines[:1] + lines[2:], 'line 2: its "line" is 3; keep the output of one run'),
        (lambda lines: [lines[0], *lines], 'line 2: its "line" is 1;'),
        (lambda lines: [*lines, "{}"], "line 5: this is not a line"),
        (lambda lines: [*lines, ""], "line 5: this is not a line"),
        *((partial(with_number, number, 0), "line 1: this is not a line") for number in NUMBERS),
        *((partial(with_number, number, 3), "line 4: this is not a line") for number in NUMBERS),
    ],
)
def test_damaged_json_lines_of_wean_generate(harm: Callable, message: str, tmp_path: Path) -> None:
    path = outputs_of_generate(tmp_path, 1, jsonl=True)
    with pytest.raises(UserError, match=message):
        read_plain("A", write(path, harm(path.read_text("utf-8").splitlines())))


def change_outputs(path: Path, change: Callable[[list], list]) -> Path:
    """Change the outputs in the second line of ``wean-generate --jsonl``."""
    lines = path.read_text("utf-8").splitlines()
    entry = json.loads(lines[1])
    entry["outputs"] = change(entry["outputs"])
    return write(path, [lines[0], json.dumps(entry), *lines[2:]])


@pytest.mark.parametrize(
    "change",
    [lambda outputs: outputs[::-1], lambda outputs: [outputs[0], outputs[2], outputs[1]]],
    ids=["worst-first", "last-two-exchanged"],
)
def test_json_lines_that_are_not_best_first_are_refused(change: Callable[[list], list], tmp_path: Path) -> None:
    path = change_outputs(outputs_of_generate(tmp_path, 3, jsonl=True), change)
    with pytest.raises(UserError, match="out, line 2: its outputs are not best first; keep the output of"):
        read_plain("A", path)


def test_equal_draws_of_sampling_are_read(tmp_path: Path) -> None:
    """Sampling may draw one text twice, and its score is then the same."""
    path = change_outputs(outputs_of_generate(tmp_path, 3, jsonl=True), lambda outputs: [outputs[0], *outputs[:2]])
    first, second, third = read_plain("A", path).nbest[1]
    assert first == second != third


def test_json_lines_have_the_sources_of_the_outputs(tmp_path: Path) -> None:
    """The sources are compared with the test set like the S- lines of a log."""
    assert read_plain("A", outputs_of_generate(tmp_path, 1, jsonl=True)).logged == {"S": ["x "] * 4}
    assert read_plain("A", outputs_of_generate(tmp_path, 1)).logged == {}


def test_short_lists_and_lists_without_scores_are_read(tmp_path: Path) -> None:
    """The third line is empty and has no outputs, so it is not reported."""
    path = change_outputs(outputs_of_generate(tmp_path, 3, jsonl=True), lambda outputs: outputs[:2])
    assert read_plain("A", path).short_lists == "1 sentence has fewer than 3 hypotheses (line 2)."
    path = change_outputs(outputs_of_generate(tmp_path, 3, jsonl=True), lambda outputs: [{"text": "a"}, *outputs])
    assert read_plain("A", path).hypotheses[1] == "a"


def test_a_repeated_input_is_named(tmp_path: Path) -> None:
    corpus = read_corpus([write(tmp_path / "ref", TEXTS)])
    system = read_plain("A", write(tmp_path / "out", [text for text in TEXTS for _ in range(3)]))
    with pytest.raises(UserError, match=r"has 12 lines but the reference has 4: .* awk 'NR % 3 == 1' keeps the first"):
        check_systems([system], corpus)
