"""Test that valid questions of the page are accepted and all others are refused in one sentence."""

import json
import re

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.inspection.question import LIMITS, Question, clean, read_question

NAMES = ["WEAN", "CopyNet"]
GOOD = {"text": "a sentence", "systems": ["WEAN"]}


def read(**changes: object):
    return read_question(json.dumps(GOOD | changes).encode(), NAMES)


def test_a_question_and_its_defaults():
    question = read(text="how do i\nlearn", systems=["CopyNet", "WEAN"], beam=7, outputs=2, length=50)
    assert question == Question("how do i learn", ("CopyNet", "WEAN"), 7, 2, 50)
    assert read() == Question("a sentence", ("WEAN",), None, 5, 100)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("a\0b \x1b[31m c", "a b [31m c"),
        ("a\ud800b", "a b"),  # a lone surrogate, which an answer in UTF-8 cannot contain
        ("  a\t\u3000b\r\n\u2028c ", "a b c"),
        # text from right to left stays unchanged
        ("\u05e9\u05dc\u05d5\u05dd \u202eabc", "\u05e9\u05dc\u05d5\u05dd \u202eabc"),
        # HTML is treated as words, which the page shows as text
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_text_becomes_one_line_without_control_characters(typed: str, line: str):
    assert clean(typed) == line
    assert read(text=typed).text == line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"text": " \0\n "}, "there is nothing to decode yet: type a sentence, or topics."),
        ({"text": "a" * 2001}, "the text has 2,001 characters, and at most 2,000 are read: shorten it."),
        ({"systems": ["../../etc/passwd"]}, "no such checkpoint is loaded; there is WEAN, CopyNet."),
        ({"systems": ["WEAN", "WEAN"]}, "choose one checkpoint, or two different ones to compare."),
        ({"outputs": 6, "beam": 5}, "a beam of 5 has no 6 outputs: widen the beam, or ask for fewer outputs."),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], says: str):
    with pytest.raises(UserError) as refused:
        read(**changes)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"text": None}, "$.text"),
        ({"systems": []}, "$.systems"),
        ({"systems": "WEAN"}, "$.systems"),
        ({"systems": [["WEAN"]]}, "$.systems[0]"),
        ({"systems": ["WEAN", "CopyNet", "WEAN"]}, "$.systems"),
        ({"beam": 0}, "$.beam"),
        ({"beam": 21}, "$.beam"),
        ({"beam": True}, "$.beam"),
        ({"outputs": 2.5}, "$.outputs"),
        ({"outputs": 11}, "$.outputs"),
        ({"length": "9"}, "$.length"),
        ({"length": 501}, "$.length"),
    ],
)
def test_a_value_of_another_type_or_size_is_refused_by_its_place(changes: dict[str, object], place: str):
    wrong = rf"the request is not one of this page \(Expected .* - at `{re.escape(place)}`\): use the page\."
    with pytest.raises(UserError, match=wrong):
        read(**changes)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 30_000, b"1" * 30_000, b"[]", b"null", b'"text"', b"7"]
)
def test_what_is_no_question_is_refused(body: bytes):
    with pytest.raises(UserError, match=r"the request is not one of this page \(.*\): use the page"):
        read_question(body, NAMES)


def test_the_longest_text_fits_in_the_longest_body():
    """A character outside the basic plane takes 12 bytes where JSON writes it as two \\u escapes."""
    names = ["n" * 200, "m" * 200]
    question = {"text": "\U0001f600" * LIMITS.characters, "systems": names, "beam": 20, "outputs": 10, "length": 500}
    body = json.dumps(question).encode()
    assert len(body) <= LIMITS.body
    assert len(read_question(body, names).text) == LIMITS.characters
