"""Read tables of sentence pairs in any common format, also gzipped: delimited text, JSON or Parquet.

    table = open_pairs(preparation, [path], columns="text,rewritten")
    table.survey()
    for source, target in table.pairs():
        ...

The format is detected from the content. Every row is either used, or dropped and counted by the reason. Rows keep the
order of the file. Memory is independent of the file size, except for about 25 bytes per row.
"""

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from corpus.headers import (
    Key,
    find_columns,
    index_of,
    is_header,
    is_number,
    is_reversed,
    listing,
    mostly,
    one_spaced,
    ordered_keys,
    parse_names,
)
from corpus.json_values import is_json, leaves_of, value_at
from corpus.messages import say
from corpus.plain import check_sides
from corpus.preparation import Preparation
from corpus.reading import read_beginning
from corpus.sources import open_source
from wean_fairseq.errors import UserError

_SAMPLE_ROWS = 200
_SHOWN = 60  # maximum number of characters of a printed sentence
_MOST_NAMES = 10_000  # maximum number of columns in JSON

Texts = tuple[str, ...]


class Pairs(ABC):
    """Sentence pairs from one or two files.

    Attributes:
        name: name of the file, for messages.
        rows: number of rows. It is known only after ``survey``.
        left_out: number of dropped rows by reason.
        first: for each reason, the line and details of the first dropped row.
        notes: sentences about assumptions.
        references: number of targets of each source.
    """

    references = 1

    def __init__(self, preparation: Preparation, name: str) -> None:
        self.preparation = preparation
        self.name = name
        self.rows = 0
        self.left_out: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.notes: list[str] = []
        self._unique = np.zeros(0, dtype=bool)

    @abstractmethod
    def items(self, *, count: bool) -> Iterator[tuple[int, Texts | None, str]]:
        """Yield, for every row, its line number, its texts, and the reason for dropping it, if any.

        Args:
            count: whether to count the characters that are corrected while reading.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describe the format in words."""

    def survey(self, *, keep_duplicates: bool = False) -> None:
        """Read the whole file, and print its format, one pair, and the numbers of rows.

        Args:
            keep_duplicates: keep exact duplicates.

        Raises:
            UserError: if there is no usable pair.
        """
        self._say(self.describe())
        digests, same, breaks, example = array("Q"), 0, 0, None
        for line, texts, reason in self.items(count=True):
            self.rows += 1
            if texts is None or not (texts[0].strip() and texts[1].strip()):
                self._leave_out(reason or "with an empty side", line)
                continue
            example = example or texts
            same += texts[0] == texts[1]
            breaks += any("\n" in text.strip() or "\r" in text.strip() for text in texts)
            digest = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
            digests.append(int.from_bytes(digest, "big"))
        if example is None:
            raise UserError(f"{self.name} has no usable pair{self.reasons() or ': it has no rows'}.")
        if same == len(digests) > 1:
            raise UserError(
                f"{self.name} has the same text on both sides of all {same:,} pairs: "
                "choose two columns or files with different text."
            )
        self._unique = np.zeros(len(digests), dtype=bool)
        self._unique[np.unique(np.frombuffer(digests, dtype=np.uint64), return_index=True)[1]] = True
        again = len(digests) - int(self._unique.sum())
        if keep_duplicates:
            self._unique[:] = True
        shown = " -> ".join(f'"{_shorten(text)}"' for text in example)
        self._say(f"rows: {self.rows:,}; first pair: {shown}")
        if again and not keep_duplicates:
            self.left_out["exact duplicates"] += again
        if self.left_out:
            self._say(f"left out{self.reasons()}")
        if again and keep_duplicates:
            self.notes.append(f"{again:,} exact duplicates are kept")
        if same:
            self.notes.append(f"{same:,} pairs have the same text on both sides")
        if breaks:
            self.notes.append(f"{breaks:,} rows have line breaks in their text, which become spaces")
        for note in self.notes:
            self._say(note)
        counts = Counter({reason.replace(" ", "_"): number for reason, number in self.left_out.items()})
        self.preparation.left_out.update(counts)

    def pairs(self) -> Iterator[Texts]:
        """Yield each pair, followed by the texts of further columns. Call ``survey`` first."""
        keep = iter(self._unique)
        for _, texts, _ in self.items(count=False):
            if texts is not None and texts[0].strip() and texts[1].strip() and next(keep):
                yield texts

    def __len__(self) -> int:
        return int(self._unique.sum())

    def _leave_out(self, reason: str, line: int) -> None:
        """Count a dropped row by its reason. Text after ": " in a reason describes the first row with this reason."""
        reason, _, detail = reason.partition(": ")
        self.left_out[reason] += 1
        self.first.setdefault(reason, f"line {line}" + (f", {detail}" if detail else ""))

    def reasons(self) -> str:
        """Return the counts of dropped rows, after a colon, or an empty text if there are none."""
        shown = [
            f"{number:,} {reason}" + (f" (first: {self.first[reason]})" if reason in self.first else "")
            for reason, number in self.left_out.items()
        ]
        return f": {'; '.join(shown)}" if shown else ""

    def _say(self, text: str) -> None:
        say(self.preparation.output.head["script"], f"{self.name}: {text}")


class AlignedFiles(Pairs):
    """Two text files with one sentence per line."""

    def __init__(self, preparation: Preparation, paths: Sequence[Path]) -> None:
        super().__init__(preparation, " / ".join(map(str, paths)))
        self.paths = paths
        for path in paths:
            beginning = read_beginning(path)
            if beginning.startswith(b"PAR1") or is_json(path, beginning.decode("utf-8", "replace").lstrip("\ufeff")):
                raise UserError(f"{path} is a table, and holds both sides alone: give --data that file only.")

    def describe(self) -> str:
        """Describe the format in words."""
        return "two text files, aligned line by line"

    def items(self, *, count: bool) -> Iterator[tuple[int, Texts | None, str]]:
        """Yield the pairs of lines."""
        for number, (_, sides) in enumerate(self.preparation.aligned_lines(self.paths, count=count), start=1):
            if number == 1 and all("\t" in side for side in sides):
                raise UserError(f"{self.paths[0]} and {self.paths[1]} are tables: give --data only one of them.")
            yield number, tuple(sides), ""


class PairTable(Pairs):
    """A file that contains both sides of all pairs.

    Args:
        preparation: state of this run of the script, which reads and counts lines.
        path: path of the file.
        columns: names or numbers of the columns for source, target and further references. They may be omitted if there
            are only two columns.
        header: ``yes`` or ``no``. By default, it is guessed.
        partly: whether the table may lack columns of further references.
        first: another table of this run. Without ``columns``, the columns have the same names as in this table.
        advice: last sentence of error messages about columns.

    Attributes:
        names: names of all columns by their keys.
        keys: keys of the columns that are read.
        header: the cells of the header. It is empty if there is no header.
        lacks: names of the further references that the table lacks.

    Raises:
        UserError: if the format or the columns are ambiguous.
    """

    def __init__(
        self,
        preparation: Preparation,
        path: Path,
        *,
        columns: Sequence[str] = (),
        header: str | None = None,
        partly: bool = False,
        first: "PairTable | None" = None,
        advice: str = "Name two of them with --columns A,B (one with a comma in double quotes), or number them from 1.",
    ) -> None:
        super().__init__(preparation, str(path))
        self.source = open_source(preparation, path)
        rows = list(islice(self.source.values(count=False), _SAMPLE_ROWS))
        sample = [row.value for row in rows if not row.problem]
        if not sample:
            reason = next((f" of text: line {row.line} is {row.problem}" for row in rows), "")
            raise UserError(f"{path} has no rows{reason}.")
        self.advice = advice
        self.partly = partly
        self.first_table = first
        self.lacks: list[str] = []
        names = first.chosen if first else []
        self.expected = names[:2] if all(names[:2]) and len({*names[:2]}) == 2 else []
        self.positional = isinstance(sample[0], list)
        self.header: list[str] = []
        self.remark = ""
        if self.positional:
            self._read_header(
                [[_as_text(cell) or "" for cell in row] for row in sample], columns or self.expected, header
            )
            sample = sample[bool(self.header) :]
        elif header:
            self.remark = f"; --header {header} changes nothing, as objects have names"
        self.names: dict[Key, str] = self._name_columns(sample)
        self.keys = self._choose(sample, columns)
        self.references = len(self.keys) - 1
        self._check_order()

    @property
    def chosen(self) -> list[str]:
        """Names of the columns that are read. A name is empty if there is no header."""
        return [self.names[key] for key in self.keys]

    def describe(self) -> str:
        """Describe format, header and columns in words."""
        roles = ("source", "target", *(f"reference {number}" for number in range(2, len(self.keys))))
        places = {key: number for number, key in enumerate(self.names, start=1)}
        shown = ", ".join(
            f"{role} = column {places[key]} {self.names[key]}".rstrip()
            for role, key in zip(roles, self.keys, strict=True)
        )
        return f"{self.source.kind}{self.remark}; {shown}"

    def items(self, *, count: bool) -> Iterator[tuple[int, Texts | None, str]]:
        """Yield the rows without the header.

        Raises:
            UserError: if a later row is another header, because then the columns change.
        """
        first = bool(self.header)
        names = {*self.chosen} if self.header else set()
        for line, value, problem in self.source.values(count=count):
            if problem:
                yield line, None, f"malformed: {problem}"
            elif self.positional != isinstance(value, list):
                yield line, None, "malformed: an object among lists" if self.positional else "malformed: a list"
            elif self.positional and self.header and [_as_text(cell) for cell in value] == self.header:
                if not first:
                    yield line, None, "repeating the header"
                first = False
            elif len(names) > 1 and isinstance(value, list) and names <= {one_spaced(_as_text(x) or "") for x in value}:
                raise UserError(
                    f"line {line} of {self.name} is another header, so the columns change: write each table to its "
                    "own file."
                )
            else:
                texts = [_as_text(self._cell(value, key)) for key in self.keys]
                if None in texts:
                    name = self.names[self.keys[texts.index(None)]] or "a cell"
                    yield line, None, f"malformed: {name} is not text"
                else:
                    yield line, tuple(text or "" for text in texts), ""

    def survey(self, *, keep_duplicates: bool = False) -> None:
        """Survey the rows. Add the problems of delimited text to the notes."""
        self.notes += self.source.notes
        with _with_hints(self.preparation, Path(self.name)):
            super().survey(keep_duplicates=keep_duplicates)

    def facts(self) -> dict[str, Any]:
        """Return the format, header, columns and rows for the manifest."""
        columns = [self.names[key] or key for key in self.keys]
        return {"format": self.source.kind, "header": bool(self.header), "columns": columns, "rows": self.rows}

    def _cell(self, value: Any, key: Key) -> Any:
        if not self.positional:
            return value_at(value, str(key))
        return value[key] if isinstance(value, list) and int(key) < len(value) else None

    def _read_header(self, rows: list[list[str]], columns: Sequence[str], header: str | None) -> None:
        """Decide whether the first row is a header, from the option, the requested columns, or its content."""
        names = [one_spaced(cell) for cell in rows[0]]
        columns = columns[:2] if self.partly else columns
        named = bool(columns) and all(one_spaced(name) in names for name in columns if not name.isdecimal())
        named = named and any(one_spaced(name) in names and not name.isdecimal() for name in columns)
        has_header = header == "yes" or (header is None and (named or is_header(rows[0], rows[1:])))
        if header:
            self.remark = f"; header: {header}, as --header says"
        elif named:
            self.remark = "; header: yes, it has the names of the columns"
        else:
            answers = ("yes", "no") if has_header else ("no", "yes")
            self.remark = f"; header: {answers[0]}, guessed from its content (--header {answers[1]} overrides)"
        self.header = rows[0] if has_header else []

    def _name_columns(self, sample: Sequence[Any]) -> dict[Key, str]:
        if self.positional:
            width = max([len(self.header), *(len(row) for row in sample if isinstance(row, list))])
            names = [one_spaced(name) for name in self.header] + [""] * width
            return dict(enumerate(names[:width]))
        names: dict[Key, str] = {}
        for path, _ in (part for value in sample for part in leaves_of(value) if part[0]):
            names[path] = path
            if len(names) > _MOST_NAMES:  # looking up too many names in each sampled row would take long
                raise UserError(f"{self.name} has more than {_MOST_NAMES:,} names: give a table with fewer columns.")
        return names

    def _choose(self, sample: Sequence[Any], columns: Sequence[str]) -> list[Key]:
        """Return the keys of the requested columns. Without a request, return the keys of the only two columns."""
        cells = {key: [_as_text(self._cell(row, key)) or "" for row in sample] for key in self.names}
        if columns:
            if self.partly:
                known = {*self.names.values()}
                has = {
                    name: one_spaced(name) in known or index_of(name, len(self.names)) is not None for name in columns
                }
                self.lacks = [name for name in columns[2:] if not has[name]]
                columns = [name for name in columns if name not in self.lacks]
            keys = find_columns(self.names, columns, self.name, self.advice)
        elif self.expected and any(self.names.values()):
            keys = self._as_in_first()
        else:
            keys = [key for key, name in self.names.items() if name or not self.header]
            if len(keys) > 2 and sample:
                keys = [key for key in keys if any(cells[key])]
            if not self.positional:  # a number in a JSON object is not text
                keys = [key for key in keys if any(isinstance(self._cell(row, key), str) for row in sample)]
            if len(keys) != 2:
                problem = "does not tell which columns are the sentences" if keys else "has no columns of text"
                raise UserError(f"{self.name} {problem}. {listing(self.names, self.advice)}")
            if is_reversed([self.names[key] for key in keys]):
                problem = "has the target before the source, by the names of its columns"
                raise UserError(f"{self.name} {problem}. {listing(self.names, self.advice)}")
        for key in keys:
            if mostly(is_number(cell) for cell in cells[key] if cell.strip()):
                name = self.names[key] or f"number {int(key) + 1}"
                if not columns:
                    problem = f"has numbers instead of sentences in its column {name}"
                    raise UserError(f"{self.name} {problem}. {listing(self.names, self.advice)}")
                self.notes.append(f"column {name} has numbers")
        return keys

    def _as_in_first(self) -> list[Key]:
        """Return the keys of the columns whose names are those of the first table, or mean source and target."""
        expected = [name.lower() for name in self.expected]
        keys = [key for wanted in expected for key, name in self.names.items() if name.lower() == wanted]
        if [self.names[key].lower() for key in keys] == expected:
            return keys
        keys = ordered_keys(self.names)
        if len(keys) == len(self.names) == 2:
            return keys
        assert self.first_table is not None, "names are expected only after a first table"
        wanted = f"the columns {' and '.join(self.expected)} of {self.first_table.name}"
        advice = "Give all tables the same names, or number the columns with --columns 1,2."
        raise UserError(f"{self.name} does not have {wanted} once each. {listing(self.names, advice)}")

    def _check_order(self) -> None:
        """Refuse columns whose names say that source and target are exchanged."""
        first = self.first_table
        if first is None:
            return
        (source, target), (first_source, first_target) = self.chosen[:2], first.chosen[:2]
        if (source and source == first_target) or (target and target == first_source):
            raise UserError(
                f"{self.name} has the columns {source} and {target} where {first.name} has {first_source} and "
                f"{first_target}: choose the columns by their names with --columns A,B."
            )
        if any(self.names.values()) != any(first.names.values()):
            self.notes.append(
                f"warning: columns are read by their order, as only this table or {first.name} names them"
            )


def open_pairs(
    preparation: Preparation,
    paths: Sequence[Path],
    *,
    columns: str | None = None,
    header: str | None = None,
    partly: bool = False,
    first: Pairs | None = None,
) -> Pairs:
    """Open one table or two aligned text files. See ``PairTable``.

    Raises:
        UserError: if the files cannot be read, or the columns are ambiguous.
    """
    if len(paths) == 2:
        if isinstance(first, AlignedFiles):
            check_sides(first.paths, paths)
        return AlignedFiles(preparation, paths)
    with _with_hints(preparation, paths[0]):
        return PairTable(
            preparation,
            paths[0],
            columns=parse_names(columns) if columns else (),
            header=header,
            partly=partly,
            first=first if isinstance(first, PairTable) else None,
        )


@contextmanager
def _with_hints(preparation: Preparation, path: Path) -> Iterator[None]:
    """Add to errors that another delimiter than the chosen one is likely. Those errors may come from the wrong one."""
    try:
        yield
    except UserError as error:
        hints = "".join(f" {hint[0].upper()}{hint[1:]}." for hint in preparation.hints.get(path, ()))
        raise UserError(f"{error}{hints}") from error


def _as_text(value: Any) -> str | None:
    """Return a cell as text. Null becomes an empty text, and a number becomes its digits.

    Return ``None`` for objects and lists.
    """
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else None


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
