"""Tables of text cells, which can be written for a terminal or as Markdown, CSV, TSV and LaTeX."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

from ..console import markdown
from ..errors import printable

_LATEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}
#: Spreadsheet programs interpret a cell that starts with one of these characters as a formula.
_FORMULA_STARTS = "=+-@"
_NUMBER = re.compile(r"-[0-9.]+(e[-+]?[0-9]+)?")


@dataclass(frozen=True)
class Cell:
    """A cell that has a detail or a mark in addition to its text.

    Attributes:
        detail: text in small print below the cell's text, e.g. an interval.
        mark: ``copy`` for the row of the copied source, ``beaten`` for a score below the score of the copied source,
            ``published`` for a number from a paper. Empty = none of these.
    """

    text: str
    detail: str = ""
    mark: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass
class Table:
    """A table whose first column names the rows.

    Attributes:
        align: ``l`` or ``r`` for each column. By default all columns but the first are aligned to the right.
        groups: names above the columns in the text form, one per column. Neighbouring columns with the same name share
            one heading. Empty = no names.
        notes: sentences below the table in a report.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    align: str = ""
    groups: Sequence[str] = ()
    caption: str = ""
    notes: Sequence[str] = field(default_factory=list)
    kind: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        self.align = self.align or "l" + "r" * (len(self.head) - 1)

    @property
    def _lines(self) -> list[list[str]]:
        return [list(self.head), *(list(map(str, row)) for row in self.rows)]

    def as_text(self) -> str:
        """Format the table for a terminal, with aligned columns."""
        widths = [max(map(display_width, column)) for column in zip(*self._lines, strict=True)]
        lines = []
        heading, start = "", 0
        for name, columns in groupby(zip(self.groups, widths, strict=False), key=lambda column: column[0]):
            heading += " " * (start - len(heading)) * bool(name) + f"[{name}] " * bool(name)
            start += sum(width + 2 for _, width in columns)
        if heading:
            lines.append(heading.rstrip())
        for line in self._lines:
            blanks = [" " * (width - display_width(cell)) for width, cell in zip(widths, line, strict=True)]
            cells = [
                blank + cell if side == "r" else cell + blank
                for side, blank, cell in zip(self.align, blanks, line, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def as_markdown(self, escape: Callable[[str], str] = markdown) -> str:
        """Write the table in Markdown, including the marks and details of cells."""

        def write(cell: Cell | str) -> str:
            text = escape(str(cell))
            if isinstance(cell, str):
                return text
            text = f"*{text}*" if cell.mark == "published" and text else text
            return text + " ▽" * (cell.mark == "beaten") + (f" ({escape(cell.detail)})" if cell.detail else "")

        rule = "".join("--:|" if side == "r" else "---|" for side in self.align)
        head, *rows = (f"| {' | '.join(map(write, row))} |" for row in (self.head, *self.rows))
        return "\n".join([head, f"|{rule}", *rows])

    def as_latex(self) -> str:
        """Write the table for the package booktabs."""
        head, *rows = (" & ".join(map(_escape_latex, line)) + r" \\" for line in self._lines)
        lines = [rf"\begin{{tabular}}{{{self.align}}}", r"\toprule", head, r"\midrule", *rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def as_csv(self) -> str:
        """Write the table with commas between cells. Cells are quoted where necessary.

        Formulas are disabled, see ``without_formula``.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(map(without_formula, line) for line in self._lines)
        return text.getvalue()

    def as_tsv(self) -> str:
        """Write the table with tabs between cells. Control characters in cells are escaped.

        Formulas are disabled, see ``without_formula``.
        """
        return "".join("\t".join(printable(without_formula(cell)) for cell in line) + "\n" for line in self._lines)


def starts_formula(text: str) -> bool:
    """Return whether a spreadsheet program may run the text of a cell as a formula.

    Some programs ignore white space and invisible characters before the sign, or accept the full-width form of the
    sign.
    """
    visible = (letter for letter in unicodedata.normalize("NFKC", text) if not letter.isspace())
    first = next((letter for letter in visible if unicodedata.category(letter)[0] != "C"), "")
    return first in set(_FORMULA_STARTS) or text.startswith(("\t", "\r"))


def without_formula(text: str) -> str:
    """Return the text of a cell for a spreadsheet.

    If a spreadsheet program might run the text as a formula, a quotation mark is put in front. Numbers are not changed.
    """
    return f"'{text}" if starts_formula(text) and not _NUMBER.fullmatch(text) else text


def display_width(text: str) -> int:
    """Return the width of a text in terminal columns. Chinese characters occupy two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_SIGNS.get(sign, sign) for sign in printable(text))
