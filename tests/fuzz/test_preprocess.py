"""For any text, the preprocessing scripts keep all lines in their places, or end with one error sentence.

The tests in tests/unit/preprocess check the formats.
"""

import importlib
import io
import json
import re
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from tests.fuzz.text import LONGEST, assert_one_sentence, attempt, budgets, call, damaged, files, paragraphs
from wean_fairseq.text import steps


def run_script(name: str, *arguments: object) -> tuple[int, str, str]:
    return call(importlib.import_module(name).main, *arguments)


def read(path: Path) -> list[str]:
    """Return the lines of a file. Fail if other programs would split the file into other lines."""
    text = path.read_bytes().decode("utf-8")
    assert len(text.splitlines()) == text.count("\n")
    return text.split("\n")[:-1]


def lines_written(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@budgets(15, 1500)
def test_both_sides_keep_their_lines_in_order(examples, reliability):
    """Test with lines that begin with their number, so that lost, split and moved lines are detected."""

    def check(source, target, options, drawn):
        size = min(len(source), len(target))
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, lines in (("s", source[:size]), ("t", target[:size])):
                numbered = [f"n{number} {line}".rstrip("\r") for number, line in enumerate(lines)]
                (folder / name).write_bytes(drawn.draw(files(numbered)).content)
            pair = [folder / "s", folder / "t"]
            arguments = ["--train", *pair, "--output", folder / "out", *options]
            assert run_script("parallel_text", *arguments)[::2] == (0, "")
            for side in ("src", "tgt"):
                assert [line.split()[0] for line in read(folder / f"out/train.{side}")] == [
                    f"n{n}" for n in range(size)
                ]

    options = st.sampled_from([[], ["--lowercase"], ["--unit", "moses"], ["--unicode", "none"], ["--specials", "keep"]])
    attempt(examples, reliability, check, source=paragraphs(), target=paragraphs(), options=options, drawn=st.data())


@budgets(10, 1000)
def test_what_is_no_text_or_no_pair_is_refused(examples, reliability):
    def check(lines, drawn, harm):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "s").write_bytes(drawn.draw(files(lines)).content)
            (folder / "t").write_bytes(drawn.draw(harm(lines)).content)
            pair = [folder / "s", folder / "t"]
            status, _, err = run_script("parallel_text", "--train", *pair, "--output", folder / "out", "--drop-empty")
            assert status == 2
            assert_one_sentence(err, "parallel_text")
            assert {path.name for path in folder.iterdir()} == {"s", "t"}

    harm = st.sampled_from([damaged, lambda lines: files([*lines, "more"])])
    attempt(examples, reliability, check, lines=paragraphs(), drawn=st.data(), harm=harm)


UNDO = [{}, {"bpe": 5}, {"truecase": True}, *({"unit": unit} for unit in steps.UNITS)]


@budgets(12, 1000)
def test_outputs_are_turned_back_line_by_line(examples, reliability):
    """Test that undo_text, clause_chunks and restore_entities write one line for each line of a model's output."""

    def check(lines, options, drawn):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "outputs").write_bytes(drawn.draw(files(lines)).content)
            assume(sum(bool(re.match(r"[STHDPA]-\d", line)) for line in lines) < 2)  # logs are refused
            (folder / "manifest.json").write_text(json.dumps({"files": {}, "options": options}), encoding="utf-8")
            (folder / "entities").write_text('{"PERSON@1": "Ann Lee"}\n' * len(lines), encoding="utf-8")
            to = ["--input", folder / "outputs", "--output"]
            assert run_script("undo_text", "--prepared", folder, *to, folder / "undone") == (0, "", "")
            assert run_script("clause_chunks", *to, folder / "joined") == (0, "", "")
            assert run_script("restore_entities", "--entities", folder / "entities", *to, folder / "named") == (
                0,
                "",
                "",
            )
            for name in ("undone", "joined", "named"):
                assert lines_written(folder / name) == len(lines)
            # The tokens are restored. White space between tokens becomes a single space.
            if not options and "&lt;" not in "".join(lines):
                assert read_plain(folder / "undone") == [" ".join(line.split()) for line in lines]
            wanted = [" ".join(word for word in line.split() if word != "<chunk>") for line in lines]
            assert read_plain(folder / "joined") == wanted
            wanted = [" ".join("Ann Lee" if word == "PERSON@1" else word for word in line.split()) for line in lines]
            assert read_plain(folder / "named") == wanted

    attempt(examples, reliability, check, lines=paragraphs(0), options=st.sampled_from(UNDO), drawn=st.data())


def read_plain(path: Path) -> list[str]:
    """Return lines that may contain characters which only some programs treat as line ends."""
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


@budgets(10, 1000)
def test_every_word_gets_its_weak_label(examples, reliability):
    def check(source, target, drawn):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for side, lines in (("src", source), ("tgt", target)):
                (folder / f"train.{side}").write_bytes(drawn.draw(files(lines)).content)
            status, _, err = run_script("weak_labels", "--data", folder, "--output", folder / "out")
            if len(source) != len(target) or not all(line.split() for line in [*source, *target]):
                assert status == 2
                assert_one_sentence(err, "weak_labels")
                assert not (folder / "out").exists()
                return
            assert status == 0
            for side, lines in (("src", source), ("tgt", target)):
                labels = read(folder / f"out/train.{side}.z")
                assert [len(line.split()) for line in labels] == [len(line.split()) for line in lines]

    attempt(examples, reliability, check, source=paragraphs(1, 3), target=paragraphs(1, 3), drawn=st.data())


@budgets(4, 300)
def test_word_vectors_are_of_the_words_of_the_text(examples, reliability):
    pytest.importorskip("gensim")

    def check(lines, drawn):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "t").write_bytes(drawn.draw(files(lines)).content)
            options = ["--dim", 4, "--epochs", 1, "--min-count", 1]
            status, _, err = run_script("word_vectors", "--text", folder / "t", "--output", folder / "out", *options)
            words = {word for line in lines for word in line.split()}
            if not words:
                assert status == 2
                assert_one_sentence(err, "word_vectors")
                return
            assert status == 0
            head, *rows = read_plain(folder / "out/vectors.txt")
            assert head == f"{len(words)} 4"
            assert {row.rsplit(" ", 4)[0] for row in rows} == words

    attempt(examples, reliability, check, lines=paragraphs(0), drawn=st.data())


@pytest.mark.parametrize("line", ["y" * LONGEST, "ab cd e " * (LONGEST // 8)], ids=["word", "words"])
def test_a_line_of_100000_characters_is_turned_back(tmp_path, line):
    (tmp_path / "outputs").write_text(f"{line}\nshort\n", encoding="utf-8")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {}, "options": {"bpe": 5}}), encoding="utf-8")
    to = ["--input", tmp_path / "outputs", "--output", tmp_path / "undone"]
    assert run_script("undo_text", "--prepared", tmp_path, *to) == (0, "", "")
    assert read_plain(tmp_path / "undone") == [line.strip(), "short"]


# --- archives -------------------------------------------------------------------------------------------------------


def archives(folder: Path) -> list[Path]:
    """Create archives whose members would be written elsewhere: ``..``, an absolute path and a link."""
    outside = str(folder / "outside")
    written = []
    for kind in ("tar", "tgz"):
        path = folder / f"a.{kind}"
        with tarfile.open(path, "w:gz" if kind == "tgz" else "w") as archive:
            for name in ("../outside", outside):
                archive.addfile(tarfile.TarInfo(name), io.BytesIO())
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, outside
            archive.addfile(link)
        written.append(path)
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("../outside", "x")
    return [*written, folder / "a.zip"]


def test_an_archive_is_no_text_and_nothing_of_it_is_written(tmp_path):
    """Test that scripts refuse archives and write none of their members.

    Without this check, a script would decompress a gzipped tar and read it as text.
    """
    for path in archives(tmp_path):
        before = set(tmp_path.rglob("*"))
        status, _, err = run_script("parallel_text", "--train", path, path, "--output", tmp_path / "out")
        assert status == 2
        assert err == f"parallel_text: error: {path} is an archive: unpack it, and name a file that was in it.\n"
        assert set(tmp_path.rglob("*")) == before


def test_no_script_opens_archives():
    """Test that no script opens archives.

    A script that opens them must refuse members with ``..``, absolute paths and links, and needs tests here.
    """
    folder = Path(importlib.import_module("parallel_text").__file__).parent
    for path in folder.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert not any(word in code for word in ("tarfile", "zipfile", "unpack_archive", "extractall")), path.name
