"""Read filled-in sheets and analyse them: means with intervals, agreement, tests between systems.

Statistics are those of scipy and statsmodels (extra ``stats``): 95% t intervals over items, Fleiss' kappa over raters,
paired t-test (likert) and two-sided sign test (compare, ties left out).
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import UserError, name_some
from ...optional import LazyModule
from ..text_files import PathLike, decode_lines, read_bytes
from .design import ANSWERS, LIKERT, Design

inter_rater = LazyModule("statsmodels.stats.inter_rater")
stats = LazyModule("scipy.stats")

#: rater -> item -> criterion -> answer
Ratings = dict[str, dict[str, dict[str, str]]]
_LONGEST_NAME = 40


def read_ratings(design: Design, paths: Sequence[PathLike]) -> Ratings:
    """Read and check the sheets of all raters.

    Raises:
        UserError: if a sheet is incomplete, repeated or of another study, naming file and items.
    """
    ratings: Ratings = {}
    for path in paths:
        rater, answers = _read_sheet(design, path)
        if rater in ratings:
            raise UserError(f"{path} is a second sheet of {rater}; give one file per rater.")
        ratings[rater] = answers
    missing = [rater for rater in design.raters if rater not in ratings]
    if missing:
        raise UserError(f"no sheet of {', '.join(missing)}; give the files of all {len(design.raters)} raters.")
    return ratings


def _read_sheet(design: Design, path: PathLike) -> tuple[str, dict[str, dict[str, str]]]:
    """Read one CSV file (from a spreadsheet program or from the HTML form)."""
    text = "\n".join(decode_lines(read_bytes(path), path))
    delimiter = ";" if text.partition("\n")[0].count(";") > text.partition("\n")[0].count(",") else ","
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a line of text may be long
    rows, start = [], 1
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            rows.append(row)
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}: the row in line {start} cannot be read ({error}); perhaps a quotation mark is not closed: "
            "save the table as CSV again."
        ) from None
    columns = ["rater", "item", *design.criteria]
    absent = [name for name in columns if not rows or name not in rows[0]]
    if absent:
        raise UserError(f"{path} has no column {', '.join(absent)}; give a sheet written by wean-evaluate sheet.")
    raters = {str(row["rater"]).strip() for row in rows}
    if len(raters) != 1 or not raters <= set(design.raters):
        named = name_some([repr(_shortened(name)) for name in sorted(raters)])
        raise UserError(f"{path} names the raters {named}; one of {', '.join(design.raters)} was expected.")
    rater = raters.pop()
    names = {item.name for item in design.items}
    counts = Counter(str(row["item"]).strip() for row in rows)
    _refuse([name for name in counts if name not in names], f"{path}: unknown items", "give a sheet of this study")
    _refuse(
        [name for name, count in counts.items() if count > 1], f"{path}: items rated twice", "keep one row for each"
    )
    _refuse([name for name in sorted(names) if name not in counts], f"{path}: missing items", "ask the rater for them")
    answers = {
        str(row["item"]).strip(): {name: str(row[name] or "").strip() for name in design.criteria} for row in rows
    }
    allowed = ANSWERS[design.kind]
    blank = [item for item, rated in answers.items() if not all(rated.values())]
    _refuse(blank, f"{path}: unanswered items", "ask the rater for them")
    wrong = [item for item, rated in answers.items() if not set(rated.values()) <= set(allowed)]
    _refuse(wrong, f"{path}: answers that are none of {', '.join(allowed)} in", "correct them")
    return rater, answers


def _refuse(names: list[str], what: str, remedy: str) -> None:
    if names:
        raise UserError(f"{what} {name_some(list(map(_shortened, names)))}; {remedy}.")


def _shortened(text: str) -> str:
    """Shorten a cell, because a cell of a damaged table may contain the rest of the file."""
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."


def analyse(design: Design, ratings: Ratings) -> dict[str, Any]:
    """Return the results of the study as a JSON-like dictionary."""
    result: dict[str, Any] = {
        "kind": design.kind,
        "raters": len(ratings),
        "items": len(design.items),
        "kappa": {criterion: fleiss_kappa(design, ratings, criterion) for criterion in design.criteria},
    }
    return result | (likert_results(design, ratings) if design.kind == LIKERT else compare_results(design, ratings))


def fleiss_kappa(design: Design, ratings: Ratings, criterion: str) -> float | None:
    """Return the agreement beyond chance (Fleiss, 1971), or None for one rater or if all answers are the same."""
    if len(ratings) < 2:
        return None
    answers = [[rated[item.name][criterion] for rated in ratings.values()] for item in design.items]
    counts, different = inter_rater.aggregate_raters(answers)
    return float(inter_rater.fleiss_kappa(counts)) if len(different) > 1 else None


def likert_results(design: Design, ratings: Ratings) -> dict[str, Any]:
    """Return mean and interval of every system and criterion, and paired t-tests against the first system."""
    values: dict[str, dict[str, npt.NDArray[np.float64]]] = {system: {} for system in design.systems}
    for system in design.systems:
        names = [
            item.name for item in sorted(design.items, key=lambda item: item.sentence) if item.systems == (system,)
        ]
        for criterion in design.criteria:
            scores = [[float(rated[name][criterion]) for rated in ratings.values()] for name in names]
            values[system][criterion] = np.array(scores).mean(axis=1)  # mean over raters, one value per sentence
        values[system]["all"] = np.mean([values[system][criterion] for criterion in design.criteria], axis=0)
    first = design.systems[0]
    return {
        "systems": {
            system: {name: mean_and_interval(scores) for name, scores in by_criterion.items()}
            for system, by_criterion in values.items()
        },
        "tests": [
            {"baseline": first, "system": system, "criterion": name, **paired_t_test(values[first][name], scores)}
            for system in design.systems[1:]
            for name, scores in values[system].items()
        ],
    }


def mean_and_interval(scores: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the mean and its 95% t interval (None for a single value)."""
    mean = float(scores.mean())
    if len(scores) < 2:
        return {"mean": mean, "ci": None}
    half = float(stats.t.ppf(0.975, len(scores) - 1) * scores.std(ddof=1) / np.sqrt(len(scores)))
    return {"mean": mean, "ci": [mean - half, mean + half]}


def paired_t_test(baseline: npt.NDArray[np.float64], scores: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return a two-sided paired t-test over sentences. p is 1 if no sentence differs."""
    difference = float((scores - baseline).mean())
    if np.ptp(scores - baseline) == 0:
        return {"difference": difference, "p": 1.0 if difference == 0 else 0.0}
    return {"difference": difference, "p": float(stats.ttest_rel(scores, baseline).pvalue)}


def compare_results(design: Design, ratings: Ratings) -> dict[str, Any]:
    """Return win/tie/loss shares of the first system against every other, and sign tests (ties left out)."""
    first = design.systems[0]
    comparisons = []
    for other, criterion in product(design.systems[1:], design.criteria):
        items = [item for item in design.items if set(item.systems) == {first, other}]
        answers = [(item, rated[item.name][criterion]) for rated in ratings.values() for item in items]
        winners = [None if answer == "tie" else item.systems["AB".index(answer)] for item, answer in answers]
        outcomes = {"win": winners.count(first), "tie": winners.count(None), "loss": winners.count(other)}
        decided = outcomes["win"] + outcomes["loss"]
        p = float(stats.binomtest(outcomes["win"], decided).pvalue) if decided else 1.0
        shares = {name: 100.0 * number / len(winners) for name, number in outcomes.items()}
        comparisons.append({"system": first, "against": other, "criterion": criterion, **shares, "p": p})
    return {"comparisons": comparisons}
