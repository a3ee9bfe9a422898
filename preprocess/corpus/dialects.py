"""Delimited text: choose the dialect of a table from its content, and read its rows with Python's ``csv`` module.

``csv.reader`` reads a given dialect. It neither detects the dialect nor recovers from an unclosed quotation mark. This
module adds both. Every row becomes either cells or a problem, so that no row is lost without being counted.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from corpus.headers import is_known_name
from corpus.reading import Row

DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars", "|||": "|||", "^": "carets"}
DELIMITERS |= {"~": "tildes", "\x01": "the characters \\x01 of Hive"}
_MOST, _MANY = 0.9, 0.5  # shares of the lines: a delimiter with _MOST has a rank, one with _MANY may be named in a note
_CERTAIN, _QUOTED, _NEEDED = 5, 4, 2  # ranks of delimiters
OPEN_MARK, LONE_MARK = "a quotation mark stays open", "a quotation mark closes nothing"
# Excel writes and reads such a first line
_SEPARATOR_LINE = re.compile(r'"?sep=(\|\|\||\t|[^\w\s"\\])"?', re.IGNORECASE)
# maximum size of a row, which limits the effect of an unclosed quotation mark
_MOST_LINES, _MOST_CHARACTERS = 1000, 1 << 26
# Lines after an unclosed quotation mark are read again. After this work, later rows may continue on a few lines only.
# Work is counted in characters, and each line counts as a number of characters more.
_MOST_WORK, _WORK_PER_LINE, _FEW_LINES = 1 << 27, 50, 10
_MOST_CELLS = 1000  # number of cells in a row whose marks are counted. Each cell is looked up in the whole row.
# While ``csv`` reads, this number is added to an escaped character. The result is a lone surrogate, which cannot occur
# in UTF-8 text.
_HIDDEN = 0xDC00
_LETTERS = {"n": "\n", "t": "\t", "0": ""}
_ESCAPE = re.compile(r"""\\([\\"'\t,;|])""")
_ESCAPE_OR_LETTER = re.compile(r"""\\([\\"'\t,;|nt0])""")
_ANY_ESCAPE, _ESCAPED = re.compile(r"\\(.?)"), frozenset(["", *"\\\"'\t,;|nt0rbZN"])
_WINDOWS = re.compile(r":\\(?!\\)")  # in a Windows path, unless the backslash is escaped
_SURROGATE = re.compile(f"[{chr(_HIDDEN)}-{chr(_HIDDEN + 127)}]")
csv.field_size_limit(_MOST_CHARACTERS)


@dataclass(frozen=True)
class Dialect:
    """Format of a table.

    Attributes:
        delimiter: text between two cells.
        quote: quotation mark around cells. Empty if quotation marks are part of the text.
        escapes: True if a backslash escapes the next character.
        spaced: True if a space follows the delimiters.
        width: number of cells in a row. 0 = not known yet.
        skip: number of lines before the table (a ``sep=;`` line).
    """

    delimiter: str
    quote: str = ""
    escapes: bool = False
    spaced: bool = False
    width: int = 0
    skip: int = 0

    def describe(self) -> str:
        """Return a description such as ``commas between cells, quoted by ", backslash escapes``."""
        quoted = f"cells quoted by {self.quote} where needed" if self.quote else "quotation marks are text"
        escapes = ", backslash escapes" if self.escapes else ""
        return f"{DELIMITERS.get(self.delimiter, self.delimiter)} between cells, {quoted}{escapes}"


@dataclass
class Evidence:
    """Counts that speak for or against a dialect.

    Attributes:
        rows: number of rows without a problem.
        bad: number of rows with a problem. ``first_bad`` is the first.
        quoted: number of cells that are enclosed in quotation marks.
        needed: number of quoted cells that need their marks, because they contain a delimiter, a line break or a mark.
        stray: number of quotation marks that do not enclose a cell. ``first_stray`` is the line of the first of them,
            and ``kept_stray`` the line of the first one in a row without a problem.
        other_escapes: number of backslashes in Windows paths, and before characters that no program escapes.
        lines: number of lines of the file that belong to rows without a problem.
        marks: True if the dialect treats quotation marks or backslashes of the table as text.
        widths: number of rows by number of cells.
    """

    rows: int = 0
    bad: int = 0
    first_bad: Row | None = None
    quoted: int = 0
    needed: int = 0
    stray: int = 0
    first_stray: int = 0
    kept_stray: int = 0
    other_escapes: int = 0
    lines: int = 0
    marks: bool = False
    widths: Counter[int] = field(default_factory=Counter)

    def note_bad(self, row: Row) -> None:
        """Count a row that has a problem."""
        self.bad += 1
        self.first_bad = self.first_bad or row

    def note_stray(self, line: int, *, kept: bool = False) -> None:
        """Count a quotation mark that does not enclose a whole cell.

        If ``kept`` is set, the row is used, and the mark is part of its text.
        """
        self.stray += 1
        self.first_stray = self.first_stray or line
        self.kept_stray = self.kept_stray or line * kept


class _Lines:
    """Numbered lines that can be pushed back."""

    def __init__(self, lines: Iterable[str], dialect: Dialect) -> None:
        self._lines = iter(lines)
        self._returned: deque[str] = deque()
        self._dialect = dialect
        self.number = 0
        self.read_again = 0  # work of reading lines again that were pushed back, in characters

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number += 1
        if self._returned:
            return self._returned.popleft()
        line = next(self._lines)
        return self._protect(line) if "\r" in line or ("\\" in line and self._dialect.escapes) else line

    def give_back(self, lines: Sequence[str]) -> None:
        """Push lines back. They will be read again."""
        self._returned.extendleft(reversed(lines))
        self.number -= len(lines)
        self.read_again += sum(map(len, lines)) + _WORK_PER_LINE * len(lines)

    def _protect(self, line: str) -> str:
        """Replace the characters that ``csv`` would misread: carriage returns and escaped characters.

        An escaped line break joins the line and the next one.
        """
        # Tables of MySQL and PostgreSQL also have escaped letters.
        letters = self._dialect.delimiter == "\t" and not self._dialect.quote
        pattern = _ESCAPE_OR_LETTER if letters else _ESCAPE
        joined: list[str] = []
        following: str | None = line
        while following is not None:
            line = following.replace("\r", _hide("\r"))  # ``csv`` rejects carriage returns
            following = None
            if self._dialect.escapes and "\\" in line:
                line = pattern.sub(lambda found: _hide(_LETTERS.get(found[1], found[1])), line)
                if line.endswith("\\") and (following := next(self._lines, None)) is not None:
                    self.number += 1
                    line = line[:-1] + _hide("\n")
            joined.append(line)
        return "".join(joined)


def read_rows(lines: Iterable[str], dialect: Dialect, evidence: Evidence | None = None) -> Iterator[Row]:
    """Yield all rows of a table, including those with a problem. Empty lines between rows are skipped.

    Args:
        lines: lines of the file, without their line endings.
        dialect: dialect of the table. If it has a width, rows of other widths have a problem.
        evidence: receives the counts.
    """
    source = _Lines(lines, dialect)
    evidence = Evidence() if evidence is None else evidence
    for line in source:
        start = source.number
        if start <= dialect.skip or not line or line.isspace():
            evidence.lines += 1
            continue
        if dialect.quote and dialect.quote in line:
            row = _quoted_row(line, source, dialect, evidence)
        else:
            row = Row(start, line.split(dialect.delimiter))
            if "\\" in line:
                evidence.other_escapes += sum(escaped not in _ESCAPED for escaped in _ANY_ESCAPE.findall(line))
                evidence.other_escapes += len(_WINDOWS.findall(line))
                evidence.marks = True
            evidence.marks = evidence.marks or '"' in line
        if not row.problem and dialect.width and len(row.value) != dialect.width:
            number = "1 cell" if len(row.value) == 1 else f"{len(row.value)} cells"
            row = Row(start, row.value, f"{number} instead of {dialect.width}")
        if dialect.delimiter == "|" and not set(line) - set("|-: "):
            row = Row(start, row.value, "a line of dashes")
        if row.problem:
            evidence.note_bad(row)
        else:
            evidence.rows += 1
            evidence.lines += source.number - start + 1
            evidence.widths[len(row.value)] += 1
        if dialect.escapes or not line.isascii() or start != source.number:
            row = row._replace(value=[_show(cell, dialect) for cell in row.value])
        yield row


def _show(cell: str, dialect: Dialect) -> str:
    """Return a cell in which the characters hidden from ``csv`` are restored."""
    if dialect.escapes and cell == "\\N":  # MySQL and PostgreSQL write null as \N
        return ""
    return cell if cell.isascii() else _SURROGATE.sub(lambda found: chr(ord(found[0]) - _HIDDEN), cell)


def _hide(character: str) -> str:
    """Return the surrogate that hides a character from ``csv``, or an empty string for an empty string."""
    return character and chr(ord(character) + _HIDDEN)


def _quoted_row(first: str, source: _Lines, dialect: Dialect, evidence: Evidence) -> Row:
    """Read the row that starts with a line that contains quotation marks. The row may continue on further lines."""
    start, taken = source.number, [first]
    most_lines = _MOST_LINES if source.read_again < _MOST_WORK else _FEW_LINES

    def supply() -> Iterator[str]:
        yield first + "\n"
        size = 0
        for line in source:
            taken.append(line)
            size += len(line)
            if len(taken) > most_lines or size > _MOST_CHARACTERS:
                return
            yield line + "\n"

    reader = csv.reader(
        supply(), delimiter=dialect.delimiter, quotechar=dialect.quote, skipinitialspace=True, strict=True
    )
    try:
        cells = next(reader)
    except csv.Error as error:
        source.give_back(taken[1:])
        evidence.note_stray(start)
        is_open = len(taken) > 1 or str(error) == "unexpected end of data"
        return Row(start, [], OPEN_MARK if is_open else "text follows a closing quotation mark")
    if len(taken) > 1 and _swallows_rows(taken, dialect):
        source.give_back(taken[1:])
        evidence.note_stray(start)
        return Row(start, [], OPEN_MARK)
    problem = ""
    text = "\n".join(taken)
    for cell in cells[:_MOST_CELLS]:
        if cell and dialect.quote + cell.replace(dialect.quote, dialect.quote * 2) + dialect.quote in text:
            evidence.quoted += 1
            evidence.needed += any(mark in cell for mark in (dialect.delimiter, dialect.quote, "\n"))
        elif dialect.quote in cell:
            alone = cell.count(dialect.quote) % 2 == 1 and cell.rstrip().endswith(dialect.quote)
            problem = LONE_MARK if alone else problem
            evidence.note_stray(start, kept=not alone)
    return Row(start, cells, problem)


def _swallows_rows(lines: Sequence[str], dialect: Dialect) -> bool:
    """Return True if the lines of one row look like separate rows, so that a quotation mark was probably not closed.

    A sentence over several lines may contain delimiters, too. In a sentence, a comma or a semicolon is followed by a
    space or the end of the line, unlike a delimiter between cells. In a valid row, either the first or the last line
    has real delimiters. If the first or the last line has another quoted cell, the cells of this file are quoted on
    purpose.
    """
    if not dialect.width:
        return False
    is_tab = dialect.delimiter == "\t"
    between = dialect.quote + dialect.delimiter + " " * dialect.spaced + dialect.quote
    if not is_tab and (between in lines[0] or between in lines[-1]):
        return False
    likely = 0
    for line in lines:
        number = line.count(dialect.delimiter)
        if not dialect.spaced:
            number -= line.count(dialect.delimiter + " ") + (not is_tab and line.endswith(dialect.delimiter))
        likely += number == dialect.width - 1
    return likely >= 2 and 2 * likely > len(lines)


class _Choice(NamedTuple):
    """A delimiter, with the values by which delimiters are compared, the most important first.

    Attributes:
        rank: priority by other signs than ``share``, see ``_rank``.
        share: share of the lines that belong to rows of the same width.
        tight: share of the occurrences that are neither followed by a space, like punctuation, nor ``inside``.
            Punctuation counts half.
        inside: share of the occurrences between two digits, like a decimal point, or in the ``/~`` of an address.
    """

    rank: int
    share: float
    tight: float
    inside: float
    dialect: Dialect
    evidence: Evidence

    @property
    def note(self) -> str:
        """The sentence that this could be the delimiter of the table."""
        mark, evidence = self.dialect.delimiter, self.evidence
        line = {"\t": '"sep=" and a tab', "\x01": '"sep=" and the byte 1'}.get(mark, f'"sep={mark}"')
        fit = 100 * evidence.rows // (evidence.rows + evidence.bad)
        return (
            f"{DELIMITERS[mark]} could also be between the cells ({fit}% of the first rows fit): to choose them, put a "
            f"line with {line} before the table"
        )


def choose_dialect(sample: Sequence[str]) -> tuple[Dialect | None, list[str]]:
    """Choose delimiter, quotation marks and width from the first lines.

    The delimiters that fit at least 90 % of the lines are compared by ``_rank`` first. Otherwise, the delimiter is
    chosen that makes most lines belong to rows of the same width. If two are equal in this, the one is chosen that is
    less often used as punctuation or as a decimal point.

    Returns:
        The dialect, or ``None`` if there is no delimiter, and a note about each other delimiter that is likely.
    """
    separator = _SEPARATOR_LINE.fullmatch(sample[0].strip(" ") if sample else "")
    if separator:
        dialect = _measure(sample, separator[1], skip=1).dialect
        return (dialect if dialect.width > 1 else None), []
    lines = [line for line in sample if line.strip()]
    counts = {mark: sum(line.count(mark) for line in lines) for mark in DELIMITERS}
    counts["|"] -= 3 * counts["|||"]
    if counts["|"] < counts["|||"]:
        counts["|"] = 0
    marks = [mark for mark, number in counts.items() if number]
    choices = [choice for choice in (_measure(sample, mark) for mark in marks) if choice.dialect.width > 1]
    if not choices:
        return None, []
    choices = [
        choice._replace(rank=_rank(choice, lines, marks)) if choice.share >= _MOST else choice for choice in choices
    ]
    best = max(choices, key=itemgetter(slice(3)))
    if best.rank == 0 and best.dialect.spaced:  # a title and all sentences may have a comma, while the title has no tab
        tabs = (choice for choice in choices if choice.dialect.delimiter == "\t" and choice.share >= _MOST)
        best = next((choice for choice in tabs if not _splits_quotes(lines, "\t")), best)
    has_names = _separates_names(lines[0], best.dialect, marks)
    return best.dialect, [choice.note for choice in choices if _is_likely(choice, best, has_names=has_names)]


def _is_likely(choice: _Choice, best: _Choice, *, has_names: bool) -> bool:
    """Return True if another delimiter than the best could be between the cells.

    Decimal points and parts of addresses are not, and beside good signs for the best delimiter, punctuation is not,
    either. If the best delimiter separates quotation marks or names in the first line, only one with good signs is.
    """
    if choice.dialect.delimiter == best.dialect.delimiter or choice.inside > 0.5:
        return False
    if best.rank == _QUOTED or has_names:
        return choice.rank >= _NEEDED
    rows = choice.evidence.rows
    fit = rows / max(rows + choice.evidence.bad, 1)
    if best.rank >= _NEEDED:
        return fit >= (_MOST if best.rank == _CERTAIN else _MANY) and choice.tight > 0.75
    return fit >= _MANY


def _measure(sample: Sequence[str], delimiter: str, skip: int = 0) -> _Choice:
    """Measure how well a delimiter fits the lines."""
    lines = sample[skip:]
    number = max(sum(line.count(delimiter) for line in lines), 1)
    spaces = sum(line.count(delimiter + " ") for line in lines)
    closing = sum(line.count(delimiter + '" ') for line in lines)  # as in "Well," she said
    pattern = rf"\d{re.escape(delimiter)}(?=\d)" + "|/~" * (delimiter == "~")
    inside = sum(len(re.findall(pattern, line)) for line in lines if delimiter in line)
    spaced = delimiter != "\t" and 10 * spaces > 9 * number
    dialect, evidence = _choose_quotes(sample, Dialect(delimiter, spaced=spaced, skip=skip))
    share = round(evidence.lines / max(len(sample), 1), 3)
    tight = 1.0 if delimiter == "\t" else 1 - ((spaces + closing) / 2 + inside) / number
    return _Choice(0, share, tight, inside / number, dialect, evidence)


def _rank(choice: _Choice, lines: Sequence[str], delimiters: Sequence[str]) -> int:
    """Return the priority of a delimiter that fits 90 % of the lines.

    * 5: tabs or "|||", equally often on every line, and not inside quotation marks
    * 4: nearly all cells are between quotation marks
    * 3: tabs, as often on the first line as on most lines, and not inside quotation marks
    * 2: at least 5 % of the rows have a quoted cell that contains the delimiter, or the first line has known names
    * 1: "|||", as often on the first line as on most lines, and not inside quotation marks
    * 0: others
    """
    dialect, evidence = choice.dialect, choice.evidence
    is_safe = dialect.delimiter in ("\t", "|||") and not _splits_quotes(lines, dialect.delimiter)
    if is_safe and len({line.count(dialect.delimiter) for line in lines}) == 1:
        return _CERTAIN
    is_quoted = evidence.quoted >= max(10 * evidence.stray, 1)
    if is_quoted and evidence.quoted >= 0.9 * dialect.width * evidence.rows:
        return _QUOTED
    fits_first = is_safe and lines[0].count(dialect.delimiter) == dialect.width - 1
    if fits_first and dialect.delimiter == "\t":
        return _NEEDED + 1
    # Commas with spaces after them are also in sentences that begin with a quotation: "Well, I think so", he said.
    is_needed = is_quoted and not dialect.spaced and 20 * evidence.needed >= evidence.rows
    if is_needed or _separates_names(lines[0], dialect, delimiters):
        return _NEEDED
    return int(fits_first)


def _splits_quotes(lines: Sequence[str], delimiter: str) -> bool:
    """Return True if a delimiter is inside quotation marks on at least a tenth of the lines, and on most with marks."""
    numbers = [[cell.count('"') for cell in line.split(delimiter)] for line in lines]
    closed = [counts for counts in numbers if sum(counts) and sum(counts) % 2 == 0]
    inside = sum(any(count % 2 for count in counts) for counts in closed)
    return 2 * inside > len(closed) and 10 * inside >= len(lines)


def _separates_names(first: str, dialect: Dialect, delimiters: Sequence[str]) -> bool:
    """Return True if the first line is a header in this dialect, with a short known name without delimiter per cell."""
    cells = [cell for row in read_rows([first], dialect) for cell in row.value]
    return len(cells) == dialect.width and all(
        is_known_name(cell) and len(cell.split()) <= 2 and not any(mark in cell for mark in delimiters)
        for cell in cells
    )


def _choose_quotes(sample: Sequence[str], dialect: Dialect) -> tuple[Dialect, Evidence]:
    """Choose quotation marks and width for the sample. Return the dialect, and the counts for it."""
    variants = []
    for candidate in candidates(dialect, "".join(sample)):
        evidence = Evidence()
        for _ in read_rows(sample, candidate, evidence):
            pass
        width = max(evidence.widths, key=lambda width: (evidence.widths[width], width), default=0)
        measured = Evidence()
        for _ in read_rows(sample, replace(candidate, width=width), measured):
            pass
        variants.append((replace(candidate, width=width), measured))
    return prefer(variants)


def candidates(dialect: Dialect, text: str) -> list[Dialect]:
    """Return the variants of a dialect that are possible for the quotation marks and backslashes in a text."""
    variants = [replace(dialect, quote="", escapes=False)]
    if len(dialect.delimiter) == 1:
        variants += [replace(variants[0], quote=mark) for mark in ('"', "'") if mark in text]
    if "\\" in text:
        variants += [replace(variant, escapes=True) for variant in variants]
    return variants


def prefer(found: Sequence[tuple[Dialect, Evidence]]) -> tuple[Dialect, Evidence]:
    """Choose one of the measured variants of a dialect, of which the first treats quotation marks as text.

    Marks enclose cells if there are cells between marks and very few stray marks, or if the cells that need marks
    outnumber the stray marks. Single quotation marks are apostrophes unless nearly every cell is between them.
    Backslashes at the ends of lines are text if the lines are valid rows on their own.
    """
    plain = [(dialect, evidence) for dialect, evidence in found if not dialect.quote]
    unescaped = plain[0][1]
    is_escaped = unescaped.marks and not unescaped.other_escapes  # every backslash can be an escape character
    best = min(plain, key=lambda item: (item[1].bad, -item[1].rows, item[0].escapes != is_escaped))
    quoting = [
        (dialect, evidence)
        for dialect, evidence in found
        if dialect.quote == '"' or (dialect.quote and evidence.quoted >= 0.9 * evidence.rows * max(dialect.width, 2))
    ]
    if not quoting:
        return best
    quoted = min(quoting, key=lambda item: (item[1].bad + item[1].stray, -item[1].quoted, item[0].escapes))
    evidence = quoted[1]
    wins = evidence.quoted and (evidence.quoted >= 10 * evidence.stray or evidence.needed >= max(evidence.stray, 1))
    return quoted if wins or evidence.bad < best[1].bad else best
