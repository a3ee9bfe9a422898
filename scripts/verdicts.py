"""Rules that turn measured results into verdicts on published claims.

The script `replication` writes the page with the verdicts.

A comparison states that one system is above another by the main metric of its paper, by the published difference. It is
judged in three steps:

1. `find_obstacles` looks for reasons why the runs allow no conclusion. For example, trainings may be incomplete, their
   budgets may differ, or there may be fewer than three runs. A comparison with such a reason is undecided, even if
   its difference is large.
2. `measure` computes the difference of the means over runs, its 95 % interval and its p-value. The p-values of all
   comparisons of a paper are corrected together by Holm's method.
3. `judge` compares the difference and its 95 % interval with 0 and with half of the published difference.
"""

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.score_file import SIGNIFICANT
from wean_fairseq.evaluation.significance import runs_interval

ROOT = Path(__file__).resolve().parents[1]

HOLDS, IN_PART, DIRECTION, NOT, UNDECIDED, CANNOT, NOT_RUN = VERDICTS = (
    "holds",
    "holds in part",
    "direction only",
    "does not hold here",
    "undecided",
    "cannot be tested here",
    "not run",
)
#: A training is complete if it was ended by this patience.
PATIENCE = 8
#: It is also complete if its best validation is earlier than this share of its schedule.
SCHEDULE = 0.9
#: With fewer runs of a system, the variance between its trainings is unknown.
RUNS = 3
#: A significant difference is at least this number of standard errors over runs.
RUN_ERRORS = 2.0
#: If the metrics of a paper need equal lengths, the relative output lengths may differ by at most this factor.
LENGTHS = 1.1

_NORMAL = NormalDist()
_HALF = _NORMAL.inv_cdf(0.975)
_EPOCHS = re.compile(r"\bEPOCHS=(\d+)")
_SYSTEMS = re.compile(r"\bSYSTEMS=['\"]?([^'\";]*)")
#: This entry of a signature names a group of test sentences.
_GROUP = re.compile(r"\|group:[^|]*")
_WIDTHS = ("embed-dim", "hidden-size")
#: Rows whose names begin like this are not trained systems.
_UNTRAINED = ("copy-source", "lead-")


@dataclass
class Measured:
    """The measured difference between two systems on one metric.

    Attributes:
        scores: means over runs, first of the system that should be above, then of the other system.
        deviations: standard deviations over runs. None if there is only one run.
        runs: number of runs of each system.
        half: half of the width of the difference's 95 % interval.
        run_error: standard error of the difference, over runs only. 0 if both systems have only one run.
        p_value: p-value of the paired test if there is one, otherwise computed from the 95 % intervals.
    """

    metric: str
    scores: tuple[float, float]
    deviations: tuple[float | None, float | None]
    runs: tuple[int, int]
    half: float
    run_error: float
    p_value: float

    @property
    def difference(self) -> float:
        return self.scores[0] - self.scores[1]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference."""
        return self.difference - self.half, self.difference + self.half

    def is_significant(self, p_value: float) -> bool:
        """Return True if the difference is significant with this (corrected) p-value."""
        return p_value < SIGNIFICANT and abs(self.difference) >= RUN_ERRORS * self.run_error


@dataclass
class Outcome:
    """The verdict on one comparison.

    Attributes:
        text: the numbers as text.
        reasons: the reasons for the verdict.
        result: names of the result files, or empty for a count or a benchmark.
    """

    verdict: str
    text: str
    reasons: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@cache
def read_result(name: str) -> dict[str, Any]:
    """Read a file of ``wean-evaluate record``.

    Raises:
        UserError: if there is no such result.
    """
    path = ROOT / "results" / f"{name}.json"
    if not path.is_file():
        raise UserError(f"results/{name}.json does not exist; a comparison needs a file of wean-evaluate record.")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def results_of(comparison: dict[str, Any], side: str = "") -> list[str]:
    """Return the result files of a comparison, one for each seed, or with ``side`` those of this side's system."""
    names = comparison.get(f"{side}_result", comparison.get("result", []))
    return [names] if isinstance(names, str) else list(names)


def runs_of(training: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of all runs of a system. If there is only one run, its record is the training itself."""
    return list(training.get("runs", [training]))


def is_trained(comparison: dict[str, Any], side: str) -> bool:
    """Return True if the system on a side was trained here, so that it is not a copy, a lead or a published output."""
    return not comparison[side].startswith(_UNTRAINED) and f"{side}_published" not in comparison


def find_obstacles(comparison: dict[str, Any], metrics: dict[str, Any]) -> list[str]:
    """Return the reasons why the trainings behind a comparison cannot decide it."""
    budgets, reasons = {}, []
    for side in ("above", "below"):
        if not is_trained(comparison, side):
            continue
        system, records = comparison[side], trainings_of(comparison, side)
        incomplete = [incompleteness(*record) for record in records] or ["how the training ended was not recorded"]
        reasons += [f"{system}: {reason}" for reason in dict.fromkeys(incomplete) if reason]
        budgets[system] = [budget_of(*record) for record in records]
    if len(budgets) == 2 and all(budgets.values()):
        reasons += unequal_budgets(*budgets.values())
    reasons += [comparison["unequal"]] if "unequal" in comparison else []
    reasons += unequal_lengths(comparison) if metrics.get("equal_length") else []
    return reasons


def trainings_of(comparison: dict[str, Any], side: str) -> list[tuple[dict[str, Any], str]]:
    """Return the records of all trainings of the system on one side, with the commands that trained them."""
    system, records = comparison[side], []
    for name in results_of(comparison, side):
        result = read_result(name)
        if training := result.get("trainings", {}).get(system):
            records += [(run, command_of(result["command"], system)) for run in runs_of(training)]
    return records


def command_of(command: str, system: str) -> str:
    """Return the part of a command that trained a system.

    This is the part whose SYSTEMS contains the system, or otherwise the parts without SYSTEMS.
    """
    named, others = [], []
    for part in command.split(";"):
        if (systems := _SYSTEMS.search(part)) is None:
            others.append(part)
        elif system in systems[1].split():
            named.append(part)
    return ";".join(named or others) or command


def incompleteness(training: dict[str, Any], command: str) -> str:
    """Return why a training, or a try of another setting, is incomplete.

    The text is empty if the training and all tries are complete.

    A try is complete if it was stopped at the number of epochs after which the setting was chosen. If the best epoch of
    a try is not recorded, as in old records, the try is complete only if the patience ended it.
    """
    patience, schedule = patience_of(training), schedule_of(training, command)
    for name, one in {"": training, **training.get("tries", {})}.items():
        where = f" ({name})" if name else ""
        if one["end"] == "not chosen":
            continue
        if one["end"] == "converged":
            if patience is None or patience < PATIENCE:
                return f"ended by a patience of {patience}, not {PATIENCE}{where}"
        elif math.ceil(one["epochs"]) < schedule or "epoch_of_best" not in one:
            return f"cut after {one['epochs']:g} of {schedule:g} epochs{where}"
        elif one["epoch_of_best"] >= SCHEDULE * schedule:
            return f"best validation at epoch {one['epoch_of_best']:g} of {schedule:g}{where}"
    return ""


def option_of(training: dict[str, Any], name: str) -> str | None:
    """Return the value of a training option, or None if the option was not given."""
    fields = (option.split() for option in training.get("options", []))
    return next((words[1] for words in fields if words[0] == f"--{name}" and len(words) > 1), None)


def patience_of(training: dict[str, Any]) -> int | None:
    """Return the patience of a training, or None if it has no patience."""
    patience = option_of(training, "patience")
    return None if patience is None or int(patience) < 0 else int(patience)


def schedule_of(training: dict[str, Any], command: str) -> float:
    """Return the number of planned epochs from the record or the command, or else the number of trained epochs."""
    stated = _EPOCHS.search(command)
    return float(training.get("schedule") or (stated[1] if stated else training["epochs"]))


def budget_of(training: dict[str, Any], command: str) -> dict[str, Any]:
    """Return the values that must be equal in a fair comparison. A Transformer has no hidden size."""
    tries = training.get("tries", {})
    widths = _WIDTHS if option_of(training, "ffn-dim") is None else _WIDTHS[:1]
    chosen_after = {one["schedule"] for one in tries.values() if one["end"] == "not chosen"}
    return {
        "settings tried": max(1, len(tries)),
        "epochs after which the setting was chosen": ", ".join(map(str, sorted(chosen_after))) or "all",
        "patience": patience_of(training) or "none",
        "epochs at most": f"{schedule_of(training, command):g}",
        **{name: option_of(training, name) or "the preset's" for name in widths},
    }


def unequal_budgets(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Return the reasons why the budgets of two systems are not equal in all runs."""
    reasons = []
    for name in [name for name in one[0] if all(name in budget for budget in [*one, *other])]:
        sides = [[str(budget[name]) for budget in side] for side in (one, other)]
        if sorted(sides[0] * len(other)) != sorted(sides[1] * len(one)):
            shown = [f"{'/'.join(side)} (by run)" if len(set(side)) > 1 else side[0] for side in sides]
            reasons.append(f"unequal budgets: {name} {shown[0]} and {shown[1]}")
    return reasons


def unequal_lengths(comparison: dict[str, Any]) -> list[str]:
    """Return a reason if the outputs of the two systems differ too much in length."""
    systems = [cells_of(comparison, side) for side in ("above", "below")]
    ratios = [statistics.mean(cells["length-ratio"]["score"] for cells in runs) for runs in systems]
    if max(ratios) <= LENGTHS * min(ratios):
        return []
    return [f"outputs of unequal length: {ratios[0]:.2f} and {ratios[1]:.2f} of the references'"]


def cells_of(comparison: dict[str, Any], side: str) -> list[dict[str, Any]]:
    """Return the scores of a system in each of its result files, by metric."""
    system, cells = comparison[side], []
    for name in results_of(comparison, side):
        systems = read_result(name)["evaluation"]["systems"]
        if system not in systems:
            raise UserError(f"results/{name}.json has no system {system!r}; choose from {', '.join(systems)}.")
        cells.append(systems[system])
    return cells


def check_signatures(comparison: dict[str, Any], keys: tuple[str, str]) -> None:
    """Reject a comparison of scores that were computed in different ways.

    The scores may be for different groups of test sentences.

    Raises:
        UserError: if they were computed differently. The message has the signatures.
    """
    signatures = {}
    for side, key in zip(("above", "below"), keys, strict=True):
        for name in results_of(comparison, side):
            evaluation = read_result(name)["evaluation"]
            # Older versions stored the signature with each score.
            column = evaluation.get("columns", {}).get(key) or evaluation["systems"][comparison[side]][key]
            signatures.setdefault(_GROUP.sub("", column.get("signature", "none")), f"results/{name}.json")
    if len(signatures) > 1:
        found = " but ".join(f"{signature} in {name}" for signature, name in signatures.items())
        raise UserError(
            f"{comparison['above']} above {comparison['below']}: the signatures of {keys[0]} differ ({found}); "
            "name a metric that was computed in the same way in all of them, such as a paper's preset."
        )


def measure(comparison: dict[str, Any], metric: str) -> Measured | None:
    """Measure the difference of two systems. Return None if a result lacks the metric or its interval.

    Raises:
        UserError: if the scores were computed in different ways.
    """
    keys = metric, comparison.get("than", metric)
    sides = [(cells_of(comparison, side), key) for side, key in zip(("above", "below"), keys, strict=True)]
    if any((result.get(key) or {}).get("ci") is None for files, key in sides for result in files):
        return None
    check_signatures(comparison, keys)
    cells = [[result[key] for result in files] for files, key in sides]
    runs = [[score for cell in side for score in cell.get("runs", [cell["score"]])] for side in cells]
    halves = [statistics.mean((cell["ci"][1] - cell["ci"][0]) / 2 for cell in side) for side in cells]
    deviations = [statistics.stdev(scores) if len(scores) > 1 else None for scores in runs]
    high, low = (statistics.mean(scores) for scores in runs)
    half, p_value = math.hypot(*halves), paired_p(comparison, metric)
    if p_value is None:
        p_value = 2 * _NORMAL.cdf(-abs(high - low) * _HALF / half) if half else float(high == low)
    elif max(map(len, runs)) == 1 and p_value < 0.5:
        # Only the paired test considers that both systems were scored on the same sentences, so its interval may be
        # smaller. For several runs, the p-value is that of a t test with unknown degrees of freedom.
        half = min(half, abs(high - low) * _HALF / -_NORMAL.inv_cdf(p_value / 2))
    run_error, run_half = over_runs(runs)
    return Measured(
        metric,
        (high, low),
        (deviations[0], deviations[1]),
        (len(runs[0]), len(runs[1])),
        max(half, run_half),
        run_error,
        p_value,
    )


def over_runs(runs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the standard error of the difference of two means over runs, and half of its 95 % interval.

    The interval is that of Welch's t test. Both are 0 if no system has several runs.
    """
    variances = [statistics.variance(scores) / len(scores) if len(scores) > 1 else 0.0 for scores in runs]
    error = math.sqrt(sum(variances))
    if not error:
        return 0.0, 0.0
    doubt = sum(one**2 / (len(scores) - 1) for one, scores in zip(variances, runs, strict=True) if one)
    return error, runs_interval(0.0, error, error**4 / doubt)[1]


def paired_p(comparison: dict[str, Any], metric: str) -> float | None:
    """Return the largest p-value of the paired tests in all results, or None if a result has no such test."""
    if "than" in comparison or "below_result" in comparison:
        return None
    p_values = []
    for name in results_of(comparison):
        for test in read_result(name)["evaluation"]["pairwise"]:
            pair = {test["baseline"], test["system"]}
            if "p_values" in test and test["metric"] == metric and pair == {comparison["above"], comparison["below"]}:
                p_values.append(max(test["p_values"].values()))
    return max(p_values) if p_values and len(p_values) == len(results_of(comparison)) else None


def published_difference(comparison: dict[str, Any], measured: Measured) -> float:
    """Return the published difference in points, or 0 if the paper does not state the difference."""
    if "published_percent" in comparison:
        return float(comparison["published_percent"]) / 100 * measured.scores[1]
    above, below = comparison.get("published", (0.0, 0.0))
    return float(above - below)


def judge(measured: Measured, p_value: float, published: float, margin: float = 0.0) -> str:
    """Return the verdict on a difference, if nothing prevents a conclusion from its trainings.

    Args:
        p_value: p-value of the main metric, corrected for all comparisons of the paper.
        published: difference in the paper. 0 means that the paper does not state it, so that any size is accepted.
        margin: maximum by which a system may be lower and still count as equally good. 0 means that it must be above
            the other system.
    """
    low, high = measured.interval
    significant = measured.is_significant(p_value)
    if margin and low > -margin:
        return HOLDS
    if significant and measured.difference > 0:
        return HOLDS if measured.difference >= published / 2 else DIRECTION
    if significant or (published > 0 and high < published / 2):
        return NOT
    return UNDECIDED


def contradictions(measured: Sequence[Measured]) -> list[str]:
    """Return the other metrics on which the system is significantly below instead of above."""
    return [f"{item.metric} says the opposite" for item in measured if item.difference < 0 and opposes(item)]


def opposes(measured: Measured) -> bool:
    """Return True if a secondary metric is significant.

    The p-value is not corrected, so it opposes a claim slightly too often.
    """
    return measured.is_significant(measured.p_value)


def combine(verdicts: Sequence[str]) -> str:
    """Combine the verdicts on all comparisons of a claim into the verdict on the claim. All comparisons must hold."""
    for decisive in (NOT_RUN, UNDECIDED):
        if decisive in verdicts or not verdicts:
            return decisive if verdicts else NOT_RUN
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return DIRECTION if set(verdicts) == {HOLDS, DIRECTION} else IN_PART
