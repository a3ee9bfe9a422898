"""Test the tables of papers next to our results. Every number has an origin, and missing numbers are listed."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.published import PUBLISHED_TABLES

Run = Callable[..., tuple[int, str, str]]
PWKP = "paper:wean-pwkp/BLEU"


@pytest.fixture(name="run")
def make_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Work in a folder with empty results, and return a function that runs the command."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["paper-tables", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def keep(name: str, systems: Mapping[str, Mapping[str, float]], **facts: object) -> None:
    """Write a result as wean-evaluate record does."""
    cells = {
        system: {key: {"score": score, "signature": f"sig-{key}", "ci": None} for key, score in scores.items()}
        for system, scores in systems.items()
    }
    evaluation = {"systems": cells, "data": {"sentences": 7, "references": 2}}
    result = {
        "experiment": name,
        "command": "make it",
        "seed": 3,
        "commit": "c" * 40,
        "evaluation": evaluation,
        **facts,
    }
    Path("results", f"{name}.json").write_text(json.dumps(result), encoding="utf-8")


def lines(text: str) -> list[list[str]]:
    """Return the cells of all table lines except the overview's.

    A blank system cell means the system of the line above.
    """
    found: list[list[str]] = []
    for line in text.split("\n## ", 1)[1].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0] not in ("system", "---"):
            found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


def legend(text: str) -> dict[str, str]:
    """Return the origin of each mark in a document with one table."""
    return dict(re.findall(r"^- ([A-Z]\d+): (.*)$", text, flags=re.MULTILINE))


def test_of_each_system_published_measured_and_missing_numbers_stand_apart(run: Run) -> None:
    """The published table is WEAN's Table 1.

    Of the two invented results of ours, one contains the released outputs of DRESS.
    """
    copy = {PWKP: 49.0, "sari": 22.0}
    keep("my_pwkp", {"copy-source": copy, "wean_lstm": {PWKP: 36.394, "sari": 30.0, "bleu": 1.0}}, note="Other data.")
    keep("published_pwkp", {"copy-source": copy, "Dress": {PWKP: 34.53, "sari": 40.0}})
    keep("my_quora", {"seq2seq_lstm": {PWKP: 99.0}})  # this result is for another data set
    status, text, _ = run("--table", "wean-table1")
    assert status == 0
    assert lines(text) == [
        ["copy-source", "scored here", "49.00", "22.00", "R1, R2"],
        ["PBMT-R", "reported, not run", "46.31", "–", "P1"],
        ["Hybrid", "reported, not run", "53.94", "–", "P1"],
        ["EncDecA", "published", "47.93", "–", "P1"],
        ["EncDecA", "not run", "–", "–", "M1"],
        ["DRESS", "published", "34.53", "–", "P1"],
        ["DRESS", "released outputs", "34.53", "40.00", "R2"],
        ["DRESS", "not run", "–", "–", "M1"],
        ["DRESS-LS", "published", "36.32", "–", "P1"],
        ["DRESS-LS", "not run", "–", "–", "M1"],
        ["Seq2seq", "published", "48.26", "–", "P2"],
        ["Seq2seq", "not run", "–", "–", "M2"],
        ["WEAN", "published", "54.54", "–", "P2"],
        ["WEAN", "ours (`wean_lstm`)", "36.39", "30.00", "R1"],
    ]
    origins = legend(text)
    assert list(origins) == ["M1", "M2", "P1", "P2", "R1", "R2"]
    assert origins["M1"].startswith(
        "missing here: `SYSTEMS='enc_dec_a dress dress_ls' DATA=path/to/wikismall bash examples/nts/pwkp.sh`"
    )
    assert origins["M1"].endswith("then `wean-evaluate record` under a name that fits `*pwkp*`.")
    assert origins["P1"].startswith(
        "printed in WEAN (Ma et al., NAACL 2018), Table 1; from Zhang and Lapata (EMNLP 2017)"
    )
    assert "Scorer: BLEU by mteval-v13a, which ignores the case of A to Z" in origins["P1"]
    assert origins["R1"] == (
        f"results/my_pwkp.json, 7 sentences, 2 references, seed 3, commit cccccccccccc, `make it`; "
        f"signature `sig-{PWKP}`, `sig-sari`. Other data."
    )
    overview = next(line for line in text.splitlines() if line.startswith("| WEAN (Ma et al., NAACL 2018), Table 1 |"))
    assert overview.split(" | ")[2:] == ["7", "WEAN", "DRESS", "EncDecA, DRESS, DRESS-LS, Seq2seq", "PBMT-R, Hybrid |"]


def test_a_number_of_the_other_preset_stands_in_only_where_it_is_the_same(run: Run) -> None:
    """BLEU and ROUGE are equal in both presets of C-DNPG, but iBLEU differs, and without `compat` it was not scored."""
    fixed = {"iBLEU": 1.0, "BLEU-2": 2.0, "BLEU-4": 3.0, "ROUGE-L": 4.0, "METEOR-es": 5.0}
    keep("x_quora", {"transformer": {f"paper:cdnpg-fixed/{name}": score for name, score in fixed.items()}})
    keep("y_quora", {"transformer": {f"paper:cdnpg-compat/{name}": score + 10 for name, score in fixed.items()}})
    keep("z_twitter", {"transformer": {"bleu": 7.0}})
    _, text, _ = run("--table", "cdnpg-table2")
    assert [cells[1:] for cells in lines(text) if cells[0] == "Transformer"] == [
        ["published", "21.14", "37.97", "26.88", "40.14", "38.21", "P1"],
        ["ours (`transformer`)", "not scored", "2.00", "3.00", "4.00", "5.00", "R1"],
        ["ours (`transformer`)", "11.00", "12.00", "13.00", "14.00", "15.00", "R2"],
        ["published", "24.44", "44.45", "31.12", "31.97", "32.49", "P1"],
        ["not run", "–", "–", "–", "–", "–", "M1"],
    ]
    assert ["FSET", "published", "not printed", "51.03", "33.46", "not printed", "38.57", "P2"] in lines(text)
    assert "METEOR (ours: METEOR-es)" in text
    assert "SYSTEMS='residual_lstm pointer_generator copy_transformer dnpg fset cdnpg_r" in text


def test_a_result_of_which_little_is_known_says_no_more(run: Run) -> None:
    keep("my_pwkp", {"wean_lstm": {PWKP: 36.394}}, commit=None)
    path = Path("results/my_pwkp.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    result["evaluation"]["data"] = {"sentences": 7}
    result["evaluation"]["systems"]["wean_lstm"][PWKP]["score"] = None
    path.write_text(json.dumps(result), encoding="utf-8")
    _, text, _ = run("--table", "wean-table1")
    assert ["WEAN", "ours (`wean_lstm`)", "–", "not scored", "R1"] in lines(text)
    assert legend(text)["R1"].startswith("results/my_pwkp.json, 7 sentences, seed 3, commit unknown, `make it`;")


def test_a_row_may_have_results_of_its_own(run: Run) -> None:
    """WEAN's Table 4 has RNNs by words and by characters. Each is looked up in the results of its unit."""
    rouge = {f"paper:wean-lcsts/ROUGE-{kind}": 20.0 for kind in "12L"}
    keep("rnn_lcsts_char", {"enc_dec_lcsts": rouge})
    _, text, _ = run("--table", "wean-table4")
    kinds = {name: [cells[1] for cells in lines(text) if cells[0] == name] for name in ("RNN", "RNN-W", "SRB")}
    assert kinds == {
        "RNN": ["published", "ours (`enc_dec_lcsts`)"],
        "RNN-W": ["published", "not run"],
        "SRB": ["published", "not run"],
    }


def test_weights_are_counted(run: Run) -> None:
    """The closed forms are V d + V with 4 additional special symbols (50,004 * 257 = 12.85 million), and 2 d^2 + d."""
    _, text, _ = run("--table", "wean-table5")
    assert [cells for cells in lines(text) if cells[1] == "ours"] == [
        ["Seq2seq", "ours", "12.85", "12.85", "2.05", "C1"],
        ["WEAN", "ours", "0.13", "0.13", "0.52", "C1"],
    ]
    assert "`wean-evaluate parameters`" in legend(text)["C1"]


def test_unread_tables_have_no_numbers(run: Run) -> None:
    _, text, _ = run("--table", "pcsan-table4")
    cells = [cell for line in lines(text) for cell in line[2:-1]]
    assert set(cells) == {"not read", "–"}
    assert "images that were not read" in text


def release() -> Path:
    """Write a folder in the layout of DRESS.

    The output of Hybrid is the reference in capitals, and the output of Dress is the source.
    """
    folder = Path("released")
    folder.mkdir()
    texts = {
        "Reference": ["the cat sat on a mat .", "it rains today , they say ."],
        "Complex": ["the feline sat upon a mat .", "it is raining today , they say ."],
    }
    texts |= {"Hybrid": [line.upper() for line in texts["Reference"]], "Dress": texts["Complex"]}
    for name, content in texts.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    return folder


def test_released_outputs_are_scored_again(run: Run) -> None:
    """Case is ignored, so the reference in capitals has BLEU 100.

    An output file equal to the source has the same score as the copy-source row.
    """
    folder = release()
    status, text, _ = run("--table", "wean-table1", "--released", f"pwkp={folder}")
    found = {(cells[0], cells[1]): cells[2:] for cells in lines(text)}
    assert status == 0
    assert found["Hybrid", "released outputs"][::2] == ["100.00", "R1"]
    assert float(found["Hybrid", "released outputs"][1]) > float(found["copy-source", "scored here"][1]), "SARI"
    assert found["DRESS", "released outputs"] == found["copy-source", "scored here"]
    assert ("PBMT-R", "released outputs") not in found
    assert re.search(r"R1: released outputs of pwkp scored now, 2 sentences, .*Files: Reference \w{8}, Complex", text)
    assert str(folder.resolve().parent) not in text


def test_of_two_kinds_of_references_those_of_the_published_rows_count(run: Run) -> None:
    """DRESS releases one of TurkCorpus' eight references under the name Reference."""
    folder = release()
    for number in range(8):
        (folder / f"test.8turkers.tok.turk.{number}").write_text("a b c d\n" * 2, encoding="utf-8")
    status, text, _ = run("--table", "wean-table2", "--released", f"ew-sew={folder}")
    assert status == 0
    assert "2 sentences, 8 references" in text


def test_output_is_written_and_the_overview_printed(run: Run) -> None:
    status, out, _ = run("--output", "deep/all.md")
    text = Path("deep/all.md").read_text(encoding="utf-8")
    assert status == 0
    assert out.splitlines()[-1] == f"deep/all.md written: {len(PUBLISHED_TABLES)} tables."
    assert out.count("\n") == 3 + sum(len(table.rows) for table in PUBLISHED_TABLES.values())
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *(f"## {table.source}: {table.title}" for table in PUBLISHED_TABLES.values()),
        "## Not among these tables",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--results", "nowhere"),
            "nowhere is not a folder with results; give the one that wean-evaluate record writes.",
        ),
        (("--released", "pwkp"), "--released 'pwkp' is not of the form NAME=FILE"),
        (
            ("--released", "pwkp=a", "pwkp=b"),
            "--released: the name 'pwkp' is given twice; give each FILE its own name.",
        ),
        (("--released", "quora=released"), "no outputs are released for 'quora'; choose from pwkp, ew-sew."),
        (("--released", "pwkp=nowhere"), "nowhere is not a folder with the released outputs of pwkp; give one."),
        (("--released", "pwkp=results"), "results has no references; put them there, named Reference* or"),
        (("--released", "pwkp=bare"), "bare has no output of pwkp; name the files PBMT-R, Hybrid, EncDecA, Dress"),
        (("--released", "ew-sew=bare"), "bare has 1 reference but the published rows of ew-sew were scored against 8;"),
        (("--released", "pwkp=short"), "system Hybrid (short/Hybrid) has 1 line but the reference has 2"),
        (("--released", "pwkp=pipe"), "pipe/Hybrid cannot be read (it is not a regular file)"),
        (("--results", "broken"), "x is not JSON (Expecting property name"),
        (
            ("--results", "empty"),
            "empty/y.json: Object missing required field `systems` - at `$.evaluation`; give a file of",
        ),
    ],
)
def test_errors_are_one_sentence_and_write_nothing(run: Run, arguments: tuple[str, ...], message: str) -> None:
    for folder in ("bare", "short", "pipe", "broken", "empty"):
        Path(folder).mkdir()
    os.mkfifo(Path("pipe", "Hybrid"))
    for folder in ("bare", "short", "pipe"):
        for name in ("Reference", "Complex"):
            Path(folder, name).write_text("one line\nanother\n", encoding="utf-8")
    Path("short", "Hybrid").write_text("one line\n", encoding="utf-8")
    Path("broken", "x.json").write_text("{", encoding="utf-8")
    Path("empty", "y.json").write_text('{"experiment": "y", "command": "", "seed": 1, "evaluation": {}}', "utf-8")
    status, out, error = run(*arguments, "--output", "out.md")
    assert (status, out) == (2, "")
    assert error.startswith("wean-evaluate: ") and error.count("\n") == 1
    assert message.replace("x is", f"{Path('broken', 'x.json')} is") in error
    assert not Path("out.md").exists()
