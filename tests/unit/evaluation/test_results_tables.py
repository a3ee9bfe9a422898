"""Test result files and the tables that are generated from them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from wean_fairseq.evaluation import result_tables, results
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.score_file import Evaluation
from wean_fairseq.evaluation.training_log import LogLine, TrainingLog
from wean_fairseq.reporting.figures import validation_table

EVALUATION = {
    "systems": {
        "X": {
            "bleu": {"score": 12.345, "signature": "sig", "ci": [11.0, 13.0]},
            "d": {"score": 1, "signature": "s", "ci": None},
        }
    },
    "data": {"sentences": 7, "references": 2},
}
DOCUMENT = "before\n<!-- results: demo bleu -->\nold text\n<!-- /results -->\nafter\n"
COMMIT = results.commit


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder with one recorded result and one document, outside a checkout."""
    monkeypatch.setattr(results, "commit", lambda: "unknown")
    monkeypatch.chdir(tmp_path)
    Path("scores.json").write_text(json.dumps(EVALUATION), encoding="utf-8")
    Path("doc.md").write_text(DOCUMENT, encoding="utf-8")
    assert (
        main(["record", "scores.json", "--overwrite", "--experiment", "demo", "--command", "make demo", "--seed", "3"])
        == 0
    )


def test_record_holds_what_is_needed_to_repeat(tmp_path: Path) -> None:
    result = json.loads(Path("results/demo.json").read_text(encoding="utf-8"))
    assert result["evaluation"] == EVALUATION
    assert (result["command"], result["seed"], result["commit"]) == ("make demo", 3, "unknown")
    assert {"processor", "cores"} <= set(result["hardware"])
    assert {"python", "torch", "sacrebleu"} <= set(result["software"])
    assert str(tmp_path) not in json.dumps(result)


def test_git_runs_no_program_of_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a .git from another person, whose settings name programs that git describe --dirty would run."""
    monkeypatch.setattr(results, "commit", COMMIT)
    settings = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch ran; false\n"
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path(".git/config").write_text(settings, encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    Path("ran").unlink(missing_ok=True)
    assert record("--seed", "3") == 0
    assert not Path("ran").exists()


def test_further_data_are_recorded_by_name_and_hash() -> None:
    """The expected hash is the SHA-256 of "abc" and a line feed, as sha256sum prints it."""
    Path("deep").mkdir()
    Path("deep/train.src").write_text("abc\n", encoding="utf-8")
    options = ["--experiment", "demo", "--command", "make demo", "--seed", "3", "--data", "deep/train.src"]
    assert main(["record", "scores.json", "--overwrite", *options]) == 0
    (data,) = json.loads(Path("results/demo.json").read_text(encoding="utf-8"))["data"]
    digest = "edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb"
    assert data == {"name": "train.src", "sha256": digest, "lines": 1}


def record(*options: str) -> int:
    """Record the evaluation as the experiment demo."""
    return main(["record", "scores.json", "--overwrite", "--experiment", "demo", "--command", "make demo", *options])


def write_scores(runs: int) -> None:
    """Write an evaluation of X with this number of runs, next to the single run of a published system Y."""
    scores = {"score": 12.345, "signature": "sig", "ci": None}
    several = {"bleu": scores | ({"runs": [12.345] * runs} if runs > 1 else {})}
    systems = {"copy-source": {"bleu": scores}, "X": several, "Y": {"bleu": scores}}
    Path("scores.json").write_text(json.dumps(EVALUATION | {"systems": systems}), encoding="utf-8")


def write_run(seed: int, name: str = "", **training: object) -> None:
    """Write trainings.json and curves.tsv of a run of X, as its recipe does, and as a recipe of old versions does."""
    content = {"X": {"options": ["--arch x", f"--seed {seed}"], "epochs": 2.0, "seed": str(seed)} | training}
    Path(f"{name or seed}.json").write_text(json.dumps(content), encoding="utf-8")
    Path(f"{name or seed}.old.json").write_text(json.dumps({"X": {"hours": seed}}), encoding="utf-8")
    curve = f"system\tepoch\tupdates\tbleu\nX\t1.000\t10\t{seed}\nX\t2.004\t20\t{seed}\n"
    Path(f"{name or seed}.tsv").write_text(curve, encoding="utf-8")


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (1, "--seed 7 --trainings 3.json", "3.json: the training of X has --seed 3, but it is given for --seed 7"),
        (2, "--seed 4 3 --trainings 3.json 4.json", "3.json: the training of X has --seed 3, but it is given for"),
        (2, "--seed 3 4 --trainings 3.json 3.json", "3.json equals 3.json; give the file of each seed's own run"),
        (2, "--seed 3 4 --trainings 3.old.json copy.old.json", "copy.old.json equals 3.old.json; give the file of"),
        (2, "--seed 3 4 --curves 3.tsv copy.tsv", "copy.tsv equals 3.tsv; give the file of each seed's own run"),
        (2, "--seed 3 3 --trainings 3.json 4.json", "--seed 3 3 has a seed twice; give the seed of each training"),
        (2, "--seed 3 --seed 4 --trainings 3.json", "--trainings: 1 files for 2 seeds; give one file for each seed"),
        (1, "--seed 3 4", "scores.json has 1 run of X, but --seed names 2 seeds; give the scores and the seeds"),
        (2, "--seed 3", "scores.json has 2 runs of X, but --seed names 1 seed; give the scores and the seeds"),
        (3, "--seed 3 4", "scores.json has 3 runs of X, but --seed names 2 seeds; give the scores and the seeds"),
        (1, "--seed 3 --trainings z.json", "z.json has the system Z, but scores.json has scores of copy-source, X, Y"),
        (1, "--seed 3 --curves z.tsv", "z.tsv has the system Z, but scores.json has scores of copy-source, X, Y"),
        (
            1,
            "--seed 3 --trainings longer.json --curves 3.tsv",
            "3.tsv: the curve of X with seed 3 ends at epoch 2.004, but its training in longer.json at epoch 5; give",
        ),
        (
            2,
            "--seed 4 3 --trainings 4.json longer.json --curves 4.tsv 3.tsv",
            "error: 3.tsv: the curve of X with seed 3 ends at epoch 2.004, but its training in longer.json at",
        ),
        (2, "--seed 3 4 --curves 3.tsv z.tsv", "error: z.tsv has the system Z, but scores.json has scores of"),
    ],
)
def test_seeds_trainings_and_curves_that_contradict_one_another_are_refused(
    runs: int, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("results/demo.json").read_bytes()
    write_scores(runs)
    for seed, name in ((3, ""), (4, ""), (3, "copy")):
        write_run(seed, name)
    write_run(3, "longer", epochs=5.0)
    Path("z.json").write_text('{"Z": {}}', encoding="utf-8")
    Path("z.tsv").write_text(Path("3.tsv").read_text(encoding="utf-8").replace("X", "Z"), encoding="utf-8")
    assert record(*options.split()) == 2
    assert message in capsys.readouterr().err
    assert Path("results/demo.json").read_bytes() == before


@pytest.mark.parametrize("old", ["", ".old"])
def test_files_of_the_same_runs_are_recorded(old: str) -> None:
    """Test files of the recipe, and of old versions without options and epochs. The options may be repeated."""
    write_scores(2)
    write_run(3)
    write_run(4)
    trainings = ["--trainings", f"3{old}.json", "--trainings", f"4{old}.json"]
    assert record("--seed", "3", "--seed", "4", *trainings, "--curves", "3.tsv", "4.tsv") == 0
    assert json.loads(Path("results/demo.json").read_text(encoding="utf-8"))["seeds"] == [3, 4]


def test_curves_of_an_earlier_result_do_not_stay_beside_a_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    write_run(3)
    assert record("--seed", "3", "--curves", "3.tsv") == 0
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    capsys.readouterr()
    assert record("--seed", "3") == 2
    message = "demo.curves.tsv has the curves of an earlier result of this name: give --curves, or move this file."
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("results").iterdir()} == before


def test_committed_results_can_be_recorded_again() -> None:
    """Split every file of results/ into the files from which it was recorded, and record it again."""
    for path in sorted((Path(results.__file__).parents[2] / "results").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        seeds = content.get("seeds", [content["seed"]])
        Path("scores.json").write_text(json.dumps(content["evaluation"]), encoding="utf-8")
        Path("results/demo.curves.tsv").unlink(missing_ok=True)
        options = ["--seed", *map(str, seeds)]
        if trainings := content.get("trainings"):
            options.append("--trainings")
            for number, seed in enumerate(seeds):
                of_seed = {name: training.get("runs", [training])[number] for name, training in trainings.items()}
                Path(f"{seed}.json").write_text(json.dumps(of_seed), encoding="utf-8")
                options.append(f"{seed}.json")
        if (curves := path.with_suffix(".curves.tsv")).exists():
            options.append("--curves")
            head, *rows = (line.split("\t") for line in curves.read_text(encoding="utf-8").splitlines())
            for seed in seeds:
                lines = ["\t".join(row[1:]) for row in [head, *rows] if row is head or row[0] == str(seed)]
                Path(f"{seed}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                options.append(f"{seed}.tsv")
        assert record(*options) == 0, path.name
        again = json.loads(Path("results/demo.json").read_text(encoding="utf-8"))
        assert again.get("trainings", {}) == content.get("trainings", {}), path.name


def test_curves_that_lack_a_metric_are_recorded() -> None:
    """Test the file that wean-plot curves writes if a validation lacks a metric, at the end and in the middle."""
    points = [
        LogLine("valid", 1.0, {"num_updates": 10, "ppl": 3.5}),
        LogLine("valid", 2.0, {"num_updates": 20, "bleu": 4}),
    ]
    table = validation_table([TrainingLog("X", valid=points)], ["ppl", "bleu"])
    Path("curves.tsv").write_text(table.as_tsv(), encoding="utf-8")
    assert record("--seed", "3", "--curves", "curves.tsv") == 0
    assert Path("results/demo.curves.tsv").read_text(encoding="utf-8").splitlines() == [
        "seed\tsystem\tepoch\tupdates\tppl\tbleu",
        "3\tX\t1.000\t10\t3.5\t",
        "3\tX\t2.000\t20\t\t4",
    ]


def test_trainings_and_curves_of_several_seeds_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    data = [{"name": "train.src", "sha256": "0" * 64, "lines": 9}]
    write_scores(runs=2)
    for seed in (3, 4):
        training = {"X": {"end": "converged", "best": float(seed), "data": data}}
        Path(f"{seed}.json").write_text(json.dumps(training), encoding="utf-8")
        Path(f"{seed}.tsv").write_text(f"system\tepoch\tupdates\tbleu\nX\t1.000\t10\t{seed}\n", encoding="utf-8")
    assert record("--seed", "3", "4", "--trainings", "3.json", "4.json", "--curves", "3.tsv", "4.tsv") == 0
    result = json.loads(Path("results/demo.json").read_text(encoding="utf-8"))
    assert (result["seed"], result["seeds"], result["data"]) == (3, [3, 4], data)
    assert [run["best"] for run in result["trainings"]["X"]["runs"]] == [3.0, 4.0]
    assert Path("results/demo.curves.tsv").read_text(encoding="utf-8").splitlines() == [
        "seed\tsystem\tepoch\tupdates\tbleu",
        "3\tX\t1.000\t10\t3",
        "4\tX\t1.000\t10\t4",
    ]
    assert main(["tables", "doc.md"]) == 0
    caption = "seeds 3, 4. Scores with ± are means over the seeds, with 95% t intervals."
    assert caption in Path("doc.md").read_text(encoding="utf-8")
    write_scores(runs=1)
    Path("results/demo.curves.tsv").unlink()
    assert record("--seed", "3", "--trainings", "3.json") == 0
    assert "runs" not in json.loads(Path("results/demo.json").read_text(encoding="utf-8"))["trainings"]["X"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--seed", "3", "4", "--trainings", "a.json"],
            "--trainings: 1 files for 2 seeds; give one file for each seed",
        ),
        (["--seed", "3", "4", "--trainings", "a.json", "b.json"], "b.json has trainings of Y but a.json of X"),
        (
            ["--seed", "3", "--trainings", "c.json"],
            "c.json: Expected `object`, got `int` - at `$[...]`; give trainings.json",
        ),
        (
            ["--seed", "3", "--trainings", "d.json"],
            "d.json: Object missing required field `sha256` - at `$[...].data[0]`; give trainings.json",
        ),
        (["--seed", "3", "--curves", "doc.md"], "doc.md is not a table of curves"),
        (["--seed", "3", "--curves", "head.tsv"], "head.tsv is not a table of curves"),
        (["--seed", "3", "--curves", "bare.tsv"], "bare.tsv is not a table of curves"),
        (["--seed", "3", "--curves", "ragged.tsv"], "line 3 of ragged.tsv has 6 cells, but the first has 4; give"),
        (["--seed", "3", "--curves", "word.tsv"], "line 2 of word.tsv has 'hello', not a number; give the whole file"),
        *(
            (
                ["--seed", "3", "--curves", f"{value}.tsv"],
                f"line 2 of {value}.tsv has '{value}', which is not finite; write the file again with wean-plot curves",
            )
            for value in ("nan", "inf", "1e999")
        ),
        (["--seed", "3", "--curves", "epoch.tsv"], "line 2 of epoch.tsv has '', not a number; give the whole file"),
        (["--seed", "3", "--curves", "updates.tsv"], "line 2 of updates.tsv has '', not a number; give the whole file"),
        (["--seed", "3", "--curves", "cut.tsv"], "the last line of cut.tsv has no line end, so it may be cut; give"),
    ],
)
def test_trainings_and_curves_that_do_not_fit_are_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("results/demo.json").read_bytes()
    write_scores(runs=2 if "4" in options else 1)
    for name, content in (("a", {"X": {}}), ("b", {"Y": {}}), ("c", {"X": 1}), ("d", {"X": {"data": [{"name": "x"}]}})):
        Path(f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    head = "system\tepoch\tupdates"
    rows = {
        "head": f"{head}\tbleu",
        "bare": f"{head}\nX\t1\t2",
        "ragged": f"{head}\tbleu\nX\t1\t2\t3\nX\t1\t2\t3\t4\t5",
        "word": f"{head}\tbleu\nX\t1\t2\thello",
        **{value: f"{head}\tbleu\nX\t1\t2\t{value}" for value in ("nan", "inf", "1e999")},
        "epoch": f"{head}\tbleu\nX\t\t2\t3",
        "updates": f"{head}\tbleu\nX\t1\t\t3",
    }
    Path("cut.tsv").write_text(f"{head}\tbleu\nX\t1\t2\t4.", encoding="utf-8")
    for name, content in rows.items():
        Path(f"{name}.tsv").write_text(f"{content}\n", encoding="utf-8")
    assert record(*options) == 2
    assert message in capsys.readouterr().err
    assert Path("results/demo.json").read_bytes() == before


def test_tables_are_generated_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", "doc.md", "--check"]) == 2
    assert "doc.md: tables are out of date; run wean-evaluate tables doc.md" in capsys.readouterr().err
    assert Path("doc.md").read_text(encoding="utf-8") == DOCUMENT
    assert main(["tables", "doc.md"]) == 0
    text = Path("doc.md").read_text(encoding="utf-8")
    assert text.startswith(
        "before\n<!-- results: demo bleu -->\n| system | bleu |\n|---|--:|\n| X | 12.35 [11.00, 13.00] |\n"
    )
    assert text.endswith("<!-- /results -->\nafter\n")
    assert "Command: `make demo`" in text
    assert "old text" not in text
    assert main(["tables", "doc.md", "--check"]) == 0


def test_a_table_shows_what_the_trainings_of_a_system_took(capsys: pytest.CaptureFixture[str]) -> None:
    """The means over two seeds are computed by hand.

    A dash replaces a number that a training or a copied source lacks.
    """
    runs = [
        {"options": ["--arch x", f"--lr {rate}"], "parameters": 1234567, "epochs": epochs, "cpu_seconds": seconds}
        for rate, epochs, seconds in ((0.001, 10.0, 600), (0.003, 13.0, 1200))
    ]
    path = Path("results/demo.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    result["evaluation"]["systems"]["copy-source"] = EVALUATION["systems"]["X"]
    path.write_text(json.dumps(result | {"trainings": {"X": {"runs": runs}}}), encoding="utf-8")
    marker = "<!-- results: demo parameters rate epochs cpu-minutes best-epoch d -->"
    Path("doc.md").write_text(f"{marker}\n<!-- /results -->\n", encoding="utf-8")
    assert main(["tables", "doc.md"]) == 0
    table = [line for line in Path("doc.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert table[0] == "| system | parameters | rate | epochs | cpu-minutes | best-epoch | d |"
    assert table[2:] == ["| X | 1,234,567 | 0.002 | 12 | 15 | - | 1.00 |", "| copy-source | - | - | - | - | - | 1.00 |"]
    Path("doc.md").write_text("<!-- results: demo hours -->\n<!-- /results -->\n", encoding="utf-8")
    assert main(["tables", "doc.md"]) == 2
    assert "has no metric hours; choose from bleu, d, parameters, rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "rate"),
    [
        ("--lr 0.001 \\", "0.001"),
        ("--lr [1e-3, 0.5]", "0.001"),
        ("--lr .5", "0.5"),
        ("--lr 1.2.3e-", "-"),
        ("--lr", "-"),
    ],
)
def test_a_rate_is_the_first_number_of_the_option_or_a_dash(option: str, rate: str) -> None:
    assert result_tables.format_cost("rate", results.Training(options=["--arch x", option])) == rate


def test_a_cell_shows_runs_intervals_and_what_is_no_number() -> None:
    """The deviation of 12 and 12.69 is 0.69 over the root of 2, by hand."""
    cells = {
        "bleu": {"score": 12.345, "runs": [12.0, 12.69], "deviation": 0.488, "ci": [11.0, 13.0], "signature": "s"},
        "d": {"score": None, "ci": None, "signature": "s"},
    }
    scored = convert({"systems": {"X": cells}, "data": {"sentences": 1, "references": 1}}, Evaluation)
    text = result_tables.result_table({Path("demo.json"): results.Result("demo", "x", 1, scored)}, [], "doc.md")
    assert "| X | 12.35 ± 0.49 [11.00, 13.00] | – |" in text


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"commit": 1}, ": Expected `str | null`, got `int` - at `$.commit`"),
        ({"note": 3}, ": Expected `str`, got `int` - at `$.note`"),
        ({"evaluation": {**EVALUATION, "data": {"sentences": 7}}}, " has no number of references"),
        (
            {"evaluation": {**EVALUATION, "data": {**EVALUATION["data"], "warnings": None}}},
            ": Expected `array`, got `null` - at `$.evaluation.data.warnings`",
        ),
        (
            {"evaluation": {"systems": {"X": EVALUATION["systems"]["X"], "Y": {}}, "data": EVALUATION["data"]}},
            ": 'Y' has no scores - at `$.evaluation`",
        ),
        (
            {"evaluation": {**EVALUATION, "data": {"sentences": -5, "references": 1}}},
            ": Expected `int` >= 0 - at `$.evaluation.data.sentences`",
        ),
        (
            {"evaluation": {**EVALUATION, "data": {"sentences": 5, "references": -1}}},
            ": Expected `int` >= 0 - at `$.evaluation.data.references`",
        ),
        ({"evaluation": []}, ": Expected `object`, got `array` - at `$.evaluation`"),
        (
            {"trainings": {"X": {"parameters": "x"}}},
            ": Expected `float | null`, got `str` - at `$.trainings[...].parameters`",
        ),
        ({"trainings": {"X": {"runs": 5}}}, ": Expected `array`, got `int` - at `$.trainings[...].runs`"),
        (
            {"trainings": {"X": {"runs": [{"options": 5}]}}},
            ": Expected `array`, got `int` - at `$.trainings[...].runs[0].options`",
        ),
        (
            {"trainings": {"X": {"cpu_seconds": 1e308}}},
            " is not JSON (1e+308 is not a number below 1e+30)",
        ),
        (
            {"evaluation": {"systems": {"X": {"bleu": {"score": -1e308, "signature": "s"}}}, "data": {}}},
            " is not JSON (-1e+308 is not a number below 1e+30)",
        ),
    ],
)
def test_a_broken_result_is_one_sentence(
    broken: dict[str, Any], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error message names the place and, in msgspec's wording, the expected type."""
    path = Path("results/demo.json")
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | broken), encoding="utf-8")
    assert main(["tables", "doc.md"]) == 2
    message = f"wean-evaluate: error: results/demo.json{fault}; give a file of wean-evaluate record.\n"
    assert capsys.readouterr().err == message
    assert Path("doc.md").read_text(encoding="utf-8") == DOCUMENT


@pytest.mark.parametrize(
    ("commit", "shown"),
    [("ab" * 20, ", commit abababababab."), ("ab" * 20 + "-dirty", ", commit abababababab with uncommitted changes.")],
)
def test_a_table_says_whether_its_commit_was_changed(commit: str, shown: str) -> None:
    path = Path("results/demo.json")
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"commit": commit}), encoding="utf-8")
    assert main(["tables", "doc.md"]) == 0
    assert shown in Path("doc.md").read_text(encoding="utf-8")


def test_names_of_a_result_cannot_change_the_page() -> None:
    """A result may come from another person. Its texts are shown as text on one line, and code of a note as code."""
    name = "a\n\x1b[1m<script>alert(1)</script>|`"
    systems = {name: {f"bleu{name}": {"score": 1, "signature": f"s{name}", "ci": None}}}
    result = {
        "experiment": "x",
        "command": f"c{name}",
        "seed": 1,
        "note": "n\x1b\r\n`<unk>` <b>`<i>",
        "commit": "a\n# b",
    }
    content = {**result, "evaluation": {**EVALUATION, "systems": systems}}
    table = result_tables.result_table({Path("x.json"): convert(content, results.Result)}, [], "doc.md")
    assert not set(table.replace("\n", "")) & set(map(chr, range(32)))
    shown = r"a\n\x1b[1m&lt;script>alert(1)&lt;/script>\|`"
    assert table.split("\n")[:3] == [f"| system | bleu{shown} |", "|---|--:|", f"| {shown} | 1.00 |"]
    assert r"Command: `` ca\n\x1b[1m<script>alert(1)</script>|` ``." in table
    assert rf"Signatures: bleu{shown} `` sa\n\x1b[1m<script>alert(1)</script>|` ``." in table
    assert "commit a\\n# b." in table and "\nn\\x1b\n`<unk>` &lt;b>`&lt;i>\n" in table


@pytest.mark.parametrize("end", ["\r\n", " \n", "\t\r\n"])
def test_line_ends_of_a_document_are_kept(end: str) -> None:
    """The marker may be followed by blanks. The lines of the table end like its marker."""
    assert main(["tables", "doc.md"]) == 0
    expected = Path("doc.md").read_text(encoding="utf-8")
    Path("doc.md").write_bytes(DOCUMENT.replace("\n", end).encode())
    assert main(["tables", "doc.md"]) == 0
    written = Path("doc.md").read_bytes().decode()
    assert written.count("\r") == (written.count("\n") if "\r" in end else 0)
    assert [line.rstrip() for line in written.split("\n")] == expected.split("\n")
    assert main(["tables", "doc.md", "--check"]) == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("<!-- results: demo -->\nno end\n", "has no <!-- /results --> after it"),
        ("<!-- results: demo -->\n" * 50_000, "has no <!-- /results --> after it"),
        ("<!-- results: demo " * 50_000, "has no <!-- /results --> after it"),
        ("a\nb <!-- results: demo --> c\n<!-- /results -->\n", "doc.md, line 2: a results marker"),
        ("<!-- results: demo  bleu -->\n<!-- /results -->\n", "or is not of the form <!-- results: NAME METRICS -->"),
        ("<!--results: demo-->\n<!-- /results -->\n", "or is not of the form <!-- results: NAME METRICS -->"),
        ("<!-- results:demo -->\n<!-- /results -->\n", "or is not of the form <!-- results: NAME METRICS -->"),
        ("<!-- results: absent -->\n<!-- /results -->\n", "absent.json does not exist"),
        ("<!-- results: demo sari -->\n<!-- /results -->\n", "demo has no metric sari; choose from bleu, d"),
    ],
)
def test_bad_markers(capsys: pytest.CaptureFixture[str], document: str, message: str) -> None:
    Path("doc.md").write_text(document, encoding="utf-8")
    assert main(["tables", "doc.md"]) == 2
    assert message in capsys.readouterr().err
    assert Path("doc.md").read_text(encoding="utf-8") == document


def test_a_document_keeps_its_permissions_and_is_not_cut_off_from_its_other_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("doc.md").chmod(0o600)
    Path("other.md").write_text(DOCUMENT, encoding="utf-8")
    Path("same.md").hardlink_to("other.md")
    assert main(["tables", "doc.md", "other.md"]) == 2
    assert "other.md has other names (hard links)" in capsys.readouterr().err
    assert Path("doc.md").read_text(encoding="utf-8") == Path("same.md").read_text(encoding="utf-8") == DOCUMENT
    assert main(["tables", "doc.md"]) == 0
    assert Path("doc.md").read_text(encoding="utf-8") != DOCUMENT
    assert Path("doc.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("marker", ["<!-- /results -->", "<!-- results: demo -->"])
def test_a_marker_in_a_text_of_a_result_is_refused(capsys: pytest.CaptureFixture[str], marker: str) -> None:
    """Test a marker in a text of a result, with which the document would change with each further call."""
    assert record("--seed", "3", "--note", f"see {marker}") == 0
    assert main(["tables", "doc.md"]) == 2
    assert "demo.json has a results marker in a text" in capsys.readouterr().err
    assert Path("doc.md").read_text(encoding="utf-8") == DOCUMENT


@pytest.mark.parametrize(
    ("content", "experiment", "message"),
    [
        ("{", "x", "is not JSON"),
        ("{}", "x", "bad.json: Object missing required field `systems`; give a file written by wean-evaluate"),
        (
            json.dumps({"sets": {"a": EVALUATION, "b": EVALUATION}}),
            "x",
            "has the scores of several test sets (a, b): s",
        ),
        (json.dumps(EVALUATION), "../x", "is not a file name"),
    ],
)
def test_bad_records(capsys: pytest.CaptureFixture[str], content: str, experiment: str, message: str) -> None:
    Path("bad.json").write_text(content, encoding="utf-8")
    assert main(["record", "bad.json", "--experiment", experiment, "--command", "x", "--seed", "1"]) == 2
    assert message in capsys.readouterr().err


def test_a_record_needs_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "scores.json", "--experiment", "new", "--command", " ", "--seed", "1"]) == 2
    assert "--command is empty; give the command that reproduces the result." in capsys.readouterr().err


def scores_of(name: str, bleu: float, source: str = "a" * 64, signature: str = "sig") -> dict[str, Any]:
    """Return the evaluation of one system and the copied source, with equal scores of the source each time."""
    copy = {"bleu": {"score": 30.0, "signature": signature, "ci": None}}
    files = {"references": [{"name": "r", "sha256": "b" * 64}], "source": [{"name": "s", "sha256": source}]}
    systems = {"copy-source": copy, name: {"bleu": {"score": bleu, "signature": signature, "ci": None}}}
    return {"systems": systems, "data": {"sentences": 7, "references": 1, "files": files}}


def record_as(experiment: str, content: dict[str, Any], *options: str) -> None:
    Path("scores.json").write_text(json.dumps(content), encoding="utf-8")
    assert main(["record", "scores.json", "--experiment", experiment, "--command", f"make {experiment}", *options]) == 0


def test_one_table_shows_the_systems_of_several_results() -> None:
    """The copied source is shown once. Below the table are the command and the note of each result."""
    record_as("one", scores_of("A", 20.0), "--seed", "1", "--note", "Note of A.")
    record_as("two", scores_of("B", 25.0), "--seed", "1", "--note", "Note of B.")
    Path("doc.md").write_text("<!-- results: one+two bleu -->\n<!-- /results -->\n", encoding="utf-8")
    assert main(["tables", "doc.md"]) == 0
    assert Path("doc.md").read_text(encoding="utf-8").splitlines() == [
        "<!-- results: one+two bleu -->",
        "| system | bleu |",
        "|---|--:|",
        "| copy-source | 30.00 |",
        "| A | 20.00 |",
        "| B | 25.00 |",
        "",
        "7 sentences, 1 reference, seed 1.",
        "",
        "* A. Command: `make one`.",
        "  Note of A.",
        "* B. Command: `make two`.",
        "  Note of B.",
        "",
        "Signatures: bleu `sig`.",
        "<!-- /results -->",
    ]


@pytest.mark.parametrize(
    ("other", "seed", "part"),
    [
        (scores_of("B", 25.0, source="c" * 64), "1", "the source"),
        (scores_of("B", 25.0, signature="other"), "1", "the signature of bleu"),
        (scores_of("B", 25.0), "2", "the seeds"),
        (scores_of("A", 25.0), "1", "the row of A"),
    ],
)
def test_results_under_other_conditions_have_no_common_table(
    capsys: pytest.CaptureFixture[str], other: dict[str, Any], seed: str, part: str
) -> None:
    record_as("one", scores_of("A", 20.0), "--seed", "1")
    record_as("two", other, "--seed", seed)
    Path("doc.md").write_text("<!-- results: one+two bleu -->\n<!-- /results -->\n", encoding="utf-8")
    assert main(["tables", "doc.md"]) == 2
    assert f"one.json and results/two.json differ in {part}: show them in two tables" in capsys.readouterr().err
