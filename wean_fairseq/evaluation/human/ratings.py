"""Read completed sheets and compute means with intervals, agreement, and tests between systems.

The judgements of one sentence are not independent, so all statistics use one number per sentence. These are the 95% t
intervals, the paired t-test (likert) and the two-sided sign test without ties (compare).
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import UserError, name_some
from ...optional import LazyModule
from ..alignment import letters
from ..text_files import PathLike, decode_lines, read_bytes
from .design import ANSWERS, LIKERT, TEXTS, Design, Item

stats = LazyModule("scipy.stats")

#: The answer of each rater, item and criterion.
Ratings = dict[str, dict[str, dict[str, str]]]
#: One number per item (row) and rater (column).
Values = npt.NDArray[np.float64]
_LONGEST_NAME = 40
#: A number or a date, which a spreadsheet program writes in another form.
_REWRITTEN = re.compile(r"(?=.*\d)[\W\d_]*(?:[^\W\d_]+[\W\d_]*)?")


def read_ratings(design: Design, paths: Sequence[PathLike]) -> Ratings:
    """Read and check the sheets of all raters.

    Raises:
        UserError: if a sheet is incomplete, repeated or from another study. The message names the file and the affected
            items.
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
    """Read one CSV file, which was saved by a spreadsheet program or the HTML form."""
    text = "\n".join(decode_lines(read_bytes(path), path))
    # older spreadsheet programs end lines with a carriage return
    text = text if "\n" in text else text.replace("\r", "\n")
    # A text may be longer than the default limit for a cell.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    # In some languages, spreadsheet programs separate cells by semicolons. Names of criteria may contain both signs.
    columns, line = ["rater", "item", *design.criteria], text.partition("\n")[0]
    table, start = [], 1
    try:
        found = {sign: set(columns).intersection(*csv.reader([line], delimiter=sign)) for sign in ",;"}
        reader = csv.reader(io.StringIO(text), delimiter=max(",;", key=lambda sign: len(found[sign])), strict=True)
        for row in reader:
            table.append(row)
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}: the row in line {start} cannot be read ({error}); perhaps a quotation mark is not closed: "
            "save the table as CSV again."
        ) from None
    # The columns are checked first, then the rater, the items and the answers. Each check relies on the previous
    # checks.
    # Spreadsheet programs may save empty rows below the table.
    heading, *rows = [row for row in table if any(cell.strip() for cell in row)] or [[]]
    if not rows:
        raise UserError(f"{path} has no rows of answers; give a sheet that a rater has completed.")
    times = Counter(heading)
    wrong_columns = {
        "no column": [name for name in columns if not times[name]],
        "more than one column": [name for name in columns if times[name] > 1],
    }
    for fault, wrong in wrong_columns.items():
        _refuse(wrong, f"{path} has {fault}", "give a sheet written by wean-evaluate sheet")
    places = {name: place for place, name in enumerate(heading)}

    def cell(row: list[str], name: str) -> str:
        return row[places[name]].strip() if places[name] < len(row) else ""

    raters = {cell(row, "rater") for row in rows}
    if len(raters) != 1 or not raters <= set(design.raters):
        named = name_some([repr(_shortened(name)) for name in sorted(raters)])
        raise UserError(f"{path} names the raters {named}; one of {', '.join(design.raters)} was expected.")
    rater = raters.pop()
    names = {item.name for item in design.items}
    counts = Counter(cell(row, "item") for row in rows)
    _refuse([name for name in counts if name not in names], f"{path}: unknown items", "give a sheet of this study")
    _refuse(
        [name for name, count in counts.items() if count > 1], f"{path}: items rated twice", "keep one row for each"
    )
    _refuse([name for name in sorted(names) if name not in counts], f"{path}: missing items", "ask the rater for them")
    # A comma in an unquoted text moves the answers of its row one column to the right.
    shifted = [cell(row, "item") for row in rows if any(row[len(heading) :])]
    _refuse(shifted, f"{path}: rows with more cells than the heading", "put quotation marks around texts with commas")
    blank = [cell(row, "item") for row in rows if not all(cell(row, name) for name in design.criteria)]
    _refuse(blank, f"{path}: unanswered items", "ask the rater for them")
    answers = {cell(row, "item"): {name: cell(row, name) for name in design.criteria} for row in rows}
    wrong = [item for item, rated in answers.items() if not set(rated.values()) <= set(ANSWERS[design.kind])]
    _refuse(wrong, f"{path}: answers that are none of {', '.join(ANSWERS[design.kind])} in", "correct them")
    _check_texts(design, rater, {cell(row, "item"): {name: cell(row, name) for name in places} for row in rows}, path)
    return rater, answers


def _check_texts(design: Design, rater: str, shown: Mapping[str, Mapping[str, str]], path: PathLike) -> None:
    """Refuse a sheet with other texts than the key, for example because one column was sorted alone.

    Columns that were deleted and cells that were cleared are not compared. Of the others, only letters and digits are
    compared, because spreadsheet programs change spaces, quotation marks and dashes, and a sheet has a quotation mark
    before formulas.
    """
    for item in design.sheet(rater):
        for column, expected in zip(["source", *TEXTS[design.kind]], [item.source, *item.texts], strict=True):
            found = shown[item.name].get(column, "")
            if found and not _REWRITTEN.fullmatch(expected) and letters(found) != letters(expected):
                raise UserError(
                    f"{path}: the {column} of {item.name} is {_shortened(found)!r}, but the rater got "
                    f"{_shortened(expected)!r}; bring the cells of each row together again, or delete the column "
                    f"{column!r} if only the rater's program has changed it."
                )


def _refuse(names: list[str], what: str, remedy: str) -> None:
    if names:
        raise UserError(f"{what} {name_some(list(map(_shortened, names)))}; {remedy}.")


def _shortened(text: str) -> str:
    """Shorten a cell for a message."""
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."


def analyse(design: Design, ratings: Ratings) -> dict[str, Any]:
    """Return the results of the study as a JSON-like dictionary."""
    values = {criterion: rating_values(design, ratings, criterion) for criterion in design.criteria}
    agreements = {criterion: agreement(table) for criterion, table in values.items()}
    result: dict[str, Any] = {"kind": design.kind, "raters": len(ratings), "items": len(design.items)}
    for name in ("alpha", "kappa"):
        result[name] = {criterion: measures[name] for criterion, measures in agreements.items()}
    return result | (likert_results if design.kind == LIKERT else compare_results)(design, values)


def rating_values(design: Design, ratings: Ratings, criterion: str) -> Values:
    """Return the ratings of one criterion from 1 to 5, with one row per item and one column per rater.

    For ``compare``, the values are 1, 0 or -1 if the first system wins, ties or loses.
    """
    columns = []
    for rater, answers in ratings.items():
        sheet = {item.name: item for item in design.sheet(rater)}
        columns.append([_value(design, sheet[item.name], answers[item.name][criterion]) for item in design.items])
    return np.array(columns, dtype=np.float64).T


def _value(design: Design, item: Item, answer: str) -> int:
    if design.kind == LIKERT:
        return int(answer)
    return 0 if answer == "tie" else 1 if item.systems["AB".index(answer)] == design.systems[0] else -1


def agreement(values: Values) -> dict[str, float | None]:
    """Return Krippendorff's ordinal alpha and Fleiss' kappa, or None for one rater or if all answers are equal."""
    if values.shape[1] < 2 or np.ptp(values) == 0:
        return {"alpha": None, "kappa": None}
    # The ordinal distance of two answers is the squared difference of their mean ranks. The mean of this distance over
    # all pairs of judgements is twice the variance of the ranks. Alpha compares this mean over the pairs within each
    # item with the mean over all pairs.
    ranks = stats.rankdata(values, axis=None).reshape(values.shape)
    alpha = 1 - ranks.var(axis=1, ddof=1).mean() / ranks.var(ddof=1)
    # For kappa, the share of pairs with different answers is the sum of the variances of the answers' indicators.
    # Fleiss draws the pairs for the expected share with replacement, so that variance has no correction.
    indicators = values[..., None] == np.unique(values)
    kappa = 1 - indicators.var(axis=1, ddof=1).sum(axis=1).mean() / indicators.var(axis=(0, 1)).sum()
    return {"alpha": float(alpha), "kappa": float(kappa)}


def _rows(design: Design) -> dict[frozenset[str], list[int]]:
    """For each system or pair of systems, return the row numbers of its items, ordered by sentence."""
    rows: dict[frozenset[str], list[int]] = {}
    for row, item in sorted(enumerate(design.items), key=lambda entry: entry[1].sentence):
        rows.setdefault(frozenset(item.systems), []).append(row)
    return rows


def likert_results(design: Design, values: dict[str, Values]) -> dict[str, Any]:
    """Return the mean and interval of every system and criterion, and paired t-tests against the first system."""
    means = {criterion: table.mean(axis=1) for criterion, table in values.items()}  # means over raters
    means["all"] = np.mean(list(means.values()), axis=0)
    rows = _rows(design)
    scores = {
        system: {name: mean[rows[frozenset([system])]] for name, mean in means.items()} for system in design.systems
    }
    first, *others = design.systems
    return {
        "systems": {
            system: {name: mean_and_interval(numbers) for name, numbers in by_criterion.items()}
            for system, by_criterion in scores.items()
        },
        "tests": [
            {"baseline": first, "system": other, "criterion": name, **paired_t_test(scores[first][name], numbers)}
            for other in others
            for name, numbers in scores[other].items()
        ],
    }


def mean_and_interval(scores: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the mean and its 95% t interval (None for a single value)."""
    mean = float(scores.mean())
    if len(scores) < 2:
        return {"mean": mean, "ci": None}
    half = float(stats.t.ppf(0.975, len(scores) - 1) * scores.std(ddof=1) / np.sqrt(len(scores)))
    return {"mean": mean, "ci": [mean - half, mean + half]}


def paired_t_test(baseline: npt.NDArray[np.float64], scores: npt.NDArray[np.float64]) -> dict[str, float | None]:
    """Run a two-sided paired t-test over sentences.

    The p-value is 1 if no sentence differs. It is None if the test is not defined, because there is only one sentence
    or all sentences differ by the same amount.
    """
    differences = np.round(scores - baseline, 9)  # means of equal sums can differ by a rounding error
    difference = float(differences.mean())
    if not differences.any():
        return {"difference": 0.0, "p": 1.0}
    if np.ptp(differences) == 0:
        return {"difference": difference, "p": None}
    return {"difference": difference, "p": float(stats.ttest_1samp(differences, 0).pvalue)}


def compare_results(design: Design, values: dict[str, Values]) -> dict[str, Any]:
    """Compare the first system with every other one, by shares of wins, ties and losses and by a sign test.

    The shares are percentages of all judgements. The sign test leaves out ties. The first system wins a sentence if
    more raters prefer it than the other system.
    """
    first, *others = design.systems
    rows = _rows(design)
    comparisons = []
    for other, criterion in product(others, design.criteria):
        votes = values[criterion][rows[frozenset([first, other])]]
        shares = {name: 100.0 * count / votes.size for name, count in _outcomes(votes).items()}
        sentences = _outcomes(votes.sum(axis=1))
        decided = sentences["win"] + sentences["loss"]
        p = float(stats.binomtest(sentences["win"], decided).pvalue) if decided else 1.0
        row = {"system": first, "against": other, "criterion": criterion, **shares, "sentences": sentences, "p": p}
        comparisons.append(row)
    return {"comparisons": comparisons}


def _outcomes(votes: Values) -> dict[str, int]:
    return {"win": int((votes > 0).sum()), "tie": int((votes == 0).sum()), "loss": int((votes < 0).sum())}
