"""Test that true-casing can be undone for every unit, with upper and lower case, and with and without BPE."""

import importlib
import itertools
import json
from pathlib import Path

import pytest
from corpus import learnt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wean_fairseq.text import Text, TextSettings, read_text_settings, steps
from wean_fairseq.text.casing import capitalise, cased_words, true_case
from wean_fairseq.text.settings import settings_of

USUAL = {"the": "the", "it": "it", "berlin": "Berlin", "usa": "USA", "i": "I", "iphone": "iPhone"}


@pytest.mark.parametrize(
    ("line", "cased", "is_marked"),
    [  # the expected values follow from the rules in the docstring of the module
        ("The end", "the end", False),
        ("“It’s late”", "“it’s late”", False),
        ("(The) end", "(the) end", False),
        ("Berlin is big", "Berlin is big", False),
        ("I am", "I am", False),
        ("THE END", "THE END", False),
        ("The END of The", "the END of The", False),
        ("iPhone is new", "iPhone is new", False),
        ("the end", "the end", True),
        ("Unseen word", "Unseen word", False),
        ("3 The", "3 The", False),
        ("他 The", "他 The", False),
        ("", "", False),
        ("ß is a letter", "ß is a letter", True),  # "ß" is written as two letters in capitals
    ],
)
def test_only_what_can_be_undone_is_changed(line: str, cased: str, is_marked: bool) -> None:
    assert true_case(line, USUAL) == (cased, is_marked)
    assert is_marked or capitalise(cased) == line


def test_an_unknown_word_at_the_start_of_an_output_keeps_its_form() -> None:
    for output in ("<unk> sat", "“ <unk> sat", "( <unk> )", "- <unk>"):
        assert capitalise(output) == output
    assert capitalise("the <unk>") == "The <unk>"


def test_forms_are_those_inside_of_sentences() -> None:
    line = "The cat saw The Hague. The end! “This” is it: That, 他 iPhone"
    assert list(cased_words(line)) == ["cat", "saw", "The", "Hague", "end", "is", "it", "iPhone"]


@given(line=st.text(st.one_of(st.characters(), st.sampled_from("The theß.! ￬ İıǆ他")), max_size=30))
@example(line="￬ The")
@example(line="￬The")
@settings(max_examples=200, deadline=None)
def test_true_case_comes_back(tmp_path_factory, line: str) -> None:
    folder = cased_folder(tmp_path_factory)
    for unit in ("joiner", "words"):
        text = Text(TextSettings(unit=unit, truecase=True, specials="keep"), folder)
        assert text.restore(text.prepare(line)) == text.clean(line)


FOLDERS: list[Path] = []


def cased_folder(factory: pytest.TempPathFactory) -> Path:
    if not FOLDERS:
        FOLDERS.append(factory.mktemp("cased"))
        learnt.learn_truecaser(["x the İ ı ß ǆ"], FOLDERS[0] / "truecase.model")
    return FOLDERS[0]


SENTENCES = {
    "joiner": ["The house isn’t “red”.", "We like the house.", "iPhone and Facebook?", "the end, in lower case"],
    "moses": ["The house isn't red.", "We like the house.", "iPhone and Facebook?", "the end, in lower case"],
    "characters": ["Facebook是公司。", "他用Facebook，the他。", "The他用iPhone。", "the他用the。"],
}
SENTENCES |= {"words": SENTENCES["joiner"], "jieba": SENTENCES["characters"], "wordpiece": SENTENCES["moses"]}
CASES = {"keep": [], "lowercase": ["--lowercase"], "truecase": ["--truecase"]}


@pytest.mark.parametrize(("unit", "case"), list(itertools.product(steps.UNITS, CASES)))
@pytest.mark.parametrize("merges", [0, 8])
def test_every_unit_with_every_case(tmp_path: Path, capsys, unit: str, case: str, merges: int) -> None:
    """New text is split as in training and restored, and a word keeps its case with every unit."""
    lines = SENTENCES[unit]
    for split in ("train", "valid", "test"):
        (tmp_path / split).write_text("".join(f"{line}\n" for line in lines * 5), encoding="utf-8")
    options = ["--unit", unit, *CASES[case]] + ["--bpe", str(merges)] * (merges > 0)
    if unit == "wordpiece":
        pieces = ["[UNK]", *"Tt'.,?", "##s", *{word for line in lines for word in line.replace("'", " ' ").split()}]
        pieces += ["red", "house", "Facebook", "case", "end", "the", "iphone", "facebook", "we", "isn", "t"]
        (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in dict.fromkeys(pieces)), encoding="utf-8")
        options += ["--wordpiece-vocab", str(tmp_path / "vocab.txt")]
    for split in ("train", "valid", "test"):
        options += [f"--{split}", *[str(tmp_path / split)] * 2]
    status = importlib.import_module("parallel_text").main([*options, "--output", str(tmp_path / "out")])
    if unit == "characters" and merges:
        assert status == 2 and "the text of --unit characters has no words: leave --bpe out" in capsys.readouterr().err
        return
    assert status == 0
    text = Text(read_text_settings(tmp_path / "out"), tmp_path / "out")
    found = (tmp_path / "out" / "test.src").read_text(encoding="utf-8").splitlines()
    assert found == [text.prepare(line) for line in lines * 5]
    expected = [line.lower() if case == "lowercase" else line for line in lines]
    assert [text.restore(tokens) for tokens in found[: len(lines)]] == expected
    if case == "truecase":  # "the" also occurs inside sentences, so the line begins with it
        first = next(tokens for line, tokens in zip(lines, found, strict=False) if line.startswith("The"))
        assert steps.undo_bpe(first).startswith(("the", "t h e"))


def test_what_older_versions_prepared_keeps_its_case_of_tokens(tmp_path: Path) -> None:
    """Manifests of older versions have no ``reversible_case``, so the tokens come from Moses, as in training."""
    learnt.learn_truecaser(["x The a the the"], tmp_path / "truecase.model")
    old = settings_of(json.loads('{"unit": "moses", "truecase": true}'), tmp_path)
    text = Text(old, tmp_path)
    assert text.prepare("THE end. A THE") == "the end . a the"
    assert text.restore("the end . a the") == "The end. A the"
    assert (
        Text(settings_of({"truecase": True, "reversible_case": True}, tmp_path), tmp_path).prepare("THE a") == "THE a"
    )
