"""Test that the paired tests hold their level and agree with the `PairedTest` of sacreBLEU."""

import itertools
import os
import random
import sys

import numpy as np
import pytest
from sacrebleu.significance import PairedTest
from scipy import stats

from wean_fairseq.evaluation.corpus import Corpus
from wean_fairseq.evaluation.evaluate import Resampling, evaluate
from wean_fairseq.evaluation.metrics import MetricSettings
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.presets import columns_for
from wean_fairseq.evaluation.significance import (
    Draws,
    bootstrap_p,
    holm,
    p_value,
    randomization_p,
    run_error,
    runs_interval,
    runs_p,
)

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
SENTENCES = 77  # not a multiple of 8 or 32, so that blocks of random bits are incomplete
RESAMPLES, TRIALS = 150, 200  # not multiples of the block size


def noisy(sentences: list[str], rate: float, seed: int) -> list[str]:
    """Replace words at random, at the given rate."""
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
    """The oracle is sacreBLEU 2.6.0, `PairedTest` with its default seed 12345, on the same metric objects.

    sacreBLEU sums in single precision, so the scores are compared with a tolerance. The p-values of approximate
    randomisation are counts and agree to one draw. Shares of few whole numbers are an exception, because many of their
    trials are ties, which sacreBLEU does not count. Its p-values of the bootstrap are one-sided, so the intervals are
    compared, which shows that scores and resamples are the same.
    """
    assert "SACREBLEU_SEED" not in os.environ
    hypotheses = {"A": noisy(corpus.references[0], 0.25, 3), "B": noisy(corpus.references[0], 0.3, 4)}
    systems = [system(name, lines) for name, lines in hypotheses.items()]
    columns = columns_for([], METRICS, MetricSettings())
    evaluation = evaluate(systems, corpus, columns, Resampling(RESAMPLES, TRIALS))
    metrics = {column.key: column.metric for column in columns}
    for kind, draws in (("bs", RESAMPLES), ("ar", TRIALS)):
        _, scores = PairedTest(list(hypotheses.items()), metrics, corpus.references, kind, n_samples=draws)()
        ours = {item.metric: item.p_values for item in evaluation.comparisons}
        for key in METRICS:
            assert evaluation.scores["B"][key].score == pytest.approx(scores[key][1].score, rel=1e-5)
            if kind == "ar" and key in ("copy-rate", "novelty-1"):
                assert ours[key]["randomization"] > scores[key][1].p_value + 0.1
            elif kind == "ar":
                assert ours[key]["randomization"] == pytest.approx(scores[key][1].p_value, abs=1.01 / draws), key
            else:
                low, high = evaluation.scores["B"][key].interval
                assert (high - low) / 2 == pytest.approx(scores[key][1].ci, rel=1e-3, abs=1e-4)


def test_bootstrap_sums_are_sums_of_drawn_rows() -> None:
    """The naive oracle draws indices as sacreBLEU does and adds up rows in a loop."""
    rows = np.arange(21, dtype=np.float64).reshape(7, 3)
    drawn = np.random.default_rng(5).choice(7, size=(70, 7), replace=True)
    expected = np.array([rows[indices].sum(axis=0) for indices in drawn])
    (totals,) = Draws(7, 70, 0, seed=5).bootstrap([rows])
    assert np.array_equal(totals, expected)


def test_shuffled_sums_swap_sentences() -> None:
    """The naive oracle is a loop over sentences that takes the row of one system or the other."""
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
    columns = columns_for([], ["bleu", "sari"], MetricSettings())
    evaluation = evaluate([system("A", lines), system("B", list(lines))], corpus, columns, Resampling(100, 100))
    assert [item.p_values for item in evaluation.comparisons] == [{"bootstrap": 1.0, "randomization": 1.0}] * 2
    assert [item.differing for item in evaluation.comparisons] == [0, 0]
    assert any("fewer than 10 sentences on bleu (0), sari (0)" in warning for warning in evaluation.data.warnings)


def test_p_value_counts_by_hand() -> None:
    """Three of four statistics are at least 0.5 (one is equal), so p is (3 + 1) / (4 + 1)."""
    assert p_value(np.array([0.1, 0.5, 0.6, 0.9]), 0.5) == pytest.approx(4 / 5)
    assert p_value(np.array([0.1]), float("nan")) == 1.0  # there is no observed value


def test_bootstrap_p_by_hand() -> None:
    """Two of the differences 1, -1, 3 are at least 1.5 away from the observed 1.5, so p is (2 + 1) / (3 + 1)."""
    assert bootstrap_p(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 6.0]), 1.5) == pytest.approx(3 / 4)


@pytest.mark.parametrize("differing", [1, 2, 5, 8, 12])
@pytest.mark.parametrize("name", ["rouge-l", "bleu"])
def test_few_differing_sentences_against_all_swaps(corpus: Corpus, name: str, differing: int) -> None:
    """The oracle is the exact p-value, from all 2^k ways to swap the k sentences that differ."""
    (column,) = columns_for([], [name], MetricSettings())
    better = noisy(corpus.references[0], 0.3, 3)
    worse = ["x y z" if number < differing else line for number, line in enumerate(better)]
    column.metric.prepare(corpus.references)
    first, second = column.metric.rows(better), column.metric.rows(worse)
    observed = abs(column.metric.score_of(first.sum(axis=0)) - column.metric.score_of(second.sum(axis=0)))
    swaps = np.array(list(itertools.product([0, 1], repeat=differing)), dtype=np.float64)
    moved = swaps @ (second - first)[:differing]
    scores = [column.metric.scores_of(total) for total in (first.sum(axis=0) + moved, second.sum(axis=0) - moved)]
    exact = np.mean(np.abs(scores[0] - scores[1]) >= observed - 1e-9)
    trials = 4000
    found = randomization_p(column.metric, Draws(SENTENCES, 0, trials).shuffle([(first, second)])[0], observed)
    assert found == pytest.approx(exact, abs=4 * (exact * (1 - exact) / trials) ** 0.5 + 1 / trials)


def test_two_of_many_sentences_are_no_evidence() -> None:
    """For two systems that differ in 2 of 359 sentences, all four swaps give p = 0.5."""
    first, second = np.ones((359, 2)), np.ones((359, 2))
    second[[17, 230], 0] = 0.0
    metric = columns_for([], ["exact@1"], MetricSettings())[0].metric
    draws = Draws(359, 1000, 2000)
    resampled = [metric.scores_of(total) for total in draws.bootstrap([first, second])]
    observed = 100 * 2 / 359
    assert bootstrap_p(*resampled, -observed) > 0.2  # Poisson(2) has 0 or at least 4 events with probability 0.28
    assert randomization_p(metric, draws.shuffle([(first, second)])[0], observed) == pytest.approx(0.5, abs=0.05)


def most_rejections(repetitions: int) -> int:
    """Return the number of rejections of a true hypothesis at 5% that 99% of all studies do not exceed (binomial)."""
    return int(stats.binom.ppf(0.99, repetitions, 0.05))


def rejections(name: str, rate: float, repetitions: int, draws: Draws) -> tuple[int, int]:
    """Return the number of times that each test calls two equally good systems different.

    Both systems are drawn from the same two noisy texts. In a share of the sentences, a coin decides which system has
    which text. In all other sentences, the systems agree.
    """
    generator = random.Random(11)
    words = "the a red blue cat dog sat ran on under mat house quickly slowly".split()
    references = [" ".join(generator.choices(words, k=generator.randint(3, 14))) for _ in range(draws.num_sentences)]
    (column,) = columns_for([], [name], MetricSettings())
    metric = column.metric
    metric.sources = noisy(references, 0.4, 2)
    metric.prepare([references])
    texts = [metric.rows(noisy(references, 0.3, seed)) for seed in (3, 4)]
    coin = np.random.default_rng(5)
    found = np.zeros(2, dtype=int)
    for _ in range(repetitions):
        swapped = coin.random(len(references)) < 0.5
        differing = coin.random(len(references)) < rate
        first = np.where(swapped[:, None], texts[0], texts[1])
        second = np.where((swapped ^ differing)[:, None], texts[0], texts[1])
        difference = metric.score_of(second.sum(axis=0)) - metric.score_of(first.sum(axis=0))
        resampled = [metric.scores_of(total) for total in draws.bootstrap([first, second])]
        shuffled = draws.shuffle([(first, second)])[0]
        p_values = bootstrap_p(*resampled, difference), randomization_p(metric, shuffled, abs(difference))
        found += np.array(p_values) < 0.05
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("rate", [0.03, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("name", ["rouge-l", "sari"])
def test_both_tests_hold_their_level(name: str, rate: float) -> None:
    """Test a sentence metric and a corpus metric on 300 pairs of equal systems that differ in 3 to all sentences."""
    found = rejections(name, rate, 300, Draws(101, 300, 300))
    assert max(found) <= most_rejections(300), found


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("name", ["exact@1", "rouge-l", "sari", "bleu"])
def test_both_tests_hold_their_level_on_a_larger_set(name: str, rate: float) -> None:
    found = rejections(name, rate, 300, Draws(359, 500, 500))
    assert max(found) <= most_rejections(300), found


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize(("of_runs", "of_sentences"), [(0.0, 1.0), (0.5, 1.0), (2.0, 0.2), (0.2, 0.2)])
def test_the_test_of_several_runs_holds_its_level(runs: int, of_runs: float, of_sentences: float) -> None:
    """The scores of 300 pairs of equal systems are sums of an effect of the run, effects of sentences, and noise.

    A test of the first run alone shows that the effect of the run matters, because this test calls far too many pairs
    different.
    """
    generator = np.random.default_rng(runs)
    sentences, draws = 60, Draws(60, 200, 0)
    found = naive = 0
    for _ in range(300):
        parts, resampled, scores = [], [], []
        for _ in range(2):
            own = of_sentences * generator.normal(size=sentences)
            score = of_runs * generator.normal(size=(runs, 1)) / sentences**0.5 + own
            parts.append((score + generator.normal(size=(runs, sentences)))[:, :, None])
            resampled.append(np.array([total[:, 0] / sentences for total in draws.bootstrap(list(parts[-1]))]))
            scores.append(parts[-1].mean(axis=(1, 2)))
        difference = float(scores[1].mean() - scores[0].mean())
        error = run_error([(list(score), drawn) for score, drawn in zip(scores, resampled, strict=True)])
        found += runs_p(difference, *error) < 0.05
        naive += bootstrap_p(resampled[0][0], resampled[1][0], scores[1][0] - scores[0][0]) < 0.05
    assert found <= most_rejections(300)
    assert of_runs < 2 or naive > 2 * most_rejections(300)


def test_run_error_by_hand() -> None:
    """The scores 1 and 3 have variance 2, so their mean has variance 1.

    The resampled scores of the runs are (0, 2) and (2, 4). Both differ from their mean over the runs, (1, 3), by a
    constant, so the resampling adds no noise to a single run. The resampled means have variance 1, and the runs add 1.
    The degrees of freedom are (1 + 1)^2 / (1^2 / 1).
    """
    assert run_error([([1.0, 3.0], np.array([[0.0, 2.0], [2.0, 4.0]]))]) == pytest.approx((2**0.5, 4.0))
    # the value of the t table for 0.975 and 4
    assert runs_p(2**0.5 * 2.776445, 2**0.5, 4.0) == pytest.approx(0.05, abs=1e-6)
    interval = runs_interval(2.0, 2**0.5, 4.0)
    assert interval == pytest.approx((2 - 2**0.5 * 2.776445, 2 + 2**0.5 * 2.776445), abs=1e-5)


def test_run_error_counts_what_one_run_does_to_one_sentence_once() -> None:
    """For runs that differ only by noise of sentences, their spread does not exceed the spread of the resamples."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(40, 500, 1))
    resampled = np.array([total[:, 0] / 500 for total in Draws(500, 400, 0).bootstrap(list(rows))])
    scores = rows.mean(axis=(1, 2))
    error, _ = run_error([(list(scores), resampled)])
    excess = error**2 - float(np.var(resampled.mean(axis=0)))
    assert excess < 0.3 * float(np.var(scores, ddof=1)) / 40


@pytest.mark.parametrize("p_values", [[0.04], [0.01, 0.04, 0.03], [0.5, 0.001, 0.001, 0.9], [0.02, 0.02, 0.6, 0.03]])
def test_holm_equals_statsmodels(p_values: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    assert holm(p_values) == pytest.approx(list(multitest.multipletests(p_values, method="holm")[1]))


def test_holm_corrects_within_a_metric(corpus: Corpus) -> None:
    """Two systems are compared with A, so by hand the smaller p-value of each metric and test is doubled."""
    systems = [
        system(name, noisy(corpus.references[0], rate, 3)) for name, rate in (("A", 0.1), ("B", 0.12), ("C", 0.5))
    ]
    columns = columns_for([], ["bleu", "rouge-l"], MetricSettings())
    evaluation = evaluate(systems, corpus, columns, Resampling(100, 100, correction="holm"))
    for key in ("bleu", "rouge-l"):
        one, two = (item for item in evaluation.comparisons if item.metric == key)
        for test in ("bootstrap", "randomization"):
            smaller, larger = sorted((one, two), key=lambda result: result.p_values[test])
            assert smaller.corrected[test] == pytest.approx(min(1.0, 2 * smaller.p_values[test]))
            assert larger.corrected[test] == max(larger.p_values[test], smaller.corrected[test])


def test_the_numbers_of_resamples_and_trials_are_those_of_sacrebleu() -> None:
    """The expected values are the defaults of sacreBLEU's options --paired-bs-n and --paired-ar-n, and its seed."""
    assert Resampling() == Resampling(1000, 10_000, 12345, all_pairs=False, correction=None)


@pytest.mark.parametrize(("quiet", "disabled"), [(True, True), (False, None)])  # None = outside a terminal
def test_a_quiet_evaluation_shows_no_progress(
    quiet: bool, disabled: bool | None, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    bar = lambda items, *_, disable, **__: (shown.append(disable), items)[1]  # noqa: E731
    monkeypatch.setattr(sys.modules["wean_fairseq.evaluation.evaluate"], "tqdm", bar)
    (column,) = columns_for([], ["bleu"], MetricSettings())
    assert column.metric.quiet  # this also holds if a metric is used without an evaluation
    evaluation = evaluate([system("A", corpus.references[0])], corpus, [column], Resampling(0, 0), quiet=quiet)
    assert (shown, column.metric.quiet) == ([disabled], quiet)
    # Scores of sentences are only included on request.
    assert evaluation.as_json()["systems"]["A"]["bleu"].keys() == {"score", "ci"}


def test_all_pairs(corpus: Corpus) -> None:
    systems = [
        system(name, noisy(corpus.references[0], rate, 3)) for name, rate in (("A", 0.1), ("B", 0.2), ("C", 0.5))
    ]
    columns = columns_for([], ["bleu"], MetricSettings())
    with_first = evaluate(systems, corpus, columns, Resampling(50, 50)).comparisons
    every = evaluate(systems, corpus, columns, Resampling(50, 50, all_pairs=True)).comparisons
    assert [(item.baseline, item.system) for item in with_first] == [("A", "B"), ("A", "C")]
    assert [(item.baseline, item.system) for item in every] == [("A", "B"), ("A", "C"), ("B", "C")]
