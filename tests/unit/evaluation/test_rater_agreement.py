"""Test agreement of raters: Krippendorff's ordinal alpha and Fleiss' kappa."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from wean_fairseq.evaluation.human.ratings import agreement


def naive_alpha(values: list[list[int]]) -> float:
    """Return Krippendorff's alpha, pair by pair, from the definition of the ordinal distance (Krippendorff, 2011)."""
    every = [value for row in values for value in row]
    counts = Counter(every)

    def distance(one: int, other: int) -> float:
        low, high = sorted((one, other))
        return (sum(counts[value] for value in range(low, high + 1)) - (counts[low] + counts[high]) / 2) ** 2

    observed = sum(distance(*pair) for row in values for pair in permutations(row, 2)) / (len(values[0]) - 1)
    return 1 - observed * (len(every) - 1) / sum(distance(*pair) for pair in permutations(every, 2))


@pytest.mark.parametrize(("items", "raters", "low", "high"), [(1, 2, 1, 2), (7, 3, 1, 5), (20, 2, 1, 4), (9, 6, -1, 1)])
def test_agreement_equals_reference_programs(items: int, raters: int, low: int, high: int) -> None:
    """Alpha equals the result of the loop above, and kappa equals statsmodels."""
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    values = np.random.default_rng(3).integers(low, high + 1, (items, raters))
    values[0, :2] = low, high
    measures = agreement(values.astype(float))
    assert measures["alpha"] == pytest.approx(naive_alpha(values.tolist()))
    assert measures["kappa"] == pytest.approx(inter_rater.fleiss_kappa(inter_rater.aggregate_raters(values)[0]))


@pytest.mark.parametrize(
    ("answers", "kappa", "alpha"),
    [
        # Two raters agree on four of six items and differ on two: P = 4/6, Pe = 1/2. Alpha: 1 - (2/6) / (6/11).
        (("112212", "112221"), 1 / 3, 7 / 18),
        # Raters of 28 items are never more than one point apart. Their agreement is moderate by kappa and high by
        # alpha.
        (
            (
                "3542323541222354434245222331",
                "4432222441222253534235232421",
                "3442232452321243425235223421",
                "3432332451321243434235222321",
            ),
            0.411,
            0.830,
        ),
        (("12345", "12345"), 1, 1),
        (("333", "333"), None, None),  # if all answers are equal, there is no chance agreement
        (("12345",), None, None),  # agreement needs two raters
    ],
)
def test_agreement_by_hand(answers: tuple[str, ...], kappa: float | None, alpha: float | None) -> None:
    values = np.array([list(map(float, rater)) for rater in answers]).T
    assert agreement(values) == pytest.approx({"alpha": alpha, "kappa": kappa}, abs=5e-4)
