"""Test SARI against values of EASSE and of Xu's program, and against loops written straight from the definitions."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import sari as reference
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import EvaluationMetric, Sari, SentenceSari

SOURCE = "About 95 species are currently accepted ."
REFERENCES = [
    "About 95 species are currently known .",
    "About 95 species are now accepted .",
    "95 species are now accepted .",
]

# The sentences are the worked example of Xu et al. (2016). The expected values are from EASSE HEAD (commit 6a4352e)
# with tokenizer 13a and lower case: `corpus_sari` and its add/keep/delete parts. The maintainers of this project ran it
# once.
GOLDEN = [
    ("About 95 you now get in .", (8.3333, 22.5275, 63.1899), 31.350247),
    ("About 95 species are now agreed .", (32.1429, 79.3750, 78.1944), 63.237434),
    ("About 95 species are currently agreed .", (0.0, 77.6605, 62.5275), 46.729309),
    (SOURCE, (0.0, 65.6197, 0.0), 21.873218),
    (REFERENCES[1], (70.8333, 82.0963, 77.9609), 76.963512),
]


@pytest.mark.parametrize(("output", "operations", "expected"), GOLDEN)
def test_single_sentence_golden_values(output: str, operations: tuple[float, ...], expected: float) -> None:
    metric = Sari(label="SARI")
    assert metric.sentence_score(output, REFERENCES, SOURCE).score == pytest.approx(expected, abs=1e-6)
    metric.sources = [SOURCE]
    metric.prepare([[reference] for reference in REFERENCES])
    assert metric.operation_scores(metric.rows([output]))[0] == pytest.approx(operations, abs=1e-4)


def test_readme_example_of_easse() -> None:
    """EASSE's README has 33.17472563619544 for these two sentences and three references."""
    metric = Sari()
    metric.sources = ["About 95 species are currently accepted.", "The cat perched on the mat."]
    references = [
        ["About 95 species are currently known.", "The cat sat on the mat."],
        ["About 95 species are now accepted.", "The cat is on the mat."],
        ["95 species are now accepted.", "The cat sat."],
    ]
    score = metric.corpus_score(["About 95 you now get in.", "Cat on mat."], references).score
    assert score == pytest.approx(33.17472563619544, abs=1e-12)
    assert metric.get_signature().format().startswith("nrefs:3|case:lc|tok:13a|order:4|del:f1|wean:")


def test_hand_count() -> None:
    """The counts for source "a b", output "a c" and reference "a c" are made by hand.

    Order 1: add {c} right/proposed/wanted 1/1/1, keep {a} 1/1/1, delete {b} 1/1/1: F1 = 1 each.
    Order 2: add {ac} 1/1/1, keep 0/0/0 -> 0, delete {ab} 1/1/1. Orders 3 and 4 are empty -> 0.
    add = (1+1)/4, keep = 1/4, delete = (1+1)/4, SARI = 5/12.
    """
    assert Sari().sentence_score("a c", ["a c"], "a b").score == pytest.approx(100 * 5 / 12)


def test_without_source_it_says_so() -> None:
    with pytest.raises(UserError, match="give the source sentences"):
        Sari().corpus_score(["a"], [["a"]])


# These are the values that Xu's program prints for her example (SARI.py of cocoxu/simplification, commit 3557046, its
# main()).
@pytest.mark.parametrize(("row", "expected"), [(0, 26.82782411698074), (1, 58.89995423074248), (2, 50.71608864657479)])
def test_reading_of_xu_is_her_own_program(row: int, expected: float) -> None:
    metric = SentenceSari()
    assert metric.sentence_score(GOLDEN[row][0], REFERENCES, SOURCE).score == pytest.approx(expected)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d."]), max_size=7)
LINES = st.lists(st.tuples(WORDS, WORDS, st.lists(WORDS, min_size=3, max_size=3)), min_size=1, max_size=3)


PARTS = ("add", "keep", "delete", "")


def scored(metric: EvaluationMetric, lines: list) -> float:
    metric.sources, outputs = ([" ".join(texts[part]) for texts in lines] for part in (0, 1))
    references = [[" ".join(texts[2][number]) for texts in lines] for number in range(3)]
    return metric.corpus_score(outputs, references).score


@given(lines=LINES)
@settings(max_examples=60, deadline=None)
def test_every_reading_is_its_loop(lines: list) -> None:
    """The tokeniser 13a splits "d.", except in a legacy source.

    Xu's program never splits it, and an empty text has one word.

    An empty reference does not count, unless the sentence has no other.
    """

    def tokens(words: list[str]) -> list[str]:
        return " ".join(words).replace("d.", "d .").split()

    written = lines
    lines = [(one, two, [words for words in rest if words] or [[]]) for one, two, rest in lines]
    split = [(tokens(one), tokens(two), [tokens(words) for words in rest]) for one, two, rest in lines]
    legacy = [(one, *rest) for (one, *_), (_, *rest) in zip(lines, split, strict=True)]
    single = [
        reference.sentence(one or [""], two or [""], [words or [""] for words in rest]) for one, two, rest in lines
    ]
    means = [sum(column) / len(single) for column in zip(*single, strict=True)]
    for build, expected in (
        (Sari, reference.corpus(split)),
        (partial(Sari, legacy=True), reference.corpus(legacy)),
        (partial(Sari, legacy=True, weight=8), reference.corpus(legacy, weight=8)),
        (SentenceSari, means),
    ):
        found = [scored(build(operation=part), written) for part in PARTS]
        assert found == pytest.approx([*expected, sum(expected) / 3])


def test_signatures_tell_the_readings_apart() -> None:
    signatures = set()
    kinds = (
        Sari,
        partial(Sari, legacy=True),
        partial(Sari, weight=8),
        SentenceSari,
        partial(SentenceSari, brackets=True),
    )
    for metric in (kind(operation=part) for kind in kinds for part in PARTS):
        metric.sources = [SOURCE]
        metric.prepare([[SOURCE]])
        signatures.add(metric.get_signature().format())
    assert len(signatures) == len(kinds) * len(PARTS)


def test_brackets_of_the_nts_scripts() -> None:
    metric, text = SentenceSari(brackets=True), "-lrb- a b c -rrb- d"
    assert metric.sentence_score("( a b c ) d", [text], "e f g h").score == pytest.approx(200 / 3)
    assert SentenceSari().sentence_score("( a b c ) d", [text], "e f g h").score < 60
