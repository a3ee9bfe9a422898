"""Test inputs of own_pairs.py that contradict one another: they are read by names, refused or warned about."""

import importlib
import json
from pathlib import Path

import pytest

from tests.unit.preprocess.test_own_pairs import PAIRS, lines_of, prepare, save, sentences
from wean_fairseq.errors import UserError
from wean_fairseq.storage.saved_tables import find_splits
from wean_fairseq.training.cli import main as train_command

ROWS = [(f"{n} birds sang all day .", f"all day {n} birds were heard .") for n in range(30)]
HELD_OUT = [(f"{n} fish swam all day .", f"all day {n} fish were seen .") for n in range(5)]


def write(path: Path, names: str, rows: list[tuple[str, str]], *, swapped: bool = False) -> Path:
    """Write CSV, or JSON lines if the suffix is .jsonl. The columns may be exchanged. No names = no header."""
    rows = [row[::-1] for row in rows] if swapped else rows
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names.split(","), row, strict=True))) for row in rows]
    else:
        lines = [names] * bool(names) + [",".join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("first", ["train.csv", "train.jsonl"])
@pytest.mark.parametrize("other", ["test.csv", "test.jsonl"])
@pytest.mark.parametrize("columns", [[], ["--columns", "question,answer"]])
def test_columns_of_all_tables_are_found_by_their_names(tmp_path: Path, first: str, other: str, columns: list[str]):
    data = write(tmp_path / first, "question,answer", ROWS)
    test = write(tmp_path / other, "answer,question", HELD_OUT, swapped=True)
    assert prepare("--data", data, "--test", test, "--valid", 3, *columns, "--output", tmp_path / "out") == 0
    assert sentences(tmp_path / "out", "test") == HELD_OUT


@pytest.mark.parametrize("first", ["Question,Answer", "source,target", "Input,Output"])
@pytest.mark.parametrize(("other", "swapped"), [("question,answer", False), ("src,tgt", False), ("tgt,src", True)])
def test_names_of_the_same_meaning_are_the_same_columns(tmp_path: Path, first: str, other: str, swapped: bool):
    """Case is ignored, and the usual names of sources and targets mean the same."""
    data = write(tmp_path / "train.csv", first, ROWS)
    test = write(tmp_path / "test.csv", other, HELD_OUT, swapped=swapped)
    status = prepare("--data", data, "--test", test, "--valid", 3, "--output", tmp_path / "out")
    assert status == (2 if other == "question,answer" and first != "Question,Answer" else 0)
    if status == 0:
        assert sentences(tmp_path / "out", "test") == HELD_OUT


@pytest.mark.parametrize(
    ("first", "other", "columns", "says"),
    [
        ("question,answer", "text,rewritten", [], "test.csv does not have the columns question and answer of "),
        ("question,answer", "question,reply", [], "Its columns are: 1 question, 2 reply. Give all tables the same"),
        ("question,answer", "answer,answer", [], "the columns question and answer of train.csv once each."),
        ("question,answer", "answer,question", ["--columns", "1,2"], "choose the columns by their names"),
        ("question,answer", "answer,reply", ["--columns", "1,2"], "has the columns answer and reply where train.csv"),
        ("target,source", "target,source", [], "train.csv has the target before the source, by the names of its"),
        ("Output,Input", "", [], "train.csv has the target before the source, by the names of its"),
        ("question,answer", "question,answer", ["--columns", "1,2,typo"], "no table has a column typo: take it out"),
        ("question,answer", "question,answer", ["--columns", "1,2,3"], "no table has a column 3: take it out"),
    ],
)
def test_names_that_contradict_one_another_are_refused(tmp_path, capsys, monkeypatch, first, other, columns, says):
    monkeypatch.chdir(tmp_path)
    write(Path("train.csv"), first, ROWS)
    write(Path("test.csv"), other, HELD_OUT)
    assert prepare("--data", "train.csv", "--test", "test.csv", *columns, "--output", "out") == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("first", "second"),
    [("question,answer", "answer,question"), ("id,question,answer", "question,answer,id")],
)
def test_a_second_table_in_the_same_file_is_refused(tmp_path: Path, capsys, first: str, second: str):
    """The sides of its rows were exchanged."""
    data = tmp_path / "a.csv"
    rows = [(*row, str(number))[-len(first.split(",")) :] for number, row in enumerate(ROWS)]
    lines = [first, *map(",".join, rows), second, *map(",".join, rows)]
    data.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert prepare("--data", data, "--columns", "question,answer", "--output", tmp_path / "out") == 2
    assert f"line 32 of {data} is another header, so the columns change: write each" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "other", "columns", "warned"),
    [
        ("question,answer", "", [], True),
        ("", "question,answer", [], True),
        ("", "", [], False),
        ("question,answer", "text,rewritten", ["--columns", "1,2"], False),
        ("target,source", "target,source", ["--columns", "target,source"], False),
    ],
)
def test_columns_are_read_by_their_order_without_names(tmp_path, capsys, first, other, columns, warned):
    data, test = write(tmp_path / "train.csv", first, ROWS), write(tmp_path / "test.csv", other, HELD_OUT)
    assert prepare("--data", data, "--test", test, "--valid", 3, *columns, "--output", tmp_path / "out") == 0
    assert sentences(tmp_path / "out", "test") == HELD_OUT
    assert ("warning: columns are read by their order" in capsys.readouterr().out) == warned


def test_a_further_reference_that_one_table_has_is_read(tmp_path: Path):
    data = write(tmp_path / "train.csv", "a,b", ROWS)
    test = tmp_path / "test.csv"
    test.write_text("b,a,c\n" + "".join(f"{target},{source},more\n" for source, target in HELD_OUT), encoding="utf-8")
    assert prepare("--data", data, "--test", test, "--columns", "a,b,c", "--output", tmp_path / "out") == 0
    assert sentences(tmp_path / "out", "test") == HELD_OUT
    assert lines_of(tmp_path / "out", "test.raw.tgt.1") == ["more"] * len(HELD_OUT)


def test_held_out_tables_are_compared_if_the_data_is_two_files(tmp_path: Path, capsys):
    data = write_sides(tmp_path, "train", ROWS)
    test, valid = tmp_path / "test.csv", tmp_path / "valid.csv"
    write(test, "question,answer", HELD_OUT)
    given = ["--data", *data, "--test", test, "--valid", valid]
    write(valid, "answer,question", HELD_OUT, swapped=True)
    assert prepare(*given, "--output", tmp_path / "out") == 0
    assert sentences(tmp_path / "out", "valid") == HELD_OUT
    write(valid, "answer,reply", HELD_OUT)
    assert prepare(*given, "--output", tmp_path / "other") == 2
    assert f"does not have the columns question and answer of {test} once each." in capsys.readouterr().err


def write_sides(folder: Path, name: str, rows: list[tuple[str, str]]) -> list[Path]:
    for side, ending in enumerate(("old", "new")):
        (folder / f"{name}.{ending}").write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    return [folder / f"{name}.old", folder / f"{name}.new"]


def test_text_files_in_another_order_are_refused(tmp_path: Path, capsys):
    data, test = write_sides(tmp_path, "train", ROWS), write_sides(tmp_path, "test", HELD_OUT)
    assert prepare("--data", *data, "--test", *test[::-1], "--output", tmp_path / "out") == 2
    assert f"have the endings of {data[1]} and {data[0]}: give the sources first." in capsys.readouterr().err
    assert prepare("--data", *data, "--test", *test, "--output", tmp_path / "out") == 0


def test_a_file_that_is_given_twice_is_refused(tmp_path: Path, capsys):
    data = write(tmp_path / "a.csv", "a,b", ROWS)
    (tmp_path / "link.csv").symlink_to("a.csv")
    sides = write_sides(tmp_path, "train", ROWS)
    for given, purposes in (
        (["--data", data, "--test", data], "file 1 of --data and as file 1 of --test"),
        (["--data", data, "--valid", tmp_path / "link.csv"], "file 1 of --data and as file 1 of --valid"),
        (["--data", sides[0], sides[0]], "file 1 of --data and as file 2 of --data"),
        (["--data", data, "--test", *sides, "--valid", *sides], "file 1 of --test and as file 1 of --valid"),
    ):
        assert prepare(*given, "--output", tmp_path / "out") == 2
        assert f"is given as {purposes}: give another file for one of them." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_aligned_text_in_another_order_is_refused(tmp_path: Path, capsys):
    train, test = write_sides(tmp_path, "train", ROWS), write_sides(tmp_path, "test", HELD_OUT)
    run = importlib.import_module("parallel_text").main
    line = ["--train", *train, "--output", tmp_path / "out", "--test"]
    assert run([*map(str, line), *map(str, test[::-1])]) == 2
    assert f"have the endings of {train[1]} and {train[0]}: give the sources first." in capsys.readouterr().err
    assert run([*map(str, line), *map(str, test)]) == 0


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_one_file_as_both_sides_of_aligned_text_is_warned_about(tmp_path: Path, capsys, split: str):
    """An auto-encoder learns from such text. The same source may have several targets."""
    sides = write_sides(tmp_path, "data", ROWS)
    (tmp_path / "link").symlink_to(sides[0])
    run = importlib.import_module("parallel_text").main
    for number, (target, warnings) in enumerate(((sides[1], 0), (sides[0], 1), (tmp_path / "link", 1))):
        assert run([f"--{split}", str(sides[0]), str(target), "--output", str(tmp_path / f"{number}")]) == 0
        said = f"warning: {target} is both sides of --{split}, so that copying is always right: give"
        assert "".join(capsys.readouterr()).count(said) == warnings


def test_one_file_of_essays_is_not_training_and_test(tmp_path: Path, capsys):
    (tmp_path / "essays").write_text("x", encoding="utf-8")
    given = ["--train", tmp_path / "essays", "--test", tmp_path / "essays", "--output", tmp_path / "out"]
    assert importlib.import_module("essay").main(list(map(str, given))) == 2
    assert "essays is given as --test and as --train: give another file" in capsys.readouterr().err


def test_options_without_effect_are_refused(tmp_path: Path, capsys):
    sides, test = write_sides(tmp_path, "train", ROWS), write(tmp_path / "test.csv", "a,b", HELD_OUT)
    assert prepare("--data", *sides, "--header", "yes", "--output", tmp_path / "out") == 2
    assert "--header is for tables, and text files with one side have no header" in capsys.readouterr().err
    assert prepare("--data", *sides, "--test", test, "--header", "yes", "--output", tmp_path / "out") == 0


def test_a_number_that_is_also_a_file_is_refused(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("a.csv"), "a,b", ROWS)
    write(Path("5"), "a,b", HELD_OUT)
    line = ["--valid", "5", "--output", "out"]
    for call in (lambda: prepare("--data", "a.csv", *line), lambda: train_command(["a.csv", *line])):
        with pytest.raises(SystemExit, match="2"):
            call()
        assert "5 is a number and a file here: write ./5 for the file, or move it" in capsys.readouterr().err
    assert prepare("--data", "a.csv", "--valid", "./5", "--output", "out") == 0
    assert sentences(Path("out"), "valid") == HELD_OUT


def test_pairs_in_two_splits_are_a_warning(tmp_path: Path, capsys):
    data, test = write(tmp_path / "a.csv", "a,b", ROWS), write(tmp_path / "b.csv", "a,b", ROWS[:4])
    assert prepare("--data", data, "--test", test, "--valid", 3, "--output", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "own_pairs: warning: train lines that also occur in test: " in said
    assert "own_pairs: train lines that also occur in valid: 0 pairs" in said


def test_splits_of_a_saved_table_are_found_by_their_names(tmp_path: Path, capsys):
    for name in ("train", "val", "dev", "test", "rest"):
        save(tmp_path / "saved" / name, PAIRS[5:9] if name == "val" else PAIRS[10:30])

    def run_with(splits: list[str], *options: object) -> int:
        (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": splits}))
        return prepare("--data", tmp_path / "saved", *options, "--output", tmp_path / "out", "--overwrite")

    assert run_with(["train", "val"]) == 0
    assert len(sentences(tmp_path / "out", "valid")) == 4
    for splits, says in (
        (
            ["train", "rest"],
            "has the split 'rest', but the names of splits are train, validation, valid, dev, val, test",
        ),
        (["train", "val", "dev"], "has val and dev, which both mean the split valid"),
        (["val", "test"], "has no split train"),
    ):
        assert run_with(splits) == 2
        assert says in capsys.readouterr().err
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    data = write(tmp_path / "a.csv", "text,rewritten", ROWS)
    assert prepare("--data", data, "--test", tmp_path / "saved", "--output", tmp_path / "other") == 2
    assert "has several splits: give --test the folder of one of them." in capsys.readouterr().err


def test_names_of_splits():
    assert find_splits(["test", "val", "train"], "it", "") == {"test": "test", "valid": "val", "train": "train"}
    with pytest.raises(UserError, match="it has the split 'tset'"):
        find_splits(["tset"], "it", "correct it")
