"""Test the preparation of a user's pairs: all file formats give the same pairs, and no source is in two splits."""

import csv
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.storage.files import sha256_of
from wean_fairseq.storage.manifest import Manifest
from wean_fairseq.text import Text, read_text_settings
from wean_fairseq.text.settings import settings_of

PAIRS = [(f'He said "it\'s no. {n}", at the café.', f"No. {n} is what he'd said – O'Neil's!") for n in range(40)]
PAIRS += [(PAIRS[n][0], f"Another rewriting of {n}") for n in range(10)]  # sources that occur twice
SPLITS = ("train", "valid", "test")


def prepare(*arguments: object) -> int:
    return importlib.import_module("own_pairs").main([str(argument) for argument in arguments])


def write(folder: Path, kind: str) -> list[Path]:
    """Write the pairs in the format ``kind``, and return the files (two for "txt")."""
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


def test_a_comma_in_the_folder_is_refused_before_fairseq_preprocess_splits_it(tmp_path: Path, capsys):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"s {n},t {n}\n" for n in range(30)))
    given = ["--data", tmp_path / "a.csv", "--output", tmp_path / "w,x", "--binarise", tmp_path / "bin"]
    assert prepare(*given) == 2
    assert f"{tmp_path}/w,x has a comma, at which fairseq-preprocess splits it: choose" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert prepare(*given[:-2]) == 0


def test_control_characters_of_a_table_are_escaped(tmp_path: Path, capsys):
    """A column may be named ESC ] 0 ; title BEL, which would set the title of a terminal."""
    (tmp_path / "a.csv").write_text("x\x1b]0;y\x07,b\n" + "".join(f"s {n},t {n}\n" for n in range(30)))
    assert prepare("--data", tmp_path / "a.csv", "--output", tmp_path / "out") == 0
    said = capsys.readouterr()
    assert r"source = column 1 x\x1b]0;y\x07" in said.out
    assert "\x1b" not in said.out + said.err


def test_a_file_whose_name_is_not_utf8_is_read(tmp_path: Path):
    path = tmp_path / os.fsdecode(b"a\xff.csv")
    path.write_text("a,b\n" + "".join(f"s {n},t {n}\n" for n in range(30)))
    assert prepare("--data", path, "--output", tmp_path / "out") == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"][0]["file"] == os.fsdecode(
        b"a\xff.csv"
    )


@pytest.mark.parametrize("kind", ["csv", "csv-semicolons", "tsv", "jsonl", "txt"])
def test_every_kind_of_file_gives_the_pairs_it_has(tmp_path: Path, kind: str):
    columns = ["--columns", "text,rewritten"] if kind in ("csv", "csv-semicolons", "jsonl") else []
    assert prepare("--data", *write(tmp_path, kind), *columns, "--output", tmp_path / "out", "--unit", "words") == 0
    found = {split: sentences(tmp_path / "out", split) for split in SPLITS}
    assert sorted(pair for pairs in found.values() for pair in pairs) == sorted(PAIRS)
    sources = [{source for source, _ in pairs} for pairs in found.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 40


@pytest.mark.parametrize(("sizes", "warned"), [((2, 3), ["test", "valid"]), ((100, 99), ["valid"]), ((100, 100), [])])
def test_small_held_out_sets_are_named_once(tmp_path: Path, capsys, sizes, warned):
    table = tmp_path / "pairs.csv"
    table.write_text("a,b\n" + "".join(f"s {n},t {n}\n" for n in range(400)), encoding="utf-8")
    test, valid = sizes
    assert prepare("--data", table, "--output", tmp_path / "out", "--test", test, "--valid", valid) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert [re.search(r"the (\w+) set has \d+ pairs, and .* unreliable", line)[1] for line in lines] == warned


def test_what_goes_in_at_use_is_what_went_in_at_training(tmp_path: Path):
    """The expected tokens are in the prepared files, written by the steps learnt from the training text."""
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
    """The tokens equal those of the training text, with the same learnt case and word pieces.

    The output can be used like any prepared text.
    """
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


ESSAYS = [(f"{a}, {b}; New-York；1,5|{n}", f"The {a} is near the {b}.") for n, a in enumerate("abcdef") for b in "xyz"]


def test_punctuation_between_topics_is_left_out(tmp_path: Path):
    """Topics that are typed later are treated in the same way, but the essay keeps its punctuation.

    A comma in a number and a hyphen belong to a topic.
    """
    file = write_table(tmp_path / "essays.csv", ESSAYS)
    assert prepare("--data", file, "--topics", "--unit", "joiner", "--output", tmp_path / "out") == 0
    expected = {f"{a} {b} New-York 1,5 {n}": "The" for n, a in enumerate("abcdef") for b in "xyz"}
    found = [pair for split in SPLITS for pair in sentences(tmp_path / "out", split)]
    assert {source for source, _ in found} == set(expected)
    assert {target[-3:] for _, target in found} == {" \uffed."}
    assert set(lines_of(tmp_path / "out", "test.raw.src")) <= set(expected)
    text = Text(read_text_settings(tmp_path / "out"), tmp_path / "out")
    assert text.prepare("a, b;c、d") == "a b c d"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--columns", "2,1"], "topic words in one row ('a a a a "),
        (["--truecase"], "--topics have no first word of a sentence, which --truecase changes: leave it out."),
    ],
)
def test_topics_that_are_a_text_are_refused(tmp_path: Path, capsys, arguments, says):
    file = write_table(tmp_path / "essays.csv", [("sea", f"{'a ' * 60}{n}") for n in range(20)])
    assert prepare("--data", file, "--topics", "--output", tmp_path / "out", *arguments) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["text", "model"])
def test_new_pairs_take_the_steps_of_an_earlier_text(tmp_path: Path, kind: str):
    """The tokens equal the tokens of the earlier text for the same pairs, although no step is learnt again."""
    [data] = write(tmp_path, "csv")
    first, again = tmp_path / "first", tmp_path / "again"
    common = ("--data", data, "--columns", "text,rewritten")
    assert prepare(*common, "--output", first, "--truecase", "--bpe", 50) == 0
    earlier = first
    if kind == "model":  # a model folder has these files of the text, too
        earlier = tmp_path / "model"
        earlier.mkdir()
        for name in ("truecase.model", "bpe.codes"):
            (earlier / name).write_bytes((first / name).read_bytes())
        (earlier / "text.json").write_text(json.dumps(json.loads((first / "manifest.json").read_text())["text"]))
    assert prepare(*common, "--output", again, "--prepared", earlier, "--limit", 12) == 0
    for name in ("truecase.model", "bpe.codes", "test.src", "valid.tgt"):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name
    assert (again / "train.src").read_text().splitlines() == (first / "train.src").read_text().splitlines()[:12]
    assert read_text_settings(again) == read_text_settings(first)


def test_the_steps_of_an_earlier_text_are_on_record(tmp_path: Path):
    """The defaults of the options would be recorded otherwise, although another text decides the steps."""
    [data] = write(tmp_path, "csv")
    line = ("--data", data, "--columns", "text,rewritten", "--output")
    assert prepare(*line, tmp_path / "first", "--unit", "moses", "--unicode", "NFKC", "--specials", "keep") == 0
    assert prepare(*line, tmp_path / "again", "--prepared", tmp_path / "first") == 0
    first, again = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("first", "again"))
    assert again["options"] == first["options"] | {"unit": "moses", "unicode": "NFKC", "specials": "keep"}
    assert (again["text"], again["versions"]) == (first["text"], first["versions"])
    assert "sacremoses" in again["versions"]
    assert prepare(*line, tmp_path / "plain") == 0
    plain = json.loads((tmp_path / "plain" / "manifest.json").read_text())["options"]
    assert (plain["unit"], plain["unicode"], plain["specials"]) == ("joiner", "NFC", "escape")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("text", "truecase.model"), ("text", "bpe.codes"), ("model", "bpe.codes"), ("model", "text.json")],
)
def test_changed_files_of_text_steps_are_refused(tmp_path: Path, capsys, kind: str, name: str):
    """The steps of a cut file would give other tokens than those of the training text."""
    [data] = write(tmp_path, "csv")
    text, model, out = (tmp_path / part for part in ("text", "model", "out"))
    line = ("--data", data, "--columns", "text,rewritten", "--output")
    assert prepare(*line, text, "--truecase", "--bpe", 50) == 0
    model.mkdir()
    for file in ("truecase.model", "bpe.codes"):
        (model / file).write_bytes((text / file).read_bytes())
    (model / "text.json").write_text(json.dumps(json.loads((text / "manifest.json").read_text())["text"]))
    Manifest(model).confirm({path.name: sha256_of(path) for path in sorted(model.iterdir())})
    folder = text if kind == "text" else model
    assert prepare(*line, out, "--prepared", folder) == 0
    whole = (folder / name).read_text()
    (folder / name).write_text(whole.replace(", ", " , ") if name == "text.json" else whole[: len(whole) // 2])
    listed = folder / ("manifest.json" if kind == "text" else "checksums.sha256")
    says = f"{folder / name} has changed since its checksum was written to {listed}: restore it, or "
    assert prepare(*line, out, "--prepared", folder, "--overwrite") == 2
    assert says in capsys.readouterr().err
    undo = ["--prepared", folder, "--input", out / "test.src", "--output", tmp_path / "restored"]
    needed = name == "text.json"  # restoring the text needs no learnt file
    assert importlib.import_module("undo_text").main(list(map(str, undo))) == (2 if needed else 0)
    assert (says in capsys.readouterr().err) == needed
    assert (out / "manifest.json").is_file() and (tmp_path / "restored").exists() != needed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--test", "new.txt"], "give --data a file of pairs, or --test a file of sources with --prepared"),
        (["--test", "new.txt", "--prepared", "none"], "there is no file none/manifest.json"),
        (["--test", "5"], "give --data a file of pairs"),
        (["--data", "new.txt", "--prepared", "x"], "there is no file x/manifest.json"),
        (
            ["--data", "new.txt", "--prepared", "x", "--bpe", "9"],
            "--prepared has the steps of the text: leave out --bpe",
        ),
        *(
            (["--test", "new.txt", "--prepared", "x", *option], f"the steps of the text: leave out {option[0]}.")
            for option in (
                ["--unit", "joiner"],
                ["--unicode", "NFC"],
                ["--specials", "keep"],
                ["--language", "en"],
                ["--wordpiece-vocab", "new.txt"],
                ["--unknown", "x"],
                ["--topics"],
            )
        ),
        (["--test", "new.txt", "new.txt", "--prepared", "x"], "without --data is for --test with one file of sources"),
        (["--data", "new.txt", "--test", "none"], "there is no file none"),
        (["--data", "."], ". is a folder: name a regular file."),
        (["--data", "/dev/null"], "/dev/null is a pipe or a device: name a regular file."),
        (["--data", "new.txt", "--test", "5", "new.txt"], "--test takes one number, one file, or two text files"),
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
        ("a.csv", "id,a,b\n1,x y,z\n" * 20, [], r"which columns are the sentences. Its columns are: 1 id, 2 a, 3 b\."),
        (
            "a.csv",
            "id,a,b\n1,x y,z\n" * 20,
            ["--columns", "2," + "9" * 5000],
            "no column 9+",
        ),
        ("a.csv", "id,a,b\n1,x y,z\n" * 20, ["--columns", "a,c"], "no column c. Its columns are: 1 id, 2 a, 3 b"),
        ("a.csv", "a,b\nx y,z\n", [], "a.csv has 1 pair: there must be 10 at least"),
        ("a.csv", "just one\ncolumn of\n", [], "a.csv has one column"),
        ("a.jsonl", '{"a": "x", "b": "y"}\nnot json\n', [], "at least .*; left out: 1 malformed .first: line 2, "),
        ("a.csv", "", [], "a.csv is empty"),
        (
            "a.csv",
            "a,b\n" + "x y,z\n" * 3 + "x\n" * 3,
            [],
            "3 malformed rows and 4 good .* line 5: 1 cell instead of 2",
        ),
        (
            "a.csv",
            "".join(f"x y,{n}z\n" for n in range(30)),
            [],
            "because too many share one: give --test and --valid separate files, or add",
        ),
        (
            "a.csv",
            "".join(f"x {n},{n}z\n" for n in range(40)),
            ["--test", "9999"],
            "a.csv has 40 pairs, and --test 9999 and --valid 2 leave none to train: ask for fewer.",
        ),
        (
            "a.csv",
            "".join(f"x {n},{n}z\n" for n in range(40)),
            ["--test", "30", "--valid", "10"],
            "a.csv has 40 pairs, and --test 30 and --valid 10 leave none to train: ask for fewer.",
        ),
        ("a.csv", "x y,z\n" * 30, [], "has 1 pair: there must be 10 at least"),
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


def test_a_language_without_rules_is_refused(tmp_path: Path, capsys):
    """Without this check, Moses would treat an unknown language as English."""
    file = write_table(tmp_path / "pairs.csv", [(f"a {n}", f"b {n}") for n in range(20)])
    line = ("--data", file, "--unit", "moses", "--output", tmp_path / "out", "--language")
    assert prepare(*line, "xx") == 2
    assert "there are no Moses rules for --language xx: choose from as, bn, ca, cs, de, " in capsys.readouterr().err
    assert prepare(*line, "") == 2
    assert prepare(*line, "de") == 0
    # The text.json of a model may also contain an unknown language.
    with pytest.raises(UserError, match="there are no Moses rules for --language zz"):
        settings_of({"unit": "moses", "language": "zz"}, tmp_path)


def test_tables_given_as_sides_are_noticed(tmp_path: Path, capsys):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one side\tother side\n" * 30)
    assert prepare("--data", tmp_path / "a.txt", tmp_path / "b.txt", "--output", tmp_path / "out") == 2
    assert "are tables: give --data only one of them" in capsys.readouterr().err
    (tmp_path / "c.tsv").write_text('{"a": 1}\n')
    assert prepare("--data", tmp_path / "a.txt", tmp_path / "c.tsv", "--output", tmp_path / "out") == 2
    assert "holds both sides alone" in capsys.readouterr().err


def test_outside_of_the_environment_it_says_what_to_do(tmp_path: Path):
    """With -S, Python finds none of the installed packages."""
    script = Path(importlib.import_module("own_pairs").__file__)
    done = subprocess.run([sys.executable, "-S", "-E", script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: numpy is not installed here: run `make setup` once, then `source .venv/bin/activate`.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--unit", "words"], ["punctuation is attached to words in many lines", "most lines begin with a capital"]),
        (["--unit", "words", "--lowercase"], ["punctuation is attached to words in many lines"]),
        (["--unit", "moses"], ["most lines begin with a capital"]),
        (["--unit", "moses", "--truecase"], []),
    ],
)
def test_what_the_text_looks_like_is_said(tmp_path: Path, capsys, arguments, says):
    path = tmp_path / "pairs.csv"
    tabs = ("\t", "\t\t")  # if every line had the same number of tabs, the file would be a table
    rows = [f"This is{tabs[n % 2]}no. {n} of them.,It is {n}.\n" for n in range(40)]
    path.write_text("".join(rows), encoding="utf-8")
    assert prepare("--data", path, "--output", tmp_path / "out", *arguments) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "attached" in line or "capital" in line]
    assert [line.removeprefix("own_pairs: ").partition(",")[0] for line in said] == says
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["cleaning"]["tabs_in_text"] == 60


def test_text_is_prepared_without_torch_and_fairseq():
    """Importing torch and fairseq would take seconds."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import own_pairs, wean_fairseq.text\n"
    code += "print([name for name in ('torch', 'fairseq') if name in sys.modules])"
    folder = Path(importlib.import_module("own_pairs").__file__).parent
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def lines_of(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def write_table(path: Path, rows: list[tuple[str, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["old", "new", "more", "last"][: len(rows[0])], *rows])
    return path


RAW = [
    (f"Don't  go {n}!\u200b", f'Stay, "{n}".', f"Please\nstay {n}.", f"Stay {n}" if n % 2 else "") for n in range(40)
]


def test_raw_text_stands_beside_the_tokens_with_all_references(tmp_path: Path, capsys):
    table = write_table(tmp_path / "table", RAW)
    line = ["--data", table, "--columns", "old,new,more,last", "--test", 6, "--valid", 4, "--lowercase"]
    assert prepare(*line, "--output", tmp_path / "out") == 0
    # The expected text has single spaces and no zero-width characters, and a missing reference is an empty line.
    clean = {f"Don't go {n}!": (f'Stay, "{n}".', f"Please stay {n}.", last) for n, (*_, last) in enumerate(RAW)}
    for split, size in (("test", 6), ("valid", 4)):
        sources = lines_of(tmp_path / "out", f"{split}.raw.src")
        assert len(sources) == size
        for place, ending in enumerate(("tgt", "tgt.1", "tgt.2")):
            assert lines_of(tmp_path / "out", f"{split}.raw.{ending}") == [clean[source][place] for source in sources]
        text = Text(read_text_settings(tmp_path / "out"), tmp_path / "out")
        assert lines_of(tmp_path / "out", f"{split}.src") == [text.prepare(source) for source in sources]
    assert not list((tmp_path / "out").glob("train.raw*"))
    assert re.search(r"own_pairs: test: \d further references are missing", capsys.readouterr().out)


@pytest.mark.parametrize("text", ["نمی‌خواهم {}", "क्‍ष {}", "👩‍💻 {}"])
def test_raw_text_keeps_the_joiners_that_tokens_keep(tmp_path: Path, text: str):
    """Unicode, chapter 23.2: a joiner or non-joiner between letters of these scripts changes the text."""
    table = write_table(tmp_path / "table", [(text.format(n), f"x {n}") for n in range(20)])
    assert prepare("--data", table, "--test", 5, "--output", tmp_path / "out") == 0
    raw = lines_of(tmp_path / "out", "test.raw.src")
    assert set(raw) < {text.format(n) for n in range(20)}
    restore = Text(read_text_settings(tmp_path / "out"), tmp_path / "out").restore
    assert [restore(line) for line in lines_of(tmp_path / "out", "test.src")] == raw


def test_own_splits_are_taken_whole_and_their_references_kept_from_training(tmp_path: Path):
    data = write_table(tmp_path / "data", [(f"a {n}", f"b {n}") for n in range(30)])
    own = [("x 1", "y 1", "b 3", ""), ("a 5", "y 2", "z", "z"), ("a 5", "y 2", "z", "z")]
    test = write_table(tmp_path / "test", own)
    for side in ("src", "tgt"):
        (tmp_path / f"v.{side}").write_text(f"v {side}\n")
    valid = ["--valid", tmp_path / "v.src", tmp_path / "v.tgt"]
    line = ["--data", data, "--columns", "old,new,more", "--test", test, *valid, "--unit", "words"]
    assert prepare(*line, "--drop-leaks", "any", "--output", tmp_path / "out") == 0
    assert sentences(tmp_path / "out", "test") == [row[:2] for row in own]
    assert lines_of(tmp_path / "out", "test.raw.tgt.1") == ["b 3", "z", "z"]
    assert sentences(tmp_path / "out", "valid") == [("v src", "v tgt")]
    # The target of pair 3 is a reference of the test set, and the source of pair 5 is one of its sources.
    assert sentences(tmp_path / "out", "train") == [(f"a {n}", f"b {n}") for n in range(30) if n not in (3, 5)]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert [source["file"] for source in manifest["sources"]] == ["data", "test", "v.src", "v.tgt"]
    assert manifest["tables"]["data"]["columns"] == ["old", "new"]
    assert manifest["tables"]["test"]["columns"] == ["old", "new", "more"]


def test_the_draw_depends_on_the_seed_alone_and_not_on_format_or_order(tmp_path: Path):
    rows = [(f"a {n}", f"b {n}") for n in range(50)]
    files = [write_table(tmp_path / "one", rows), write_table(tmp_path / "two", rows[::-1]), tmp_path / "three"]
    files[2].write_text(json.dumps([{"old": a, "new": b} for a, b in rows]))
    found = []
    for number, (file, seed) in enumerate([*((file, 1) for file in files), (files[0], 2)]):
        assert prepare("--data", file, "--seed", seed, "--output", tmp_path / str(number), "--test", 7) == 0
        found.append({split: sorted(sentences(tmp_path / str(number), split)) for split in SPLITS})
    assert found[0] == found[1] == found[2] != found[3]


# --- folders that the library datasets has saved ----------------------------------------------------------------------


def save(folder: Path, rows: list[tuple[str, str]], files: int = 1) -> None:
    """Write a table like ``Dataset.save_to_disk`` of datasets 5.2, but only with the files that are read."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-{files:05}.arrow" for number in range(files)]
    for number, name in enumerate(names):
        table = pa.table(
            {"text": [a for a, _ in rows[number::files]], "rewritten": [b for _, b in rows[number::files]]}
        )
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0"}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")


def test_a_saved_table_has_the_pairs_of_a_text_file(tmp_path: Path):
    """The expected splits come from a table in JSON lines with the same rows."""
    save(tmp_path / "saved", PAIRS)
    [table] = write(tmp_path, "jsonl")
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "a") == 0
    assert prepare("--data", table, "--columns", "text,rewritten", "--output", tmp_path / "b") == 0
    for split in SPLITS:
        assert sentences(tmp_path / "a", split) == sentences(tmp_path / "b", split)
    save(tmp_path / "two", PAIRS, files=2)
    assert prepare("--data", tmp_path / "two", "--output", tmp_path / "c") == 0
    sources = json.loads((tmp_path / "c" / "manifest.json").read_text())["sources"]
    assert len(sources) == 2


def test_saved_splits_are_used_unless_others_are_given(tmp_path: Path):
    for name, rows in (("train", PAIRS[10:30]), ("validation", PAIRS[5:9]), ("test", PAIRS[:4])):
        save(tmp_path / "saved" / name, rows)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "validation", "test"]}')
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "a") == 0
    assert [len(sentences(tmp_path / "a", split)) for split in SPLITS] == [20, 4, 4]
    assert prepare("--data", tmp_path / "saved", "--test", 3, "--output", tmp_path / "b") == 0
    assert [len(sentences(tmp_path / "b", split)) for split in SPLITS] == [17, 4, 3]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("{", "state.json cannot be read"),
        ('{"_data_files": "x"}', "state.json cannot be read"),
        ('{"_data_files": []}', "has no rows"),
        ('{"_data_files": [{"filename": "../../other.arrow"}]}', "has no other.arrow"),
        ('{"_data_files": [{"filename": "broken.arrow"}]}', "cannot read"),
        ('{"_data_files": [{"filename": ".."}]}', "names '..' as a part"),
        ('{"_data_files": [{"filename": "broken.arrow"}, {"filename": "./broken.arrow"}]}', "has no rows"),
    ],
)
def test_a_damaged_saved_table_is_refused(tmp_path: Path, capsys, state: str, says: str):
    save(tmp_path / "saved", PAIRS)
    (tmp_path / "saved" / "state.json").write_text(state)
    (tmp_path / "saved" / "broken.arrow").write_bytes(b"\xff\xff\xff\xff\x01\0\0\0")
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "out") == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packing", ["lz4", "zstd"])
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_saved_table_with_packed_columns_is_refused(tmp_path: Path, capsys, packing: str, is_dictionary: bool):
    """A file of 300 KB with compressed columns can contain 3 GB. The library datasets never compresses columns."""
    save(tmp_path / "saved", PAIRS)
    [path] = (tmp_path / "saved").glob("*.arrow")
    table = pa.table({"text": [a for a, _ in PAIRS], "rewritten": [b for _, b in PAIRS]})
    if is_dictionary:
        table = pa.table({name: table[name].dictionary_encode() for name in table.column_names})
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as stream:
        stream.write_table(table)
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "out") == 2
    assert f"{path} has packed columns: save the table again with datasets." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", range(40))
def test_a_saved_table_with_damaged_bytes_is_one_sentence(tmp_path: Path, capsys, seed: int):
    """PyArrow takes lengths and positions from the file, and reads outside of it unless they are checked."""
    save(tmp_path / "saved", PAIRS)
    [path] = (tmp_path / "saved").glob("*.arrow")
    content, chance = bytearray(path.read_bytes()), Random(seed)
    for _ in range(12):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)
    status = prepare("--data", tmp_path / "saved", "--output", tmp_path / "out")
    assert status == 0 or (status == 2 and capsys.readouterr().err.count("\n") == 1)


@pytest.mark.parametrize("split", [".", "..", "train"])
def test_saved_splits_that_lead_back_are_refused(tmp_path: Path, capsys, split: str):
    """Links that lead back would double the number of splits at each level."""
    save(tmp_path / "saved", PAIRS)
    (tmp_path / "saved" / "state.json").unlink()
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": [split, "test"]}))
    for name in ("train", "test"):
        (tmp_path / "saved" / name).symlink_to(".")
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "out") == 2
    assert "save the table again." in capsys.readouterr().err


@pytest.mark.parametrize("version", [None, "0.17.1", "9.0.0", "14.0.0", "14.0.0.dev3"])
def test_without_a_safe_pyarrow_its_package_is_named(tmp_path: Path, capsys, monkeypatch, version: str | None):
    """CVE-2023-47248 affects pyarrow 0.14.0 to 14.0.0."""
    save(tmp_path / "saved", PAIRS)
    monkeypatch.setitem(sys.modules, "pyarrow", version and SimpleNamespace(__version__=version))
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "out") == 2
    message = "is read with pyarrow>=14.0.1, which is not installed: run `pip install 'pyarrow>=14.0.1'`.\n"
    error = capsys.readouterr().err
    assert error.endswith(message) and error.count("\n") == 1


@pytest.mark.parametrize("version", ["14.0.1", "15.0.0", "26.0.1"])
def test_safe_versions_of_pyarrow_are_taken(tmp_path: Path, monkeypatch, version: str):
    save(tmp_path / "saved", PAIRS)
    monkeypatch.setattr(pa, "__version__", version)
    assert prepare("--data", tmp_path / "saved", "--output", tmp_path / "out") == 0


def test_a_text_that_is_no_sentence_is_refused(tmp_path: Path, capsys):
    """Splitting a cell of 30 MB into words takes gigabytes."""
    rows = "".join(f"s {n},t {n}\n" for n in range(30))
    (tmp_path / "a.csv").write_text(f"{rows}long {'x' * (1 << 20)},t\n")
    assert prepare("--data", tmp_path / "a.csv", "--output", tmp_path / "out") == 2
    said = "begins with 'long xxx.*' has 1,048,581 characters, but one sentence or essay has at most 1,048,576"
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_sparse_file_of_any_size_is_refused_at_once(tmp_path: Path, capsys):
    """Computing the checksum of a terabyte takes an hour."""
    with (tmp_path / "a.csv").open("wb") as file:
        file.truncate(1 << 40)
    assert prepare("--data", tmp_path / "a.csv", "--output", tmp_path / "out") == 2
    assert "a.csv begins with zero bytes: this is not text" in capsys.readouterr().err


def test_a_pipe_that_nobody_writes_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"cannot read .*pipe: it is not a regular file"):
        next(importlib.import_module("corpus.reading").read_lines(tmp_path / "pipe"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null"])
def test_a_number_that_is_not_finite_is_an_empty_cell(tmp_path: Path, number: str):
    """json.dumps of a table with gaps writes NaN and Infinity, which are not sentences."""
    rows = [json.dumps({"a": a, "b": b}) for a, b in PAIRS]
    (tmp_path / "a.jsonl").write_text("\n".join([*rows, f'{{"a": {number}, "b": "only here"}}']), encoding="utf-8")
    assert prepare("--data", tmp_path / "a.jsonl", "--output", tmp_path / "out") == 0
    assert "only here" not in {target for split in SPLITS for _, target in sentences(tmp_path / "out", split)}
