"""Test that the words of placeholders are found by comparing the two forms of a sentence, in bounded time."""

import re

import pytest
from corpus.entities import align, is_placeholder, restore
from hypothesis import given
from hypothesis import strategies as st


def align_by_regex(anonymised: str, original: str) -> dict[str, str] | None:
    """Find the words by one regular expression with a lazy group for each placeholder, as a naive reference.

    The time is exponential.
    """
    parts, names = [], []
    for word in anonymised.split():
        group = word.replace("@", "_")
        if word in names:
            parts.append(f"(?P={group})")
        elif is_placeholder(word):
            parts.append(f"(?P<{group}>.+?)")
            names.append(word)
        else:
            parts.append(re.escape(word))
    match = re.fullmatch(" ".join(parts), " ".join(original.split()))
    return None if match is None else {name: match[name.replace("@", "_")] for name in names}


@given(
    st.lists(st.sampled_from(["a", "b", "P@1", "P@2", "Q@1"]), max_size=7),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=9),
    st.booleans(),
)
def test_alignment_equals_a_regular_expression(anonymised: list[str], original: list[str], matching: bool):
    if matching:  # inserting the names into the anonymised form gives the original form
        names = {"P@1": original[:2], "P@2": original[2:3], "Q@1": original[3:6]}
        original = [part for word in anonymised for part in (names.get(word) or [word.strip("@12")])]
    forms = " ".join(anonymised), " ".join(original)
    assert align(*forms) == align_by_regex(*forms)


@pytest.mark.parametrize("names", [27, 60])
def test_many_names_in_forms_that_differ_end_at_once(names: int):
    anonymised = " , ".join(f"PERSON@{n}" for n in range(names))
    original = " , ".join(f"Name{n} Surname{n}" for n in range(names))
    assert align(f"{anonymised} town .", f"{original} Town .") is None
    # each placeholder was built with these two words
    expected = {f"PERSON@{n}": f"Name{n} Surname{n}" for n in range(names)}
    assert align(f"{anonymised} town .", f"{original} town .") == expected


def test_recurring_names_without_an_alignment_reach_the_limit():
    anonymised = " ".join(f"P@{n % 12}" for n in range(36))
    assert align(f"{anonymised} town .", "x " * 90 + "Town .") is None


def test_a_name_with_line_breaks_shifts_no_line():
    assert restore("PERSON@1 and Bob", {"PERSON@1": "Ann\nLee\u2028\r"}) == "Ann Lee and Bob"
