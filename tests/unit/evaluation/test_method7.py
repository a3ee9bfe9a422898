"""Test NLTK's smoothing "method 7" in both versions."""

import math
import random

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import Method7Bleu, Method7IBleu, Method7SelfBleu, method7_bleu

# Values measured once with NLTK 3.4.5 (legacy) and NLTK 3.9.1 (current) on invented sentences. The columns are BLEU-4
# and BLEU-2 of the legacy version, and BLEU-4 and BLEU-2 of the current version.
GOLDEN = [
    ("the cat sat on the red mat", "a cat was sitting on the mat", (0.326580, 0.544499, 0.201884, 0.500308)),
    ("where can we buy fresh bread", "where do you find fresh bread here", (0.268271, 0.447255, 0.172877, 0.413909)),
    ("one two three", "one two three", (0.755095, 1.217161, 0.746668, 1.217161)),
]


@pytest.mark.parametrize(("output", "reference", "expected"), GOLDEN)
def test_golden_values(output: str, reference: str, expected: tuple[float, ...]) -> None:
    computed = [
        method7_bleu(output.split(), [reference.split()], order, version)
        for version in ("legacy", "current")
        for order in (4, 2)
    ]
    assert computed == pytest.approx(expected, abs=1e-6)


def test_current_version_equals_installed_nltk() -> None:
    """The oracle is the installed nltk (3.6 or later), on random sentences with several references."""
    score = pytest.importorskip("nltk.translate.bleu_score")
    smoothing = score.SmoothingFunction().method7
    generator = random.Random(3)
    for _ in range(300):
        output = generator.choices("abcdef", k=generator.randint(1, 9))
        references = [generator.choices("abcdef", k=generator.randint(1, 9)) for _ in range(generator.randint(1, 3))]
        for order, weights in ((4, (0.25, 0.25, 0.25, 0.25)), (2, (0.5, 0.5, 0, 0))):
            expected = score.sentence_bleu(references, output, weights, smoothing)
            assert method7_bleu(output, references, order, "current") == pytest.approx(expected, abs=1e-12)


def test_one_matching_word_by_hand() -> None:
    """The legacy BLEU-2 of output "a b" and reference "a c" is computed by hand.

    p = 1/2, then zero orders p_n = 1 / ((n-1) + 5/ln 2); p_5 = 0; m_0 = 3/2, m_1 = (m_0 + p_1 + p_2)/3, m_2 = (m_1 +
    p_2 + p_3)/3.
    """
    p2, p3 = (1 / (n - 1 + 5 / math.log(2)) for n in (2, 3))
    m1 = (1.5 + 0.5 + p2) / 3
    m2 = (m1 + p2 + p3) / 3
    assert method7_bleu(["a", "b"], [["a", "c"]], 2) == pytest.approx(math.sqrt(m1 * m2))


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("", "a b"),
        ("x y", "a b"),
        ("a", "a b"),
    ],  # an empty output, no match, and the division error of NLTK <= 3.5 that C-DNPG counts as 0
)
def test_zero_cases_of_the_legacy_version(output: str, reference: str) -> None:
    assert method7_bleu(output.split(), [reference.split()]) == 0.0


def test_ibleu_is_the_mean_of_sentence_values() -> None:
    outputs, sources = ["a b c d", "x y"], ["a b c e", "x z"]
    references = ["a b d", "x y z"]
    metric = Method7IBleu(alpha=0.8)
    metric.sources = sources
    expected = [
        0.8 * method7_bleu(o.split(), [r.split()]) - 0.2 * method7_bleu(o.split(), [s.split()])
        for o, r, s in zip(outputs, references, sources, strict=True)
    ]
    assert metric.corpus_score(outputs, [references]).score == pytest.approx(100 * sum(expected) / 2)


def test_defective_self_bleu_looks_at_letters_of_the_first_source_word() -> None:
    """For the source "is it raining", the defective metric uses the letters i and s as the reference."""
    metric = Method7SelfBleu(defective=True)
    value = metric.sentence_score("s i x", ["unused"], "is it raining").score
    assert value == pytest.approx(100 * method7_bleu(["s", "i", "x"], [["i", "s"]]))
    assert metric.sentence_score("it is raining", ["unused"], "is it raining").score == 0
    assert metric.sentence_score("it", ["unused"], "").score == 0
    assert "against:first-source-token-letters" in metric.get_signature().format()


def test_unknown_version() -> None:
    with pytest.raises(UserError, match="choose legacy or current"):
        Method7Bleu(version="3.5")
