"""Test properties of every metric on any text: its range, the order of references, identical text, and sums of rows."""

import math
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import METRICS, EvaluationMetric, MetricSettings, build_metric

#: These metrics need data, a model or a package that may not be available in tests.
MODELS = {"bertscore", "similarity-reference", "similarity-source"}
UNAVAILABLE = {"meteor", "bleu-nltk", *MODELS} | (set() if find_spec("readability") else {"fkgl"})
NAMES = [name for name in METRICS if name not in UNAVAILABLE]
#: Metrics that are not bounded by 0 and 100: differences, ratios, and method 7, which exceeds 100 by design.
RATIOS = {"length-ratio", "compression", "compression-characters", "sentence-splits", "levenshtein"}
UNBOUNDED = {name for name in NAMES if "ibleu" in name or "m7" in name} | RATIOS | {"ter", "fkgl"}
#: Metrics that are 100 for output = reference and any text (BLEU needs 4 words, METEOR and SARI need longer text).
PERFECT = ["bleu", "bleu2", "rouge-1", "rouge-2", "rouge-l", "rouge-l-beta", "exact@1", "exact@10"]

WORDS = st.sampled_from(["a", "b", "the", "Cat", "ox.", "苹果", "é", "x-y", "&amp;", "<unk>", "12"])
SENTENCES = st.one_of(
    st.lists(WORDS, max_size=9).map(" ".join), st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
)
EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def make(name: str, sources: list[str], tokenize: str = "13a") -> EvaluationMetric:
    metric = build_metric(name, MetricSettings(tokenize))
    metric.sources = sources
    return metric


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[str]]:
    """Draw outputs, three reference files and sources."""
    size = draw(st.integers(1, 4))
    lines = st.lists(SENTENCES, min_size=size, max_size=size)
    return draw(lines), [draw(lines) for _ in range(3)], draw(lines)


@pytest.mark.parametrize("name", NAMES)
@given(data=corpora(), tokenize=st.sampled_from(["13a", "none", "zh", "char"]))
@EXAMPLES
def test_finite_in_range_and_blind_to_reference_order(name: str, data: tuple, tokenize: str) -> None:
    outputs, references, sources = data
    metric = make(name, sources, tokenize)
    score = metric.corpus_score(outputs, references).score
    assert np.isfinite(score)
    if name not in UNBOUNDED:
        assert -1e-9 <= score <= 100 + 1e-9
    if name != "chrf":  # sacreBLEU's chrF takes the first of equally good references
        assert metric.corpus_score(outputs, references[::-1]).score == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(data=corpora())
@EXAMPLES
def test_corpus_score_is_the_score_of_summed_rows(name: str, data: tuple) -> None:
    outputs, references, sources = data
    metric = make(name, sources)
    expected = metric.corpus_score(outputs, references).score
    metric.prepare(references)
    rows = metric.rows(outputs)
    assert rows.shape[0] == len(outputs)
    assert metric.score_of(rows.sum(axis=0)) == pytest.approx(expected, abs=1e-9)
    assert metric.scores_of(np.stack([rows.sum(axis=0)] * 2)) == pytest.approx([expected] * 2, abs=1e-9)
    assert metric.sentence_scores(rows).shape == (len(outputs),)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("hypotheses", "references"), [([], [[]]), ([], []), (["a"], []), (["a"], [[]])])
def test_nothing_to_score_is_one_sentence(name: str, hypotheses: list, references: list) -> None:
    """Test empty input, for which sacreBLEU raises an IndexError."""
    with pytest.raises(ValueError, match="there is nothing to score: give hypotheses and a list of references"):
        make(name, []).corpus_score(hypotheses, references)


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_other_lengths_are_refused(name: str) -> None:
    """sacreBLEU scores the first sentences."""
    metric = make(name, ["a", "b"])
    metric.prepare([["a", "b"]])
    for hypotheses, references in ((["a", "b"], [["a"]]), (["a"], [["a"], ["a", "b"]]), (["a"], None)):
        with pytest.raises(UserError, match=f"there are {len(hypotheses)} hypotheses but a list of"):
            metric.corpus_score(hypotheses, references)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokenize": "x"}, "tokenize is 'x': choose from 13a, none, zh, char"),
        ({"operation": "x"}, "operation is 'x': choose from add, keep, delete"),
        ({"alpha": 7}, "alpha is 7: expected `float` <= 1.0"),
        ({"alpha": math.nan}, "alpha is nan: expected `float` >= 0.0"),
        ({"alpha": "0.9"}, "alpha is '0.9': expected `float`, got `str`"),
        ({"lowercase": "yes"}, "choose from True, False, ascii"),
        ({"max_tokens": -1}, "max_tokens is -1: expected `int` >= 0"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5: expected `int | null`, got `float`"),
        ({"sari_weight": 0}, "sari_weight is 0: expected `int` >= 1"),
    ],
)
def test_settings_that_no_metric_has_are_refused(values: dict, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        MetricSettings(**values)


def test_numbers_of_numpy_and_paths_are_settings() -> None:
    values = {"alpha": np.float64(0.5), "max_tokens": np.int64(5), "bert_model": Path("x"), "lowercase": np.True_}
    assert MetricSettings(**values).alpha == 0.5


@pytest.mark.parametrize("name", PERFECT)
@given(words=st.lists(st.sampled_from(["a", "b", "the", "Cat", "ox"]), min_size=4, max_size=9))
@EXAMPLES
def test_identical_text_is_100(name: str, words: list[str]) -> None:
    text = " ".join(words)
    assert make(name, ["z"]).corpus_score([text], [["q"], [text]]).score == pytest.approx(100)


@given(words=st.lists(st.sampled_from(["a", "b", "the", "Cat", "ox"]), min_size=4, max_size=9))
@EXAMPLES
def test_a_copy_of_the_source_is_recognised(words: list[str]) -> None:
    text = " ".join(words)
    expected = {"self-bleu": 100, "copy-rate": 100, "novelty-1": 0, "novelty-2": 0, "compression": 1}
    for name, score in expected.items():
        assert make(name, [text]).corpus_score([text], [["q"]]).score == pytest.approx(score)
