"""Synonym sets, names and English inflection of the synthetic paraphrase grammar, written for this project.

Every synonym set starts with its plainest word and ends with the most formal one. No inflected form belongs to two sets
(tests/unit/preprocess checks this), so a word identifies its set.
"""

from typing import NamedTuple

from paraphrase_grammar import GRAMMAR

FEMALE_NAMES, MALE_NAMES, SURNAMES, COUNTRIES = (
    GRAMMAR[name].split() for name in ("female_names", "male_names", "surnames", "countries")
)
# Invented names of towns. They combine all first and last parts, except every fourth combination.
TOWNS = [begin + end for begin in GRAMMAR["town_beginnings"].split() for end in GRAMMAR["town_endings"].split()]
del TOWNS[3::4]

IRREGULAR_VERBS: dict[str, list[str]] = GRAMMAR["irregular_verbs"]
IRREGULAR_PLURALS: dict[str, str] = GRAMMAR["irregular_plurals"]
DOUBLING_VERBS: list[str] = GRAMMAR["doubling_verbs"].split()


class SynonymSet(NamedTuple):
    """Words with the same meaning, the plainest first. `kind` is verb, noun, adjective or other."""

    kind: str
    words: tuple[str, ...]
    adjectives: tuple[str, ...] = ()


def inflect(word: str, form: str) -> str:
    """Return `word` in one of these forms: base, past, pp (verbs), s, p (nouns: singular, plural)."""
    if form in ("base", "s"):
        return word
    if form == "p":
        return IRREGULAR_PLURALS.get(word) or _plural(word)
    if word in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[word][form == "pp"]
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + (word[-1] if word in DOUBLING_VERBS else "") + "ed"


def _plural(noun: str) -> str:
    """Return the regular plural."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _build_sets() -> dict[str, SynonymSet]:
    """Return all synonym sets by their plainest word, which is the first one.

    A set is a list of words. "_" joins the words of a phrase. A noun may be followed by a colon and the adjectives that
    fit it. An adjective is given by the first word of its synonym set.
    """
    sets: dict[str, SynonymSet] = {}
    for kind in ("verb", "noun", "adjective", "other"):
        for line in GRAMMAR[f"{kind}_sets"].split("/"):
            words, _, adjectives = line.partition(":")
            members = tuple(word.replace("_", " ") for word in words.split())
            sets[members[0]] = SynonymSet(kind, members, tuple(adjectives.split()))
    return sets


LEXICON: dict[str, SynonymSet] = _build_sets()


def surface_sets() -> list[tuple[str, ...]]:
    """Return each form of every synonym set that has at least two words, with the plainest word first."""
    forms = {"verb": ("base", "past", "pp"), "noun": ("s", "p"), "adjective": ("s",), "other": ("s",)}
    surfaces: dict[tuple[str, ...], None] = {}
    for entry in LEXICON.values():
        if len(entry.words) > 1:
            for form in forms[entry.kind]:
                surfaces[tuple(inflect(word, form) for word in entry.words)] = None
    return list(surfaces)
