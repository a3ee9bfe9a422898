"""Write the rating sheets: a CSV file for spreadsheets and a self-contained HTML form for browsers, per rater.

The HTML form needs no network and no server. It stores answers in the browser's local storage and saves the same CSV
file.
"""

import csv
import io
import os
from functools import partial
from pathlib import Path

from ...errors import UserError
from ...templates import render_template
from ..tables import without_formula
from ..text_files import PathLike, read_bytes, write_atomically
from .design import ANSWERS, COMPARE, LIKERT, Design

#: Instructions for the raters and headings of the texts, for each kind of study.
_INSTRUCTIONS = {
    LIKERT: "Rate every text on {} from 1 (very bad) to 5 (very good). Please answer everything.",
    COMPARE: "For every pair say which text is better, A, B or tie, on {}. Please answer everything.",
}
_TEXTS = {LIKERT: ["text"], COMPARE: ["text A", "text B"]}


def write_sheets(design: Design, folder: PathLike) -> list[Path]:
    """Write ``RATER.csv`` and ``RATER.html`` for every rater and ``key.json``, and never overwrite another study.

    Sheets without a key are those of an interrupted call. They are replaced if they are equal to the new ones.

    Returns:
        The files, the key last. The key names the systems, so raters must not see it.
    """
    key = Path(folder) / "key.json"
    sheets = {
        key.with_name(f"{rater}.{suffix}"): partial(sheet, design, rater)
        for rater in design.raters
        for suffix, sheet in (("csv", csv_sheet), ("html", html_sheet))
    }
    present = [path for path in (key, *sheets) if os.path.lexists(path)]
    others = (path for path in present if path == key or read_bytes(path) != sheets[path]().encode())
    if (other := next(others, None)) is not None:
        raise UserError(f"{other} exists: there is a study in this folder already; choose another --out.")
    for path, text in sheets.items():
        write_atomically(path, text())
    write_atomically(key, design.to_json())
    return [*sheets, key]


def csv_sheet(design: Design, rater: str) -> str:
    """Return a sheet with empty cells to fill in."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["rater", "item", "source", *_TEXTS[design.kind], *design.criteria])
    for item in design.sheet(rater):
        texts = map(without_formula, (item.source, *item.texts))
        writer.writerow([rater, item.name, *texts, *("" for _ in design.criteria)])
    return buffer.getvalue()


def html_sheet(design: Design, rater: str) -> str:
    """Return the form, in which every text is escaped."""
    return render_template(
        "wean_fairseq.evaluation.human",
        "sheet.html.j2",
        design=design,
        rater=rater,
        items=design.sheet(rater),
        instructions=_INSTRUCTIONS[design.kind].format(", ".join(design.criteria)),
        headings=[heading.replace("text", "Text") for heading in _TEXTS[design.kind]],
        answers=ANSWERS[design.kind],
    )
