"""For damaged folders and hostile text, wean_fairseq.load gives one output per line, or the reason in one sentence."""

import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

import wean_fairseq
from tests.fuzz.models import data_folder, save_random_model
from tests.fuzz.text import attempt, budgets, paragraphs
from wean_fairseq.checkpoints.cli import main_export
from wean_fairseq.errors import UserError
from wean_fairseq.generation import TextModel

SIZES = ["--embed-dim", "8", "--hidden-size", "8"]
FAMILIES = {
    "wean_lstm": ["--task", "paraphrase", "--arch", "wean_lstm", *SIZES],
    "copynet": ["--task", "paraphrase", "--arch", "copynet", *SIZES],
    "sc_lstm": ["--task", "topic_essay", "--arch", "sc_lstm", *SIZES],
}
FILES = ["checksums.sha256", "config.json", "dict.src.txt", "dict.tgt.txt", "model.safetensors"]


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the exported folder of a model with random weights."""
    data = data_folder(tmp_path_factory.mktemp("data"))
    checkpoint = save_random_model(data, family, FAMILIES[family])
    assert main_export([str(checkpoint), "--data", str(data), "--output", str(data / "model"), "--max-len-b", "5"]) == 0
    return data / "model"


@pytest.fixture(scope="module")
def model(folder: Path) -> TextModel:
    return wean_fairseq.load(folder, device="cpu")


@pytest.mark.parametrize("family", ["wean_lstm", "copynet"], scope="module")
@budgets(8, 400)
def test_every_sentence_has_the_output_that_it_has_alone(examples, reliability, model):
    """Test that a line end inside a sentence is treated like a space, so the sentence has one line of output."""

    def check(lines, end, places):
        lines = [line[:place] + end + line[place:] for line, place in zip(lines, places, strict=False)]
        found = model.generate(lines, batch_size=2)
        assert found == [model.generate(line) for line in lines]
        assert not any("\n" in text or "\r" in text for text in found)
        assert all(line.split() or not text for line, text in zip(lines, found, strict=True))

    places = st.lists(st.integers(0, 9), min_size=5, max_size=5)
    attempt(examples, reliability, check, lines=paragraphs(0), end=st.sampled_from(["", "\n", "\r\n"]), places=places)


@pytest.mark.parametrize("family", ["sc_lstm"], scope="module")
@budgets(8, 300)
def test_topics_have_their_essay_or_their_line_is_named(examples, reliability, model):
    def check(lines):
        topics = [model.text.prepare(line).split() for line in lines]  # the prepared text has no control characters
        bad = [n for n, line in enumerate(topics, start=1) if "</d>" in line or len(line) > 5]
        if not bad:
            assert model.generate(lines) == [model.generate(line) for line in lines]
            return
        with pytest.raises(UserError, match=rf"^line {bad[0]}: "):
            model.generate(lines)

    attempt(examples, reliability, check, lines=paragraphs(extra=("w1", "w2 w3", "w4 Quill", "</d>")))


@pytest.mark.parametrize("family", ["wean_lstm"], scope="module")
@pytest.mark.parametrize(
    "given", [None, 5, 2.5, b"w1", [b"w1"], ["w1", None], [["w1"]], {"w1": 1}.values(), Path("w1")], ids=repr
)
def test_what_is_no_text_is_one_sentence(model, given):
    with pytest.raises(UserError, match="text"):
        model.generate(given)


@pytest.mark.parametrize("family", ["wean_lstm"], scope="module")
@pytest.mark.parametrize(
    "options",
    [
        {"n_best": "2"},
        {"n_best": 1.5},
        {"n_best": 0},
        {"beam": -1},
        {"beam": "4"},
        {"batch_size": None},
        {"essay_length": "5"},
        {"essay_length": -3},
    ],
    ids=repr,
)
def test_numbers_that_are_none_are_one_sentence(model, options):
    with pytest.raises(UserError, match=f"{next(iter(options))} must be a whole number of 1 to 2147483647, but is "):
        model.generate("w1", **options)


@pytest.mark.parametrize("family", ["copynet"], scope="module")
@budgets(12, 400)
def test_a_damaged_folder_is_refused(examples, reliability, folder, tmp_path_factory):
    """Test that every change of a file is detected, either by the checksums or by the reader of the checksums."""
    assert sorted(path.name for path in folder.iterdir() if path.name in FILES) == FILES
    place = tmp_path_factory.mktemp("damaged") / "model"

    def check(name, how, at, byte):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
        file, content = place / name, (folder / name).read_bytes()
        if how == "gone":
            file.unlink()
        elif how == "folder":
            file.unlink()
            file.mkdir()
        else:
            at %= len(content)
            changed = {
                "cut": content[:at],
                "other": content[:at] + bytes([content[at] ^ byte]) + content[at + 1 :],
                "more": content + bytes([byte]) * 3,
                "empty": b"",
            }[how]
            file.write_bytes(changed)
        if name != "checksums.sha256":
            with pytest.raises(UserError, match=r"\.$"):
                wean_fairseq.load(place, device="cpu")
            return
        try:
            loaded = wean_fairseq.load(place, device="cpu")
        except UserError:
            return
        # If the folder still loads, its checksums are missing or ignored, but its other files are unchanged.
        assert loaded.generate("w1 w2") == wean_fairseq.load(folder, device="cpu").generate("w1 w2")

    attempt(
        examples,
        reliability,
        check,
        name=st.sampled_from(FILES),
        how=st.sampled_from(["gone", "folder", "cut", "other", "other", "more", "empty"]),
        at=st.integers(0, 10**6),
        byte=st.integers(1, 255),
    )
