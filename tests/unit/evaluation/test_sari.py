"""SARI against the published values of the EASSE suite and against a loop written straight from the definition."""

import pytest

from wean_fairseq.evaluation import EvaluationError
from wean_fairseq.evaluation.metrics import Sari

SOURCE = "About 95 species are currently accepted ."
REFERENCES = [
    "About 95 species are currently known .",
    "About 95 species are now accepted .",
    "95 species are now accepted .",
]

# The sentences are the worked example of Xu et al. (2016). Expected values: EASSE HEAD (commit 6a4352e), tokenizer 13a,
# lower-cased, `corpus_sari` and its add/keep/delete parts, run once by the maintainers of this project.
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
    """Two sentences, three references; EASSE's README prints 33.17472563619544."""
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
    """Source "a b", output "a c", reference "a c": counted on paper.

    Order 1: add {c} right/proposed/wanted 1/1/1, keep {a} 1/1/1, delete {b} 1/1/1: F1 = 1 each.
    Order 2: add {ac} 1/1/1, keep 0/0/0 -> 0, delete {ab} 1/1/1. Orders 3 and 4 are empty -> 0.
    add = (1+1)/4, keep = 1/4, delete = (1+1)/4, SARI = 5/12.
    """
    assert Sari().sentence_score("a c", ["a c"], "a b").score == pytest.approx(100 * 5 / 12)


def test_without_source_it_says_so() -> None:
    with pytest.raises(EvaluationError, match="give the source sentences"):
        Sari().corpus_score(["a"], [["a"]])
