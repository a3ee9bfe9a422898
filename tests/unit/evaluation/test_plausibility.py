"""Oddities of a text are said, with a count, or refused."""

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.corpus import Corpus
from wean_fairseq.evaluation.evaluate import Resampling, evaluate
from wean_fairseq.evaluation.metrics import Settings
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.presets import columns_for


def warnings(
    outputs: list[str], references: list[str], settings: Settings | None = None, notes: tuple = ()
) -> list[str]:
    """All but the one that there is no source."""
    system = SystemOutput("A", [[line] for line in outputs], "", list(notes))
    columns = columns_for([], ["bleu"], settings or Settings())
    return evaluate([system], Corpus([references]), columns, Resampling(0, 0)).warnings[1:]


WORDS = ["The cat sat on the Mat .", "It rained in London ."]


@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_texts_of_another_case(change) -> None:
    """4 of the 33 letters of the references are capitals; the outputs have none, or nothing else."""
    changed = [change(line) for line in WORDS]
    (warning,) = warnings(changed, WORDS)
    share = "0.0%" if change is str.lower else "100.0%"
    assert warning.startswith(f"A: {share} of its letters are capitals but 12.1% of the references'")
    assert warnings(changed, WORDS, Settings(lowercase=True)) == []
    assert warnings(WORDS, WORDS) == []


@pytest.mark.parametrize("text", ["今日はいい天気です。", "วันนี้อากาศดี", "今天天气很好"])
def test_scripts_without_spaces_meet_13a(text: str) -> None:
    (warning,) = warnings([text], [text])
    assert "script without spaces" in warning
    assert warnings([text], [text], Settings("char")) == []
    assert warnings([text], ["An English sentence with one word of it: " + text[:2]]) == []


def test_null_characters_are_counted() -> None:
    assert warnings(["a b", "c\0d", "\0"], ["a b", "c d", "e"]) == ["A: 2 outputs hold the character NUL (line 2, 3)."]


@pytest.mark.parametrize("piece", ["hy@@ po@@ thesis", "▁hypo thesis"])
def test_pieces_are_not_scored_as_words(piece: str) -> None:
    with pytest.raises(UserError, match=r"A: 1 outputs hold pieces of words .*line 2.* join them with --remove-bpe"):
        warnings(["one", piece], ["one", "hypothesis"])
    assert warnings(["one", piece], ["one", piece]) == []
    (warning,) = warnings([piece] + ["one"] * 100, ["one"] * 101)
    assert warning.startswith("A: 1 outputs hold pieces of words") and warning.endswith("scored as words.")


def test_what_was_odd_about_the_file_is_passed_on() -> None:
    assert warnings(["a"], ["a"], notes=("3 sentences are short.",)) == ["A: 3 sentences are short."]
