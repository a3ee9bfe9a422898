"""Pairs of one's own: every kind of file gives the same pairs, and no source is in two splits."""

import csv
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wean_fairseq.text import Text, read_text_settings

PAIRS = [(f'He said "it\'s no. {n}", at the café.', f"No. {n} is what he'd said – O'Neil's!") for n in range(40)]
PAIRS += [(PAIRS[n][0], f"Another rewriting of {n}") for n in range(10)]  # the same sources again
SPLITS = ("train", "valid", "test")


def prepare(*arguments: object) -> int:
    return importlib.import_module("own_pairs").main([str(argument) for argument in arguments])


def write(folder: Path, kind: str) -> list[Path]:
    """The pairs as a file of some kind."""
    path = folder / f"pairs.{kind.split('-', maxsplit=1)[0]}"
    if kind == "txt":
        paths = [folder / "mine.a", folder / "mine.b"]
        for side, file in enumerate(paths):
            file.write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
        return paths
    with path.open("w", encoding="utf-8", newline="") as file:
        if kind == "jsonl":
            file.writelines(json.dumps({"n": 1, "text": a, "rewritten": b}) + "\n" for a, b in PAIRS)
        elif kind == "tsv":
            file.writelines(f"{a}\t{b}\n" for a, b in PAIRS)
        else:
            rows = csv.writer(file, delimiter=";" if kind == "csv-semicolons" else ",")
            rows.writerow(["id", "text", "rewritten"])
            rows.writerows([number, *pair] for number, pair in enumerate(PAIRS))
    return [path]


def sentences(folder: Path, split: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{split}.{side}").read_text(encoding="utf-8").splitlines() for side in ("src", "tgt")]
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize("kind", ["csv", "csv-semicolons", "tsv", "jsonl", "txt"])
def test_every_kind_of_file_gives_the_pairs_it_has(tmp_path: Path, kind: str):
    columns = ["--columns", "text,rewritten"] if kind in ("csv", "csv-semicolons", "jsonl") else []
    assert prepare("--data", *write(tmp_path, kind), *columns, "--output", tmp_path / "out", "--unit", "words") == 0
    found = {split: sentences(tmp_path / "out", split) for split in SPLITS}
    assert sorted(pair for pairs in found.values() for pair in pairs) == sorted(PAIRS)
    sources = [{source for source, _ in pairs} for pairs in found.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 40


def test_what_goes_in_at_use_is_what_went_in_at_training(tmp_path: Path):
    """Token for token, with what was learnt from the training text: the lines of the prepared files."""
    for number, options in enumerate(
        (["--lowercase"], ["--truecase"], ["--truecase", "--bpe", "30"], ["--unit", "characters", "--lowercase"])
    ):
        folder = tmp_path / str(number)
        file = write(tmp_path, "csv")[0]
        assert prepare("--data", file, "--columns", "text,rewritten", "--output", folder, *options) == 0
        settings = read_text_settings(folder)
        text = Text(settings, folder)
        at_training = sorted(source for split in SPLITS for source, _ in sentences(folder, split))
        assert sorted(text.prepare(source) for source, _ in PAIRS) == at_training
        if "--lowercase" not in options:
            assert sorted(text.restore(line) for line in at_training) == sorted(source for source, _ in PAIRS)


def test_sources_alone_are_what_they_were_at_training(tmp_path: Path):
    """Token for token, with the case and the pieces that were learnt then; used again as any prepared text."""
    file = write(tmp_path, "csv")[0]
    learnt = ["--columns", "text,rewritten", "--truecase", "--bpe", "30"]
    assert prepare("--data", file, *learnt, "--output", tmp_path / "mine") == 0
    known = {source for split in SPLITS for source, _ in sentences(tmp_path / "mine", split)}
    new = tmp_path / "new.txt"
    new.write_text("".join(f"{source}\n" for source, _ in PAIRS), encoding="utf-8")
    assert prepare("--test", new, "--prepared", tmp_path / "mine", "--output", tmp_path / "new") == 0
    found = (tmp_path / "new" / "test.src").read_text(encoding="utf-8").splitlines()
    assert len(found) == len(PAIRS)
    assert set(found) == known
    assert not (tmp_path / "new" / "test.tgt").exists()
    again = Text(read_text_settings(tmp_path / "new"), tmp_path / "new")
    assert [again.prepare(source) for source, _ in PAIRS] == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--test", "new.txt"], "give --data a file of pairs, or --test a file of sources with --prepared"),
        (["--test", "new.txt", "--prepared", "none"], "there is no file none/manifest.json"),
        (["--test", "5"], "give --data a file of pairs"),
        (["--data", "new.txt", "--prepared", "x"], "give --data a file of pairs"),
    ],
)
def test_sources_alone_need_what_they_are_to_be_like(tmp_path: Path, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    Path("new.txt").write_text("x y\n")
    assert prepare(*arguments, "--output", "out") == 2
    assert says in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "content", "arguments", "says"),
    [
        ("a.csv", "id,a,b\n1,x y,z\n" * 20, [], "a.csv does not tell which columns are the sentences; it has id, a, b"),
        ("a.csv", "id,a,b\n1,x y,z\n" * 20, ["--columns", "a,c"], "a.csv has no columns a and c; it has id, a, b"),
        ("a.csv", "a,b\nx y,z\n", [], "a.csv has 1 pairs: there must be 10 at least"),
        ("a.csv", "just one\ncolumn of\n", [], "a.csv has one column"),
        ("a.jsonl", '{"a": "x", "b": "y"}\nnot json\n', [], "line 2 of .*a.jsonl is no JSON"),
        ("a.csv", "", [], "one column"),
        ("a.csv", 'a,b\nx,"y\n' + "x" * 200_000, [], "line 3 of .*a.csv is no row of the table .*not closed"),
        ("a.csv", "x y,z\n" * 30, [], "cannot be drawn into three splits, as too many share a source"),
        ("a.txt", "x y\n", ["--columns", "a"], "--columns takes two names"),
        ("a.csv", "x y,z\n" * 30, ["--language", "../en"], "'../en' is not a language: give two letters"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, capsys, name, content, arguments, says):
    (tmp_path / name).write_text(content, encoding="utf-8")
    given = [tmp_path / name]
    if name == "a.txt":
        given[0] = given[0].rename(tmp_path / "b.csv")
        given[0].write_text("x y,z\n" * 12)
    assert prepare("--data", *given, *arguments, "--output", tmp_path / "out") == 2
    assert re.search(says, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_tables_given_as_sides_are_noticed(tmp_path: Path, capsys):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one side\tother side\n" * 30)
    assert prepare("--data", tmp_path / "a.txt", tmp_path / "b.txt", "--output", tmp_path / "out") == 2
    assert "are tables: give --data one of them alone" in capsys.readouterr().err
    (tmp_path / "c.tsv").touch()
    assert prepare("--data", tmp_path / "a.txt", tmp_path / "c.tsv", "--output", tmp_path / "out") == 2
    assert "holds both sides alone" in capsys.readouterr().err


def test_outside_of_the_environment_it_says_what_to_do(tmp_path: Path):
    """Python without any of our packages."""
    script = Path(importlib.import_module("own_pairs").__file__)
    done = subprocess.run([sys.executable, "-S", "-E", script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: numpy is not installed here: run `make setup` once, then `source .venv/bin/activate`.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--unit", "words"], ["punctuation is glued to words in many lines", "most lines begin with a capital"]),
        (["--unit", "words", "--lowercase"], ["punctuation is glued to words in many lines"]),
        (["--unit", "moses"], ["most lines begin with a capital"]),
        (["--unit", "moses", "--truecase"], []),
    ],
)
def test_what_the_text_looks_like_is_said(tmp_path: Path, capsys, arguments, says):
    path = tmp_path / "pairs.csv"
    path.write_text("".join(f"This is\tno. {n} of them.,It is {n}.\n" for n in range(40)), encoding="utf-8")
    assert prepare("--data", path, "--output", tmp_path / "out", *arguments) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "glued" in line or "capital" in line]
    assert [line.removeprefix("own_pairs: ").partition(",")[0] for line in said] == says
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["cleaning"]["tabs_in_text"] == 40


def test_text_is_prepared_without_torch_and_fairseq():
    """Importing them takes seconds."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import own_pairs, wean_fairseq.text\n"
    code += "print([name for name in ('torch', 'fairseq') if name in sys.modules])"
    folder = Path(importlib.import_module("own_pairs").__file__).parent
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
