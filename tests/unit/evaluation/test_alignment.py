"""Test the line-by-line comparison of texts.

The shares of words have closed forms, and a warning needs a minimum size.
"""

import numpy as np
import pytest

from wean_fairseq.evaluation.alignment import Alignment, Anchors, first_difference, letters, word_set


@pytest.mark.parametrize(
    ("line", "words"),
    [("The cat, the CAT!", {"the", "cat"}), ("今天 下雨", {"今天", "天下", "下雨"}), ("雨", set()), (" .", set())],
)
def test_words_are_those_between_other_characters_or_pairs_of_a_script_without_spaces(line, words):
    assert word_set(line) == words


def test_letters_are_those_of_unicode():
    """The expected letters are those of str.isalnum, which reads every character alone."""
    text = "".join(map(chr, range(0x80)))
    assert letters(text) == "".join(filter(str.isalnum, text.lower()))
    assert letters("Ärger_1 – ½ ﬁ") == "ärger112fi"


@pytest.mark.parametrize(
    ("line", "other", "differ"),
    [
        ("the <unk> dog", "the re@@ d dog", False),
        ("the red dog ran .", "the re@@ d [UNK]", False),  # the second model truncates its source
        ("the <unk> dog", "the red <unk>", False),
        ("<unk> dog", "the <unk>", False),
        ("the cat &apos;s dog", "\u0120the \u0120cat's \u0120dog", False),
        ("the <unk> dog", "262 2266 3290", False),
        ("262 2266 3290", "the red dog", False),
        ("the <unk> dog", "the red cat", True),
        ("the <unk> dog", "a <unk> dog", True),
        ("the red dog", "the red cat", True),
        ("262 2266 3290", "262 2266 3797", True),
    ],
)
def test_lines_of_two_models_differ_if_their_known_words_do(line, other, differ):
    """The lines before are equal."""
    assert first_difference(["0", line], ["0", other]) == (1 if differ else None)


def test_shares_are_weighted_by_the_rarity_of_words():
    """Of 3 lines, a word in two lines weighs log(4/2), a word in one line 2 log 2, and x, which is in none, 0.

    Each line is compared with the line of the same number, and with the line that is half of the text later.
    """
    alignment = Anchors("source", ["a b", "a c", "d"]).align(["a b", "a b", "d a x"])
    np.testing.assert_allclose(alignment.own, [1, 1 / 3, 2 / 3])
    np.testing.assert_allclose(alignment.other, [1 / 3, 0, 1 / 3])
    assert alignment.looked_at == 3


@pytest.mark.parametrize(("lines", "looked_at"), [(299, 299), (600, 300), (601, 301), (899, 450), (900, 300)])
def test_about_300_lines_are_compared(lines, looked_at):
    assert Anchors("source", ["a"] * lines).align(["a"] * lines).looked_at == looked_at


def numbered(lines: int) -> list[str]:
    """Return lines of three words that occur in no other line."""
    return [f"a{number} b{number} c{number}" for number in range(lines)]


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("a5 b5 c5", {1: 6}),
        ("a5 b5 c5 a4 b4", {1: 6}),  # the line shares three fifths of its words with line 6
        ("a5 b5 a4 b4 a3 b3", {}),  # two words in common with a line are not enough
        ("a5 b5 c5 a0 b0 c0", {}),  # the line shares the same number of words with its own line
        ("a5 b5 c5 a4 b4 a3 b3", {}),  # less than half of its words are in line 6
        ("a5 b5 c5 a0", {1: 6}),  # only a quarter of its words are in its own line
        ("a5 b5 c5 a0 b0", {}),  # two fifths of its words are in its own line
    ],
)
def test_a_line_belongs_where_half_of_its_words_are(line, moved):
    lines = numbered(8)
    assert Anchors("source", lines).align([line, *lines[1:]]).moved == moved


@pytest.mark.parametrize(("lines", "moved"), [(50, {1: 6}), (51, {})])
def test_words_of_more_than_50_lines_do_not_tell_a_line(lines, moved):
    anchors = ["x y z", *["a b c"] * lines, *["d"] * 400]
    found = Anchors("source", anchors).align(["a b c", *anchors[1:]]).moved
    assert {line: other for line, other in found.items() if line == 1} == moved


def judged(looked_at: int, moved: dict[int, int] | None = None, own: float = 0.0, other: float = 0.0) -> Alignment:
    return Alignment("source", moved or {}, np.full(looked_at, own), np.full(looked_at, other))


@pytest.mark.parametrize(
    ("looked_at", "moved", "fault"),
    [
        (20, {n: n + 1 for n in (4, 5, 6)}, "shifted by 1 line(s): line 4 belongs to source line 5, and so on in 3"),
        (20, {n: n + 1 for n in (4, 5)}, ""),
        (100, {n: n - 2 for n in range(11, 16)}, "shifted by 2 line(s): line 11 belongs to source line 9, and so on"),
        (100, {n: n - 2 for n in range(11, 15)}, ""),  # the misplaced lines are less than a twentieth of all lines
        (20, {4: 5, 5: 6, 6: 7, 7: 2, 8: 1, 9: 3}, "shifted by 1"),  # half of the misplaced lines are shifted by 1
        (20, {4: 5, 5: 6, 6: 7, 7: 2, 8: 1, 9: 3, 10: 18}, ""),
        (20, {n: 2 * n for n in range(1, 11)}, "in another order: line 1 belongs to source line 2, 10 of 20"),
        (20, {n: 2 * n for n in range(1, 10)}, ""),  # the misplaced lines are less than half of all lines
        (4, {1: 3, 2: 1}, ""),
    ],
)
def test_a_fault_needs_enough_misplaced_lines(looked_at, moved, fault):
    found = judged(looked_at, moved).fault
    assert found.startswith(fault) and bool(found) == bool(fault)
    missing = {"shifted by 1": "a line is missing", "shifted by 2": "a line is added"}
    assert missing.get(found[:12], "") in found


@pytest.mark.parametrize(("nearer", "unrelated"), [(24, False), (23, True)])
def test_lines_are_related_if_they_are_nearer_by_two_standard_errors(nearer, unrelated):
    """24 distances of 1 and 12 of -1 have mean 0.333 and standard error 0.157, 23 and 13 have 0.278 and 0.160."""
    own = np.array([1.0] * nearer + [0.0] * (36 - nearer))
    assert Alignment("source", {}, own, 1 - own).is_unrelated == unrelated


@pytest.mark.parametrize(
    ("looked_at", "own", "other", "unrelated"),
    [(30, 0.2, 0.2, True), (29, 0.2, 0.2, False), (30, 0.2, 0.1, False), (30, 0.0015, 0.001, False), (30, 0, 0, False)],
)
def test_texts_are_unrelated_if_30_lines_have_words_in_common_anywhere(looked_at, own, other, unrelated):
    assert judged(looked_at, own=own, other=other).is_unrelated == unrelated


def test_texts_in_two_languages_are_not_judged():
    """Test texts in two languages, whose lines share about two thousandths of their words, such as names."""
    assert [judged(30, own=share, other=share).is_unrelated for share in (0.0009, 0.0011)] == [False, True]
