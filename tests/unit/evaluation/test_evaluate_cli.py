"""Test the command ``wean-evaluate``: tables, JSON, Markdown, and an error in one sentence for every invalid input."""

import csv
import hashlib
import io
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import ValidationError, convert

import wean_fairseq
from wean_fairseq.evaluation import Evaluation, text_files
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.metrics import LengthRatio
from wean_fairseq.evaluation.presets import METRIC_PRESETS

SOURCES = ["how can i learn to cook well", "where is the best book on birds", "is it raining in the north"]
REFERENCES = ["where is the way to learn cooking", "which book on birds is best", "does it rain up north"]
OUTPUTS = ["how do i learn to cook", "where is the best book on birds", ""]
FAST = ["--resamples", "20", "--trials", "20", "--quiet"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="run")
def make_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Write the example files, change to their folder, and return a function that runs the command."""
    monkeypatch.chdir(tmp_path)
    for name, lines in (("src", SOURCES), ("ref", REFERENCES), ("hyp", OUTPUTS), ("other", SOURCES[::-1])):
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("short").write_text("one line\n", encoding="utf-8")
    Path("link").symlink_to("hyp")
    Path("latin").write_bytes(b"fine\nna\xefve\nfine\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, *FAST])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_scores_are_read_back_as_they_were_written(run: Run) -> None:
    arguments = [
        "--hyp",
        "A=hyp",
        "A=other",
        "B=other",
        "B=hyp",
        "--ref",
        "ref",
        "--src",
        "src",
        "--correction",
        "holm",
    ]
    assert run(*arguments, "--json", "out.json", "--metric", "bleu", "ter")[0] == 0
    content = json.loads(Path("out.json").read_text(encoding="utf-8"))
    evaluation = convert(content, Evaluation)
    assert evaluation.as_json() == content
    assert (list(evaluation.scores), evaluation.comparisons[0].metric) == (["copy-source", "A", "B"], "bleu")


@pytest.mark.parametrize(
    "change",
    [
        {"systems": {}},
        {"systems": {}, "columns": {"bleu": {"label": "BLEU", "preset": "", "signature": "s"}}},
        {"columns": {"bleu": {"label": "BLEU", "preset": "", "signature": "s", "direction": "up"}}},
        {"columns": {"sari": {"label": "SARI", "preset": "", "signature": "s"}}},
        {
            "pairwise": [
                {"p_values": {"bootstrap": 0.1}, "difference": 1, "metric": "sari", "baseline": "a", "system": "b"}
            ]
        },
        {"systems": {"a": {"bleu": {"score": "9", "signature": "s"}}}},
        {"systems": {"a": {"bleu": {"score": 9.0, "signature": None}}}},
        {"systems": {"a": {"bleu": {"score": 9.0, "signature": "s", "ci": [1.0]}}}},
        {"pairwise": [{"p_values": {"bootstrap": "0"}, "difference": 1}]},
        {"pairwise": [{"p_values": {}, "difference": 1, "metric": "bleu", "baseline": "a", "system": "b"}]},
        {"data": {"files": {"source": [{"name": "x"}]}}},
    ],
)
def test_something_else_is_no_evaluation(change: dict[str, Any]) -> None:
    good = {"systems": {"a": {"bleu": {"score": 9, "signature": "s"}}}, "data": {}}
    assert convert(good, Evaluation).scores["a"]["bleu"].score == 9
    with pytest.raises(ValidationError, match=r"Expected|Object missing|no scores|no signature|Invalid enum"):
        convert({**good, **change}, Evaluation)


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (
            lambda file: file["systems"]["A"]["bleu"].update(score=99.0),
            "'bleu' of 'A' is 99.0, but the mean of its runs",
        ),
        (lambda file: file["systems"]["C"]["ter"].update(score=99.0), "a test gives the difference"),
        (lambda file: file["pairwise"][-1].update(difference=7.0), "difference 7.0 of 'D' and 'C' by 'ter', but their"),
        (lambda file: file["systems"]["D"]["ter"].update(ci=[3.0, 2.0]), "the interval of 'ter' of 'D' ends below its"),
        (lambda file: file["systems"]["C"]["ter"]["sentences"].pop(), "'ter' of 'C' has 2 scores of sentences, but"),
        (lambda file: file["data"].update(sentences=4), "'ref' of references has 3 lines, but there are 4 sentences"),
        (lambda file: file["systems"].pop("D"), "'other' is a file of 'D', which has no scores"),
        (lambda file: file["systems"]["D"].pop("ter"), "a test compares 'D' with 'C', but one has no score 'ter'"),
    ],
)
def test_scores_that_were_edited_are_refused(run: Run, edit: Callable[[dict[str, Any]], object], fault: str) -> None:
    """Edit one member of a file with systems of two runs, or of a file with systems of one run and their tests."""
    for name, systems in (("runs", ["A=hyp", "A=other", "B=other", "B=hyp"]), ("tests", ["C=hyp", "D=other"])):
        options = ["--ref", "ref", "--sentences", "--metric", "bleu", "ter", "--json", name]
        assert run("--hyp", *systems, *options)[0] == 0
    content = json.loads(Path("runs" if "'A'" in fault else "tests").read_text(encoding="utf-8"))
    assert convert(content, Evaluation).scores
    edit(content)
    with pytest.raises(ValidationError) as error:
        convert(content, Evaluation)
    assert fault in str(error.value)
    Path("edited").write_text(json.dumps(content), encoding="utf-8")
    status = main(["record", "edited", "--experiment", "x", "--command", "c", "--seed", "1"])
    assert (status, Path("results").exists()) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--src", "src", "--src", "other"], "--src is given twice, as src and other: give it once"),
        (["--groups", "src", "--groups", "other"], "--groups is given twice, as src and other: give it once"),
        (["--set", "a", "--src", "src", "--src", "other"], "--src is given twice, as src and other: give it once"),
    ],
)
def test_two_files_of_one_option_are_refused(
    run: Run, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("--hyp", "X=hyp", "--ref", "ref", *arguments)
    assert (ended.value.code, message in capsys.readouterr().err) == (2, True)


def test_one_file_may_be_repeated_and_a_set_may_have_another(run: Run) -> None:
    files = ["--hyp", "X=hyp", "--ref", "ref", "--src", "src"]
    assert run(*files, "--src", "src", "--metric", "bleu")[0] == 0
    assert run(*files, "--metric", "bleu", "--json", "sets", "--set", "a", "--set", "b", "--src", "other")[0] == 0
    sets = json.loads(Path("sets").read_text(encoding="utf-8"))["sets"]
    assert [sets[name]["data"]["files"]["source"][0]["name"] for name in "ab"] == ["src", "other"]
    assert [len(sets[name]["data"]["files"]["systems"]) for name in "ab"] == [1, 1]


def test_table_has_the_copy_row_signatures_counts_and_warnings(run: Run) -> None:
    status, out, _ = run("--hyp", "X=hyp", "--ref", "ref", "--src", "src")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "3 sentences, 1 reference"
    assert lines[3].split()[:3] == ["system", "BLEU", "BLEU-2"]
    assert [line.split()[0] for line in lines[4:6]] == ["copy-source", "X"]
    assert "bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in out
    assert "warning: X: 1 empty hypotheses (line 3), scored as empty." in out
    assert "warning: copying the source beats X on" in out


def test_json_has_the_documented_shape(run: Run, tmp_path: Path) -> None:
    arguments = ["--hyp", "X=hyp", "Y=other", "--ref", "ref", "ref", "--src", "src", "--metric", "bleu", "distinct-1"]
    status, _, _ = run(*arguments, "--json", "deep/out.json", "--sentences")
    content = json.loads(Path("deep/out.json").read_text(encoding="utf-8"))
    assert status == 0
    assert list(content) == ["columns", "systems", "pairwise", "data"]
    bleu = content["columns"]["bleu"]
    signature = bleu.pop("signature")
    assert bleu == {"label": "BLEU", "preset": "", "group": "", "direction": "higher"}
    assert signature.startswith("nrefs:2|case:mixed")
    assert content["columns"]["distinct-1"]["direction"] is None
    assert list(content["systems"]) == ["copy-source", "X", "Y"]
    cell = content["systems"]["X"]["bleu"]
    assert set(cell) == {"score", "ci", "sentences"}
    assert cell["ci"][0] <= cell["ci"][1]
    assert len(cell["sentences"]) == 3
    # distinct-1 depends on the whole set, so it has no resamples
    assert content["systems"]["X"]["distinct-1"]["ci"] is None
    (pair,) = content["pairwise"]
    assert (pair["metric"], pair["baseline"], pair["system"]) == ("bleu", "X", "Y")
    assert list(pair["p_values"]) == ["bootstrap", "randomization"]
    assert all(0 < p_value <= 1 for p_value in pair["p_values"].values())
    # the first two lines match the same number of n-grams in both systems
    assert (pair["differing"], pair["corrected"]) == (1, None)
    files = content["data"]["files"]
    assert files["systems"][0]["name"] == "hyp"
    assert files["systems"][0]["empty"] == 1
    assert len(files["references"]) == 2
    assert any(warning.startswith("X: 1 empty hypotheses") for warning in content["data"]["warnings"])
    assert str(tmp_path) not in json.dumps(content)


def test_without_options_a_score_has_its_interval_alone(run: Run) -> None:
    run("--hyp", "X=hyp", "--ref", "ref", "--src", "src", "--json", "out.json")
    content = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert {tuple(cell) for cells in content["systems"].values() for cell in cells.values()} == {("score", "ci")}


def test_same_seed_same_file(run: Run) -> None:
    arguments = ["--hyp", "X=hyp", "Y=other", "--ref", "ref", "--src", "src", "--json"]
    run(*arguments, "a.json")
    run(*arguments, "b.json")
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_markdown(run: Run) -> None:
    run("--hyp", "X=hyp", "--ref", "ref", "--src", "src", "--preset", "paper:wean-pwkp", "--markdown", "t.md")
    lines = Path("t.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("| system | paper:wean-pwkp: BLEU | standard: BLEU | standard: SARI |")
    assert lines[2].startswith("| *copy-source* |")


def test_generated_log_equals_plain_file(run: Run) -> None:
    order = (2, 0, 1)
    log = "".join(f"S-{i}\t{SOURCES[i]}\nH-{i}\t-0.5\t{OUTPUTS[i]}\nP-{i}\t-0.5\n" for i in order)
    Path("gen.log").write_text(log, encoding="utf-8")
    _, plain, _ = run("--hyp", "gen=hyp", "--ref", "ref", "--src", "src")
    for argument in ("gen=gen.log", "gen.log"):  # without a name, the file's name is used
        _, generated, _ = run("--generated", argument, "--ref", "ref", "--src", "src")
        assert generated == plain


@pytest.mark.parametrize("preset", ["standard", *METRIC_PRESETS])
@pytest.mark.usefixtures("punkt")
def test_every_preset_runs_with_standard_numbers_beside_it(run: Run, preset: str) -> None:
    if preset == "paper:easse":
        pytest.importorskip("readability")
    status, out, _ = run("--hyp", "X=hyp", "--ref", "ref", "--src", "src", "--preset", preset)
    assert status == 0
    assert f"[{preset}]" in out
    assert "[standard]" in out


def test_chinese_is_not_left_to_13a(run: Run) -> None:
    Path("zh").write_text("今天天气很好\n我们出去玩\n好吗\n", encoding="utf-8")
    _, out, _ = run("--hyp", "X=zh", "--ref", "zh", "--metric", "bleu", "rouge-l")
    assert out.splitlines()[3].split() == ["X", "100.00", "100.00"]
    assert "tok:zh" in out
    assert "standard metrics use --tokenize zh" in out


def test_without_source_it_says_what_is_missing(run: Run) -> None:
    _, out, _ = run("--hyp", "X=hyp", "--ref", "ref")
    assert "copy-source" not in out.splitlines()[4]
    assert "warning: no source given (--src)" in out
    assert "left out, because they compare with the source (--src): sari, ibleu, ibleu-0.7, self-bleu" in out


def test_topics_are_sources_without_a_copy(run: Run) -> None:
    _, plain, _ = run("--hyp", "X=hyp", "--ref", "ref", "--src", "src", "--metric", "topic-coverage")
    _, out, _ = run("--hyp", "X=hyp", "--ref", "ref", "--topics", "src", "--metric", "topic-coverage")
    assert "copy" not in out
    rows = [line.split() for line in plain.splitlines() if "copy" not in line]
    assert [line.split() for line in out.splitlines()] == rows


BAD = [
    (["--hyp", "X=hyp", "--ref", "ref", "--src", "src", "--topics", "src"], "give one of them"),
    (["--hyp", "X=hyp"], "no reference file; give one or more with --ref"),
    (["--ref", "ref"], "no system to score; give --hyp NAME=FILE"),
    (["--hyp", "hyp", "--ref", "ref"], "--hyp 'hyp' is not of the form NAME=FILE"),
    (["--hyp", "X=absent", "--ref", "ref"], "absent does not exist"),
    (["--hyp", "X=short", "--ref", "ref"], "system X (short) has 1 line but the reference has 3: it is too short"),
    (
        ["--hyp", "X=hyp", "--ref", "ref", "short"],
        "reference short has 1 line but reference ref has 3: it is too short",
    ),
    (["--hyp", "X=hyp", "--ref", "ref", "--src", "short"], "source short has 1 line"),
    (["--hyp", "X=latin", "--ref", "ref"], "latin, line 2: byte 0xef at position 3 is not UTF-8"),
    (["--set", "one", "--hyp", "X=hyp", "--ref", "ref", "--set", "one"], "--set one: give every test set its own name"),
    (["--set", "one", "--hyp", "X=hyp", "--ref", "short"], "--set one: system X (hyp) has 3 lines"),
    (["--set", "one", "--hyp", "X=hyp", "--ref", "ref", "--json", "o"], "--json is for all test sets; give it before"),
    (["--hyp", "X=hyp", "--ref", "ref", "--json", "ref"], "--json ref would overwrite ref; choose another name"),
    (["--hyp", "X=link", "--ref", "ref", "--json", "./hyp"], "--json ./hyp would overwrite link; choose another name"),
    (
        ["--hyp", "X=hyp", "--ref", "ref", "--json", "o", "--markdown", "deep/../o"],
        "--markdown deep/../o would overwrite the output of --json; choose another name",
    ),
    (["--hyp", "copy-source=hyp", "--ref", "ref"], "call the system something else"),
    (["--hyp", "X=hyp", "--ref", "ref", "--metric", "sari"], "--metric sari compares with the source"),
    (["--hyp", "X=hyp", "--ref", "ref", "--metric", "blue"], "unknown metric 'blue'"),
    (["--hyp", "X=hyp", "--ref", "ref", "--preset", "paper:x"], "unknown preset 'paper:x'"),
    (["--hyp", "X=hyp", "--ref", "ref", "--json", "."], "is a directory"),
    (["--hyp", "X=hyp", "--ref", "ref", "--json", "hyp/x.json"], "hyp/x.json cannot be written"),
    (["--generated", "X=hyp", "--ref", "ref"], "hyp holds no H- lines of fairseq-generate"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_sentence_and_a_status(run: Run, arguments: list[str], message: str) -> None:
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("wean-evaluate: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["hyp", "latin", "link", "other", "ref", "short", "src"]
    assert Path("ref").read_text(encoding="utf-8").splitlines() == REFERENCES


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_places_are_looked_at_before_anything_is_scored(run: Run, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """An unwritable place is simulated, because root may write anywhere."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("wean_fairseq.evaluation.cli.score", lambda args: pytest.fail("scored"))
    status, _, err = run("--hyp", "X=hyp", "--ref", "ref", option, "new/out")
    assert status == 2
    assert "new/out cannot be written" in err and "is write-protected" in err
    assert not Path("new").exists()


def test_a_failed_run_leaves_the_old_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.json").write_text("precious", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    status, _, err = run("--hyp", "X=hyp", "--ref", "ref", "--json", "out.json", "--overwrite")
    assert status == 2
    assert "out.json cannot be written (No space left on device)" in err
    assert Path("out.json").read_text(encoding="utf-8") == "precious"
    assert not list(Path().glob(".out.json*"))


def test_groups_are_scored_by_themselves_too(run: Run) -> None:
    """Compare with the scores of the lines of the group as a separate data set."""
    Path("groups").write_text("easy\nhard\neasy\n", encoding="utf-8")
    metrics = ["--metric", "exact@1", "bleu", "distinct-1"]
    Path("mixed").write_text("\n".join([REFERENCES[0], OUTPUTS[1], OUTPUTS[2]]) + "\n", encoding="utf-8")
    status, out, _ = run("--hyp", "X=mixed", "--ref", "ref", "--groups", "groups", *metrics, "--json", "all.json")
    assert status == 0
    assert "--groups leaves out the metrics of the whole output (distinct-1)." in out
    content = json.loads(Path("all.json").read_text(encoding="utf-8"))
    assert content["data"]["groups"] == {"easy": 2, "hard": 1}
    cells = content["systems"]["X"]
    keys = ["exact@1", "exact@1[easy]", "exact@1[hard]", "bleu", "bleu[easy]", "bleu[hard]", "distinct-1"]
    assert list(cells) == keys
    assert cells["exact@1[easy]"]["score"] == 50.0
    column = content["columns"]["exact@1[easy]"]
    assert (column["label"], column["group"]) == ("exact@1", "easy")
    assert column["signature"].endswith("|group:easy")
    for group, lines in (("easy", [0, 2]), ("hard", [1])):
        for name in ("mixed", "ref"):
            text = Path(name).read_text(encoding="utf-8").splitlines()
            Path(f"{name}.{group}").write_text("".join(f"{text[line]}\n" for line in lines), encoding="utf-8")
        run("--hyp", f"X=mixed.{group}", "--ref", f"ref.{group}", *metrics, "--json", "part.json", "--overwrite")
        part = json.loads(Path("part.json").read_text(encoding="utf-8"))["systems"]["X"]
        for metric in ("exact@1", "bleu"):
            assert cells[f"{metric}[{group}]"]["score"] == pytest.approx(part[metric]["score"])


def test_groups_must_name_every_sentence(run: Run) -> None:
    Path("groups").write_text("easy\n\neasy\n", encoding="utf-8")
    assert "line 2 of groups is empty" in run("--hyp", "X=hyp", "--ref", "ref", "--groups", "groups")[2]
    assert "too short" in run("--hyp", "X=hyp", "--ref", "ref", "--groups", "short")[2]


def test_a_group_is_resampled_as_if_it_were_all(run: Run) -> None:
    """Compare with the scores of the group's lines as a separate data set.

    Every interval and p-value must be the same.
    """
    Path("groups").write_text("easy\nhard\neasy\n", encoding="utf-8")
    metrics = ["--metric", "bleu", "rouge-l"]
    run("--hyp", "X=hyp", "Y=other", "--ref", "ref", "--groups", "groups", *metrics, "--json", "all.json")
    for name in ("hyp", "other", "ref"):
        text = Path(name).read_text(encoding="utf-8").splitlines()
        Path(f"{name}.easy").write_text(f"{text[0]}\n{text[2]}\n", encoding="utf-8")
    run("--hyp", "X=hyp.easy", "Y=other.easy", "--ref", "ref.easy", *metrics, "--json", "part.json", "--overwrite")
    whole, part = (json.loads(Path(name).read_text(encoding="utf-8")) for name in ("all.json", "part.json"))
    for system in ("X", "Y"):
        for metric in ("bleu", "rouge-l"):
            assert whole["systems"][system][f"{metric}[easy]"]["ci"] == part["systems"][system][metric]["ci"]
    of_group = {item["metric"]: item["p_values"] for item in whole["pairwise"]}
    assert all(of_group[f"{item['metric']}[easy]"] == item["p_values"] for item in part["pairwise"])
    assert whole["systems"]["X"]["bleu[hard]"]["ci"] == [whole["systems"]["X"]["bleu[hard]"]["score"]] * 2


def test_json_has_no_nan(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LengthRatio, "scores_of", lambda self, totals: np.full(len(totals), np.nan))
    run("--hyp", "X=hyp", "Y=other", "--ref", "ref", "--metric", "length-ratio", "--json", "out.json")
    text = Path("out.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    content = json.loads(text)
    assert content["systems"]["X"]["length-ratio"]["score"] is None
    assert convert(content, Evaluation).as_json() == content


def test_a_pipe_is_hashed_as_it_is_read(run: Run) -> None:
    """A pipe, as in ``--hyp X=<(...)``, can be read only once."""
    content = Path("hyp").read_bytes()
    end, start = os.pipe()
    os.write(start, content)
    os.close(start)
    run("--hyp", f"X=/dev/fd/{end}", "--ref", "ref", "--metric", "bleu", "--json", "out.json")
    os.close(end)
    (file,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["data"]["files"]["systems"]
    assert file["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/dev/fd/../../../dev/zero", "it is not a regular file"),
        ("/dev/fd/{zero}", "it is not a regular file"),
        ("/proc/self/fd/{folder}/link to zero", "it is not a regular file"),
        ("/proc/self/fd/{folder}", "is a directory"),
        ("{pipe}", "File too large"),
    ],
)
def test_an_input_without_an_end_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, why: str) -> None:
    """Test devices and endless pipes, which earlier versions read until the memory was full, under each name."""
    monkeypatch.setattr(text_files, "_LARGEST", 1 << 22)
    Path("link to zero").symlink_to("/dev/zero")
    zero, folder = os.open("/dev/zero", os.O_RDONLY), os.open(".", os.O_RDONLY)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as writer:
        pipe = f"/dev/fd/{writer.stdout.fileno()}"
        status, _, err = run("--hyp", f"X={name.format(zero=zero, folder=folder, pipe=pipe)}", "--ref", "ref")
        writer.kill()
    os.close(zero)
    os.close(folder)
    assert status == 2
    assert why in err


def test_runs_of_one_system_have_mean_and_deviation(run: Run) -> None:
    """Test runs with exact@1 of 100, 0 and 0 for X, and of 0 and 100 for Y.

    The deviations are 57.735 and 70.711 (divided by n - 1).
    """
    runs = ["--hyp", "X=ref", "X=hyp", "X=other", "--hyp", "Y=other", "Y=ref", "Z=hyp"]
    status, out, _ = run(*runs, "--ref", "ref", "--metric", "exact@1", "--json", "out.json")
    assert status == 0
    assert out.splitlines()[0].endswith("X mean ± standard deviation of 3 runs; Y mean ± standard deviation of 2 runs")
    assert out.splitlines()[3].split() == ["X", "33.33", "±", "57.74"]
    assert "Y vs X: exact@1 +16.67" in out
    assert "Z: one run does not show how much runs vary" in out
    content = json.loads(Path("out.json").read_text(encoding="utf-8"))
    cell = content["systems"]["X"]["exact@1"]
    assert (cell["runs"], cell["deviation"]) == ([100.0, 0.0, 0.0], pytest.approx(57.735, abs=1e-3))
    assert [list(item["p_values"]) for item in content["pairwise"]] == [["runs"]]
    assert len(content["data"]["files"]["systems"]) == 6


def test_one_file_given_twice_is_said(run: Run) -> None:
    _, out, _ = run("--hyp", "X=hyp", "X=hyp", "--ref", "ref", "--metric", "bleu")
    assert "X: 2 runs, but only 1 different outputs; is a file given twice?" in out


def test_several_test_sets(run: Run) -> None:
    """Test that each test set has the same scores as in a separate evaluation."""
    options = ["--metric", "bleu", "exact@1"]
    sets = {"one": ["--hyp", "X=hyp", "--ref", "ref"], "two": ["--hyp", "X=other", "--ref", "src", "--lowercase"]}
    alone = {name: run(*own, *options, "--json", f"{name}.json")[1] for name, own in sets.items()}
    named = [argument for name, own in sets.items() for argument in ("--set", name, *own)]
    _, out, _ = run("--json", "all.json", *options, *FAST, *named)
    assert out == "\n".join(f"== {name} ==\n{text}" for name, text in alone.items())
    content = json.loads(Path("all.json").read_text(encoding="utf-8"))["sets"]
    assert content == {name: json.loads(Path(f"{name}.json").read_text(encoding="utf-8")) for name in sets}


def test_formats(run: Run) -> None:
    arguments = ["--hyp", "X_1=hyp", "Y=other", "--ref", "ref", "--metric", "rouge-l", "bleu", "--correction", "holm"]
    _, latex, _ = run(*arguments, "--format", "latex", "--intervals")
    assert latex.splitlines()[:4] == ["\\begin{tabular}{lrr}", "\\toprule", "system & ROUGE-L & BLEU \\\\", "\\midrule"]
    assert latex.splitlines()[4].startswith("X\\_1 & ")
    assert "% paired tests" in latex and "Holm's correction" in latex
    _, text, _ = run(*arguments, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    run(*arguments, "--json", "out.json")
    content = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [(row["system"], row["metric"]) for row in rows] == [
        (s, m) for s in ("X_1", "Y") for m in ("rouge-l", "bleu")
    ]
    for row in rows:
        cell = content["systems"][row["system"]][row["metric"]]
        assert [float(row[key]) for key in ("score", "low", "high")] == [cell["score"], *cell["ci"]]
    assert [float(row["p_bootstrap"]) for row in rows[2:]] == [
        item["corrected"]["bootstrap"] for item in content["pairwise"]
    ]
    _, formula, _ = run("--hyp", "@SUM(1)=hyp", "+1=other", *arguments[3:], "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(formula)))
    assert [(row["system"], row["baseline"]) for row in rows[1:3]] == [("'@SUM(1)", ""), ("'+1", "'@SUM(1)")]
    assert float(rows[-1]["difference"]) == float(rows[-1]["score"]) - float(rows[1]["score"])
    assert json.loads(run(*arguments, "--format", "json")[1]) == content
    run(*arguments, "--markdown", "out.md", "--intervals")
    assert run(*arguments, "--format", "markdown", "--intervals")[1] == Path("out.md").read_text(encoding="utf-8")
    low, high = content["systems"]["X_1"]["bleu"]["ci"]
    assert f"[{low:.2f}, {high:.2f}] |" in Path("out.md").read_text(encoding="utf-8").splitlines()[2]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"wean-evaluate {wean_fairseq.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--alpha", "2"],
        ["--resamples", "-1"],
        ["--resamples", "1000001"],
        ["--trials", "1000000000000"],
        ["--tokenize", "spm"],
        ["--no-such"],
        ["tables"],
        *(
            ["record", "x", *(f"--{name}=1" for name in ("experiment", "command", "seed") if name != missing)]
            for missing in ("experiment", "command", "seed")
        ),
        ["rerank", "x"],
    ],
)
def test_bad_options_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("wean-evaluate") and said.endswith("see --help.\n") and said.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        *("--sentences", "--alpha=0.5", "--bert-layer=3", "--bert-model=folder", "--sentence-model=folder"),
        *("--tokens", "--oov-source=src", "--intervals --resamples 0", "--all-pairs --trials 0"),
        "--correction=holm --trials 0",
    ],
)
@pytest.mark.usefixtures("run")
def test_an_option_without_effect_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """BLEU has no weight, needs no model, and the printed table has no scores of sentences.

    Plain files have no tokens, and without resamples or trials there are no intervals or tests.
    """
    assert main(["--hyp", "A=hyp", "--ref", "ref", "--metric", "bleu", *FAST, *option.split()]) == 2
    assert re.split("[ =]", option)[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "status"), [("ibleu", 0), ("ibleu-nltk-m7-legacy", 0), ("ibleu-0.7", 2), ("bleu", 2)]
)
def test_alpha_is_refused_where_the_weight_is_fixed(metric: str, status: int, run: Run) -> None:
    """``ibleu-0.7`` always has the weight 0.7."""
    got, _, err = run("--hyp", "A=hyp", "--ref", "ref", "--src", "src", "--metric", metric, *FAST, "--alpha", "0.5")
    assert got == status and err.startswith("wean-evaluate: error: --alpha has no effect") == bool(status)


@pytest.mark.parametrize("option", ["--ref", "--src", "--hyp", "--generated"])
def test_a_sparse_file_of_any_size_is_refused_at_once(run: Run, option: str) -> None:
    with Path("sparse").open("wb") as file:
        file.truncate(1 << 40)
    given = {"--ref": "ref", "--hyp": "X=hyp"} | {option: "sparse" if option in ("--ref", "--src") else "X=sparse"}
    status, _, err = run(*(word for pair in given.items() for word in pair))
    assert status == 2
    assert err == "wean-evaluate: error: sparse cannot be read (File too large); give a file that can be.\n"


@pytest.mark.parametrize("role", ["ref", "src", "hyp"])
def test_a_line_that_is_no_sentence_is_refused(run: Run, role: str) -> None:
    """Test a line of megabytes, which would take hours with ROUGE-L and the character similarity."""
    lines = Path(role).read_text(encoding="utf-8").splitlines()
    Path(role).write_text("\n".join([lines[0], "x" * 131_073, lines[2], ""]), encoding="utf-8")
    status, _, err = run("--hyp", "X=hyp", "--ref", "ref", "--src", "src")
    assert status == 2
    assert f"line 2 of {role} has 131,073 characters, and a sentence or essay has at most 131,072; give one" in err


@pytest.mark.parametrize("role", ["ref", "hyp"])
def test_ter_refuses_sentences_that_it_would_take_minutes_for(run: Run, role: str) -> None:
    lines = Path(role).read_text(encoding="utf-8").splitlines()
    Path(role).write_text("\n".join([lines[0], "x " * 1001, lines[2], ""]), encoding="utf-8")
    status, _, err = run("--hyp", "X=hyp", "--ref", "ref", "--metric", "ter")
    assert status == 2
    assert "line 2 has 1,001 words, and TER compares at most 1,000: leave --metric ter out" in err
    assert run("--hyp", "X=hyp", "--ref", "ref", "--metric", "chrf")[0] == 0


def test_ter_refuses_a_test_set_that_it_would_take_hours_for(run: Run) -> None:
    """100 lines of 1,000 words are estimated as 100 x 1,000 x 0.04 s = 67 min."""
    for role in ("ref", "hyp"):
        Path(role).write_text("x " * 1000 + "\n" + ("y " * 1000 + "\n") * 99, encoding="utf-8")
    status, _, err = run("--hyp", "X=hyp", "--ref", "ref", "--metric", "ter")
    assert status == 2 and "error: TER may take 67 min for sentences of more than 200 words" in err


def test_ter_warns_of_long_sentences_before_it_starts(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """Test with equal lines, which take almost no time, while 900 shuffled words would take 36 s per line."""
    for role in ("ref", "hyp"):
        Path(role).write_text("a\n" + "x " * 201 + "\n" + "y " * 900 + "\n", encoding="utf-8")
    assert run("--hyp", "X=hyp", "--ref", "ref", "--metric", "ter")[0] == 0
    assert "TER may take 1 min for sentences of more than 200 words with many shifts (line 2, 3)" in caplog.text


@pytest.mark.parametrize(("metric", "is_warned"), [("bleu", False), ("exact@10", True)])
def test_short_lists_matter_to_metrics_that_read_them(tmp_path, capsys, metric: str, is_warned: bool) -> None:
    (tmp_path / "log").write_text("H-0\t-1\ta\nH-1\t-1\tb\nH-1\t-2\tc\n", encoding="utf-8")
    (tmp_path / "ref").write_text("a\nb\n", encoding="utf-8")
    given = ["--generated", f"A={tmp_path / 'log'}", "--ref", str(tmp_path / "ref"), "--metric", metric]
    assert main(given) == 0
    said = "".join(capsys.readouterr())
    assert ("A: 1 sentence has fewer than 2 hypotheses (id 0)." in said) == is_warned
