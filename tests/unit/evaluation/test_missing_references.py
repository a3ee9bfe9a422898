"""Test sentences with fewer references than others.

For every metric, an empty line in a reference file is a missing reference.
"""

import numpy as np
import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import METRICS, MetricSettings, build_metric

SOURCES = ["the cat sat on the old mat .", "a dog barked at the moon", "it rains a lot in the north", "two words"]
OUTPUTS = ["the cat sat on a mat .", "a dog barks", "", "two words"]
FIRST = ["the cat sat on the mat .", "a dog barked", "it rains often up north", "some words"]
SECOND = ["a cat was on the mat .", "", "it often rains", " "]
THIRD = ["", "\t", "rain is common in the north", "two short words"]
#: These metrics need a model, or data that is not part of the project.
_UNAVAILABLE = {"bertscore", "similarity-reference", "similarity-source", "meteor", "bleu-nltk"}


def rows(name: str, references: list[list[str]], places: slice = slice(None)) -> np.ndarray:
    metric = build_metric(name, MetricSettings())
    if metric.needs_source:
        metric.sources = SOURCES[places]
    metric.prepare(references)
    return metric.rows(OUTPUTS[places])


@pytest.mark.parametrize("name", sorted(METRICS.keys() - _UNAVAILABLE))
def test_holes_equal_references_removed_by_hand(name: str) -> None:
    """The expected score comes from each sentence alone, with only the references that it has."""
    found = rows(name, [FIRST, SECOND, THIRD])
    by_hand = []
    for place in range(len(OUTPUTS)):
        own = [[text[place]] for text in (FIRST, SECOND, THIRD) if text[place].strip()]
        by_hand.append(rows(name, own, slice(place, place + 1))[0])
    if name.startswith("distinct"):  # the second column does not depend on earlier sentences
        found, by_hand = found[:, 1:], [row[1:] for row in by_hand]
    np.testing.assert_array_equal(found, by_hand)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - _UNAVAILABLE - {"self-bleu"}))
def test_the_signature_says_that_the_number_of_references_varies(name: str) -> None:
    """Test for ``nrefs:var``, which is sacreBLEU's entry for varying numbers of references."""
    for references, number in (([FIRST, SECOND], "var"), ([FIRST, FIRST], "2"), ([SECOND], "1")):
        metric = build_metric(name, MetricSettings())
        metric.sources = SOURCES
        metric.prepare(references)
        assert metric.get_signature().format().startswith(f"nrefs:{number}|")


@pytest.mark.parametrize("name", sorted(METRICS.keys() - _UNAVAILABLE))
def test_a_sentence_without_any_reference_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="sentence 2 has no reference: give one, which may be an empty text"):
        rows(name, [FIRST[:1] + [None] + FIRST[2:], SECOND[:1] + [None] + SECOND[2:]])


def test_the_place_of_the_hole_does_not_matter() -> None:
    for name in ("bleu", "sari", "rouge-l", "exact@1", "length-ratio"):
        np.testing.assert_array_equal(rows(name, [FIRST, THIRD]), rows(name, [THIRD, FIRST]))


def test_an_empty_output_does_not_match_a_missing_reference() -> None:
    """Test an empty output like the third output of the other tests.

    If the empty line counted as a reference, this output would be an exact match.
    """
    metric = build_metric("exact@1", MetricSettings())
    assert metric.corpus_score([""], [["a b"], [""]]).score == 0
    assert metric.corpus_score([""], [[""], [""]]).score == 100  # empty references count if all references are empty
