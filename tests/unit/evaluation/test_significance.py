"""Paired tests: the p-values and intervals of sacreBLEU's own `PairedTest`, for its metrics and for ours."""

import os
import random

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from wean_fairseq.evaluation.corpus import Corpus
from wean_fairseq.evaluation.evaluate import Resampling, evaluate
from wean_fairseq.evaluation.metrics import Settings
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.presets import columns_for
from wean_fairseq.evaluation.significance import Draws, bootstrap_p, p_value

METRICS = [
    "bleu",
    "bleu2",
    "sari",
    "ibleu",
    "self-bleu",
    "rouge-1",
    "rouge-l",
    "nltk-m7-legacy",
    "copy-rate",
    "novelty-1",
]
SENTENCES = 77  # no multiple of 8 or 32: blocks of random bits must not depend on it
RESAMPLES, TRIALS = 150, 200  # no multiple of the block size


def noisy(sentences: list[str], rate: float, seed: int) -> list[str]:
    """Replace words at random."""
    generator = random.Random(seed)
    return [" ".join(w if generator.random() > rate else "x" for w in line.split()) for line in sentences]


@pytest.fixture(name="corpus")
def make_corpus() -> Corpus:
    generator = random.Random(7)
    words = "the a red blue cat dog sat ran on under mat house quickly slowly".split()
    references = [" ".join(generator.choices(words, k=generator.randint(3, 14))) for _ in range(SENTENCES)]
    return Corpus([references, noisy(references, 0.2, 1)], noisy(references, 0.4, 2))


def system(name: str, sentences: list[str]) -> SystemOutput:
    return SystemOutput(name, [[line] for line in sentences], "")


def test_equal_to_sacrebleu(corpus: Corpus) -> None:
    """Oracle: sacreBLEU 2.6.0, `PairedTest` with its default seed 12345, on the very same metric objects.

    It sums in single precision, hence the tolerance on scores; p-values are counts and must agree to one draw.
    """
    assert "SACREBLEU_SEED" not in os.environ
    hypotheses = {"A": noisy(corpus.references[0], 0.25, 3), "B": noisy(corpus.references[0], 0.3, 4)}
    systems = [system(name, lines) for name, lines in hypotheses.items()]
    columns = columns_for([], METRICS, Settings())
    evaluation = evaluate(systems, corpus, columns, Resampling(RESAMPLES, TRIALS))
    metrics = {column.key: column.metric for column in columns}
    for kind, field, draws in (("bs", "p_bootstrap", RESAMPLES), ("ar", "p_randomization", TRIALS)):
        _, scores = PairedTest(list(hypotheses.items()), metrics, corpus.references, kind, n_samples=draws)()
        ours = {item.key: getattr(item.result, field) for item in evaluation.comparisons}
        for key in METRICS:
            assert ours[key] == pytest.approx(scores[key][1].p_value, abs=1.01 / draws), (kind, key)
            assert evaluation.cells["B"][key].score == pytest.approx(scores[key][1].score, rel=1e-5)
            if kind == "bs":
                interval = evaluation.cells["B"][key].interval
                assert (interval.high - interval.low) / 2 == pytest.approx(scores[key][1].ci, rel=1e-3, abs=1e-4)


def test_bootstrap_sums_are_sums_of_drawn_rows() -> None:
    """Naive oracle: draw indices as sacreBLEU does, add up rows in a loop."""
    rows = np.arange(21, dtype=np.float64).reshape(7, 3)
    drawn = np.random.default_rng(5).choice(7, size=(70, 7), replace=True)
    expected = np.array([rows[indices].sum(axis=0) for indices in drawn])
    (totals,) = Draws(7, 70, 0, seed=5).bootstrap([rows])
    assert np.array_equal(totals, expected)


def test_shuffled_sums_swap_sentences() -> None:
    """Naive oracle: a loop over sentences that takes the row of one system or the other."""
    first, second = np.arange(14.0).reshape(7, 2), 100 + np.arange(14.0).reshape(7, 2)
    masks = np.random.default_rng(5).integers(2, size=(70, 7), dtype=bool)
    ((left, right),) = Draws(7, 0, 70, seed=5).shuffle([(first, second)])
    for trial, mask in enumerate(masks):
        assert np.array_equal(
            left[trial], sum(a if keep else b for a, b, keep in zip(first, second, mask, strict=True))
        )
        assert np.array_equal(
            right[trial], sum(b if keep else a for a, b, keep in zip(first, second, mask, strict=True))
        )


def test_a_system_does_not_differ_from_itself(corpus: Corpus) -> None:
    lines = noisy(corpus.references[0], 0.3, 3)
    columns = columns_for([], ["bleu", "sari"], Settings())
    evaluation = evaluate([system("A", lines), system("B", list(lines))], corpus, columns, Resampling(100, 100))
    assert {(item.result.p_bootstrap, item.result.p_randomization) for item in evaluation.comparisons} == {(1.0, 1.0)}


def test_p_value_counts_by_hand() -> None:
    """Two of four statistics exceed 0.5: (2 + 1) / (4 + 1)."""
    assert p_value(np.array([0.1, 0.5, 0.6, 0.9]), 0.5) == pytest.approx(3 / 5)


def test_bootstrap_p_by_hand() -> None:
    """|differences| = 1, 1, 4, mean 2; centred -1, -1, 2; one of three exceeds the observed 1: (1 + 1) / (3 + 1)."""
    assert bootstrap_p(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 7.0]), 1.0) == pytest.approx(0.5)


def test_all_pairs(corpus: Corpus) -> None:
    systems = [
        system(name, noisy(corpus.references[0], rate, 3)) for name, rate in (("A", 0.1), ("B", 0.2), ("C", 0.5))
    ]
    columns = columns_for([], ["bleu"], Settings())
    with_first = evaluate(systems, corpus, columns, Resampling(50, 50)).comparisons
    every = evaluate(systems, corpus, columns, Resampling(50, 50, all_pairs=True)).comparisons
    assert [(item.baseline, item.system) for item in with_first] == [("A", "B"), ("A", "C")]
    assert [(item.baseline, item.system) for item in every] == [("A", "B"), ("A", "C"), ("B", "C")]
