"""Test FKGL, EASSE's features, chrF and TER against counts by hand, EASSE's values and sacreBLEU."""

import sys

import pytest
import sacrebleu

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import EvaluationMetric, MetricSettings, build_metric
from wean_fairseq.evaluation.metrics.simplification import count_sentences

SOURCES = ['He said " No . " and left ; she stayed .', "The café is, as always, open."]
OUTPUTS = ["He said no. She stayed.", "The café is open. Always."]
FEATURES = ("compression-characters", "sentence-splits", "copy-rate", "additions", "deletions")
# Values of EASSE's `corpus_quality_estimation` (commit 6a4352e, with the functions of tseval, commit dea8863) and
# `corpus_fkgl`, with tokenizer 13a, lower case and NLTK's Punkt. The maintainers of this project computed them once.
# Shares are percentages here.
EASSE = {
    "compression-characters": 0.734375,
    "sentence-splits": 1.5,
    "copy-rate": 0.0,
    "additions": 100 / 18,
    "deletions": 37.5,
}
GRADED = [
    "The étude of an unusually complicated organisation e.g. the café , is over .",
    "Mr. Reed's administration considered legislation necessary ; employees the committee agreed . Everybody !",
]
GRADE = 6.4025


def score(name: str, outputs: list[str] = OUTPUTS, sources: list[str] = SOURCES) -> float:
    metric: EvaluationMetric = build_metric(name, MetricSettings())
    metric.sources = sources
    return metric.corpus_score(outputs, [["x"] * len(outputs)]).score


@pytest.mark.parametrize("name", FEATURES)
def test_features_are_those_of_easse(name: str) -> None:
    assert score(name) == pytest.approx(EASSE[name])


def test_features_by_hand() -> None:
    """The output "a b ! b" of "a c d ." has 7 of 7 characters and 2 of 1 sentences. b b ! is new, and c d . is gone."""
    found = [score(name, ["a b ! b"], ["a c d ."]) for name in FEATURES]
    assert found == pytest.approx([1, 2, 0, 75, 75])
    assert [score(name, [""], [""]) for name in FEATURES] == [0, 0, 100, 0, 0]


@pytest.mark.parametrize(
    ("tokens", "number"),
    [
        ("a b", 1),
        ("a . b", 2),
        ("a . . b ?", 3),
        ('" a . " b', 2),
        ('a . "', 1),
        ("a 3.5 b .", 1),
        ("u.s. b", 1),
        ("", 0),
    ],
)
def test_sentences_of_tokens(tokens: str, number: int) -> None:
    """The expected result is the number that NLTK 3.10's Punkt finds with the English model."""
    assert count_sentences(tokens) == number


def test_fkgl_is_that_of_easse() -> None:
    pytest.importorskip("readability")
    assert score("fkgl", GRADED) == pytest.approx(GRADE)


def test_fkgl_by_hand() -> None:
    """One sentence has 6 words (with ".") and 10 syllables: 1 for "the", 3 per "bananas", and 0 for "see" and "."."""
    pytest.importorskip("readability")
    assert score("fkgl", ["The bananas bananas see bananas."]) == pytest.approx(0.39 * 6 + 11.8 * 10 / 6 - 15.59)
    assert score("fkgl", ["See."]) == score("fkgl", [""]) == 0


def test_without_the_counter_of_syllables_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readability.langdata", None)
    with pytest.raises(UserError, match=r"readability, which is not installed: pip install 'wean-fairseq\[fkgl\]'"):
        build_metric("fkgl", MetricSettings())


def test_chrf_and_ter_are_sacrebleus() -> None:
    references = [["He said no . She left .", "The café is open ."], ["He said no.", "It is open, always."]]
    for name, oracle in (("chrf", sacrebleu.CHRF()), ("ter", sacrebleu.TER())):
        metric = build_metric(name, MetricSettings())
        assert metric.corpus_score(OUTPUTS, references).score == oracle.corpus_score(OUTPUTS, references).score
        assert metric.get_signature().format() == oracle.get_signature().format()
