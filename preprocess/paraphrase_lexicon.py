"""Words of the synthetic paraphrase grammar, authored for this project: synonym sets, names and English inflection.

Every synonym set lists its plainest word first and the most formal one last. No inflected form belongs to two sets
(tests/unit/preprocess checks it), so a word is enough to know its set.
"""

from typing import NamedTuple

from corpus.grammar import read_grammar

GRAMMAR = read_grammar("paraphrases")

VERB_SETS: tuple[str, ...] = tuple(GRAMMAR["verb_sets"].split("/"))

# Behind the colon: the first words of the adjective sets that go with the noun.
NOUN_SETS: tuple[str, ...] = tuple(GRAMMAR["noun_sets"].split("/"))

ADJECTIVE_SETS: tuple[str, ...] = tuple(GRAMMAR["adjective_sets"].split("/"))

# Invariable words; "_" joins the words of a phrase.
OTHER_SETS: tuple[str, ...] = tuple(GRAMMAR["other_sets"])

FEMALE_NAMES: tuple[str, ...] = tuple(GRAMMAR["female_names"].split())
MALE_NAMES: tuple[str, ...] = tuple(GRAMMAR["male_names"].split())
SURNAMES: tuple[str, ...] = tuple(GRAMMAR["surnames"].split())
# Invented towns: every ending on every beginning would be 120; the step below keeps 90 of them.
_BEGINNINGS = "ash bracken cold elm fern green hazel king lang marsh north oak raven stan wind".split()
_ENDINGS = "bury dale field ford ham mere ton wick".split()
TOWNS: tuple[str, ...] = tuple(
    begin + end
    for number, (begin, end) in enumerate((begin, end) for begin in _BEGINNINGS for end in _ENDINGS)
    if number % 4 != 3
)
COUNTRIES: tuple[str, ...] = tuple(GRAMMAR["countries"].split())

IRREGULAR_VERBS: dict[str, tuple[str, str]] = {name: tuple(forms) for name, forms in GRAMMAR["irregular_verbs"].items()}
DOUBLING_VERBS = frozenset("annul cancel defer map pen plan shun spot travel".split())
IRREGULAR_PLURALS: dict[str, str] = GRAMMAR["irregular_plurals"]


class SynonymSet(NamedTuple):
    """Words of one meaning, plainest first; `kind` is verb, noun, adjective or other."""

    kind: str
    words: tuple[str, ...]
    adjectives: tuple[str, ...] = ()


def inflect(word: str, form: str) -> str:
    """Return `word` in one of the forms base, past, pp (verbs), s, p (nouns: singular, plural)."""
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


def _parse_sets() -> dict[str, SynonymSet]:
    """Index all sets by their plainest word."""
    sets: dict[str, SynonymSet] = {}
    tables = (("verb", VERB_SETS), ("noun", NOUN_SETS), ("adjective", ADJECTIVE_SETS), ("other", OTHER_SETS))
    for kind, lines in tables:
        for line in lines:
            words, _, adjectives = line.partition(":")
            members = tuple(word.replace("_", " ") for word in words.split())
            sets[members[0]] = SynonymSet(kind, members, tuple(adjectives.split()))
    return sets


LEXICON: dict[str, SynonymSet] = _parse_sets()


def surface_sets() -> list[tuple[str, ...]]:
    """Return every synonym set with two words or more in each form in which it is written, plainest first."""
    forms = {"verb": ("base", "past", "pp"), "noun": ("s", "p"), "adjective": ("s",), "other": ("s",)}
    found: dict[tuple[str, ...], None] = {}
    for entry in LEXICON.values():
        if len(entry.words) > 1:
            for form in forms[entry.kind]:
                found[tuple(inflect(word, form) for word in entry.words)] = None
    return list(found)
