"""Read the rows of a file in any table format. The format is detected from the content.

Delimited text is read by ``csv`` in the dialect that ``dialects.py`` chooses, JSON by ``json``, Parquet by DuckDB, and
tables saved by the library ``datasets`` by PyArrow.
"""

import glob
import shutil
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from corpus.dialects import OPEN_MARK, Dialect, Evidence, candidates, choose_dialect, prefer, read_rows
from corpus.json_values import JsonFile, is_json
from corpus.preparation import Preparation
from corpus.reading import Row, opened, read_beginning
from wean_fairseq.errors import UserError
from wean_fairseq.storage.files import most_unpacked
from wean_fairseq.storage.saved_tables import arrow_files

_SAMPLE_LINES, _SAMPLE_CHARACTERS = 1000, 1 << 20
# Maximum ratio between the size of the text and the size of the file. Padded numbers of a tokenizer reach a ratio of
# 75.
_PARQUET_RATIO = 100
_SAFE_PYARROW = 14, 0, 1  # older versions may run code named by a column with an extension type (CVE-2023-47248)
# Arrow's FlatBuffers number their fields: header of a message, batch of a dictionary, compression of a batch.
_HEADER, _DICTIONARY, _COMPRESSION = 2, 1, 3
_SQL = ("insert into", "create table", "drop table", "-- mysql", "-- phpmyadmin", "-- postgresql", "/*!40")
_MARKUP = ("<!doctype", "<html", "<table", "<?xml")


class Source(ABC):
    """The rows of a file as values. A value is a list of cells, or an object with names.

    Attributes:
        kind: description of the format.
        notes: sentences about assumptions.
    """

    kind = ""

    def __init__(self, preparation: Preparation, path: Path) -> None:
        self.preparation = preparation
        self.path = preparation.output.source(path)
        self.notes: list[str] = []

    @abstractmethod
    def values(self, *, count: bool) -> Iterator[Row]:
        """Yield all rows, including those with a problem."""


class _Delimited(Source):
    """Delimited text. Its dialect fits the whole file."""

    def __init__(self, preparation: Preparation, path: Path) -> None:
        super().__init__(preparation, path)
        beginning = read_beginning(path, _SAMPLE_CHARACTERS).replace(b"\r\n", b"\n")
        self.returns = beginning.count(b"\r") > beginning.count(b"\n")  # old Macs end lines in this way
        sample, size = [], 0
        for line in islice(self._lines(count=False), _SAMPLE_LINES):
            sample.append(line)
            size += len(line)
            if size > _SAMPLE_CHARACTERS:
                break
        if any(line.lstrip().lower().startswith(_SQL) for line in sample[:50]):
            raise UserError(f"{path} is an SQL dump: export the table as CSV or tab-separated text.")
        if sample and sample[0].lstrip().lower().startswith(_MARKUP):
            raise UserError(f"{path} is HTML or XML: export the table as CSV or tab-separated text.")
        dialect, others = choose_dialect(sample)
        self.notes = [f"warning: {sentence}" for sentence in others]
        preparation.hints[path] = others
        if not any(line.strip() for line in sample):
            raise UserError(f"{path} is empty.")
        if dialect is None:
            raise UserError(
                f"{path} has one column: give two text files, or a table with both sides (CSV, tab-separated text, "
                "JSON or Parquet)."
            )
        self.dialect = self._settle(dialect)
        self.kind = f"{'TSV' if self.dialect.delimiter == chr(9) else 'CSV'}, {self.dialect.describe()}"

    def values(self, *, count: bool) -> Iterator[Row]:
        """Return the rows of the text."""
        return read_rows(self._lines(count=count), self.dialect)

    def _lines(self, *, count: bool) -> Iterator[str]:
        lines = self.preparation.lines(self.path, count=count)
        return (part for line in lines for part in line.split("\r")) if self.returns else lines

    def _measure(self, dialect: Dialect) -> Evidence:
        evidence = Evidence()
        for _ in read_rows(self._lines(count=False), dialect, evidence):
            pass
        return evidence

    def _settle(self, dialect: Dialect) -> Dialect:
        """Return the dialect. Read the whole file if the sample does not show what quotes and backslashes mean."""
        evidence = self._measure(dialect)
        if evidence.marks or evidence.stray or (evidence.bad and dialect.quote):
            variants = candidates(dialect, '"\\' + dialect.quote)
            measured = [(variant, evidence if variant == dialect else self._measure(variant)) for variant in variants]
            dialect, evidence = prefer(measured)
            self.notes += _remarks(dialect, evidence, measured)
        if 2 * evidence.bad > evidence.rows and evidence.first_bad:
            raise UserError(
                f"{self.path} has {evidence.bad:,} malformed rows and {evidence.rows:,} good ones; the first malformed "
                f"row is on line {evidence.first_bad.line}: {evidence.first_bad.problem}. Put quotation marks around "
                "cells with a delimiter in them, or give two text files with one sentence per line."
            )
        return dialect


def _remarks(dialect: Dialect, evidence: Evidence, measured: Sequence[tuple[Dialect, Evidence]]) -> Iterator[str]:
    """Return a note about the first quotation mark that does not enclose a whole cell."""
    if dialect.quote:
        if evidence.kept_stray:
            yield f"line {evidence.kept_stray} has a quotation mark that does not enclose a cell; it stays in the text"
        return
    quoting = [other for variant, other in measured if variant.quote == '"' and other.first_stray]
    if quoting:
        line = min(other.first_stray for other in quoting)
        still_open = any(other.first_bad and other.first_bad.problem == OPEN_MARK for other in quoting)
        problem = "stays open" if still_open else "encloses no cell"
        yield f"all quotation marks are text, because one on line {line} {problem}"


class _Json(Source):
    """JSON lines, an array, or a single object that contains all rows."""

    def __init__(self, preparation: Preparation, path: Path) -> None:
        super().__init__(preparation, path)
        self.file = JsonFile(path, replace_bad=preparation.replace_bad)
        self.kind = self.file.layout
        beginning = list(islice(self.file.values(), 2))
        self.wrapped = len(beginning) == 1 and rows_of_object(beginning[0].value, path) is not None
        if self.wrapped:
            self.kind = "one JSON object with all rows in it"

    def values(self, *, count: bool) -> Iterator[Row]:
        """Yield objects or lists."""
        counts = self.preparation.cleaner.counts if count else None
        for row in self.file.values(counts):
            if self.wrapped:
                values = rows_of_object(row.value, self.path) or ()
                yield from (Row(number, value) for number, value in enumerate(values, start=1))
            elif row.problem or isinstance(row.value, (dict, list)):
                yield row
            else:
                yield Row(row.line, None, "neither a JSON object nor a list")


class _Parquet(Source):
    """A Parquet file, read by DuckDB in one thread, without temporary files, extensions or network."""

    kind = "Parquet"

    def values(self, *, count: bool) -> Iterator[Row]:
        """Yield objects."""
        del count  # Parquet stores text only as UTF-8
        import duckdb  # only Parquet files need duckdb

        settings = {"threads": 1, "memory_limit": "150MB", "temp_directory": "", "preserve_insertion_order": True}
        settings |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        try:
            with _unpacked_file(self.path) as path, closing(duckdb.connect(":memory:", config=settings)) as connection:
                result = connection.execute(
                    "SELECT * FROM read_parquet(?, binary_as_string = true)", [glob.escape(str(path))]
                )
                names = [column[0] for column in result.description]
                number = size = 0
                most = most_unpacked(self.path.stat().st_size, _PARQUET_RATIO)
                while block := result.fetchmany(100):
                    for row in block:
                        number += 1
                        size += len(str(row))
                        if size > most:
                            raise UserError(
                                f"{self.path} is {_PARQUET_RATIO} times larger when it is unpacked: save it as CSV."
                            )
                        yield Row(number, dict(zip(names, row, strict=True)))
        except duckdb.Error as error:
            raise UserError(f"cannot read {self.path}: {str(error).splitlines()[0]}.") from error


class _Saved(Source):
    """A table in Arrow files that the library ``datasets`` has saved."""

    kind = "saved Hugging Face data set"

    def __init__(self, preparation: Preparation, path: Path) -> None:
        self.files = [preparation.output.source(file) for file in arrow_files(path)]
        self.path = path
        self.notes = []

    def values(self, *, count: bool) -> Iterator[Row]:
        """Yield objects."""
        del count  # Arrow stores text only as UTF-8
        try:
            import pyarrow as pa  # pyarrow is optional, and only these files need it

            if tuple(map(int, pa.__version__.split(".")[:3])) < _SAFE_PYARROW:
                raise ImportError(pa.__version__)
        except ImportError as error:
            package = f"pyarrow>={'.'.join(map(str, _SAFE_PYARROW))}"
            message = f"{self.path} is read with {package}, which is not installed: run `pip install '{package}'`."
            raise UserError(message) from error
        number = 0
        for file in self.files:
            try:
                with pa.memory_map(str(file)) as content:
                    refuse_packed(file, pa.ipc.MessageReader.open_stream(content))
                    content.seek(0)
                    for batch in pa.ipc.open_stream(content):
                        batch.validate(full=True)  # PyArrow could read outside of a damaged batch
                        for row in batch.to_pylist():
                            number += 1
                            yield Row(number, row)
            except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
                raise UserError(f"cannot read {file}: {[*str(error).splitlines(), 'it is damaged'][0]}.") from error


def refuse_packed(path: Path, messages: Iterable[Any]) -> None:
    """Reject Arrow messages with packed columns, because a few bytes could expand to gigabytes.

    ``datasets`` does not pack columns.

    A message is a FlatBuffers table. PyArrow unpacks the columns before it reports that they are packed.
    """
    for message in messages:
        content = bytes(message.metadata)
        batch = _field(content, _number(content, 0, "<I"), _HEADER)
        if message.type == "dictionary":
            batch = _field(content, batch, _DICTIONARY)
        if message.type in ("dictionary", "record batch") and _offset(content, batch, _COMPRESSION):
            raise UserError(f"{path} has packed columns: save the table again with datasets.")


def _field(content: bytes, table: int, number: int) -> int:
    """Return the position of the table to which a field of another table refers."""
    place = table + _offset(content, table, number)
    return place + _number(content, place, "<I")


def _offset(content: bytes, table: int, number: int) -> int:
    """Return the distance of a field from the start of its table, or 0 if the field is missing."""
    fields = table - _number(content, table, "<i")
    entry = 4 + 2 * number
    return _number(content, fields + entry, "<H") if entry < _number(content, fields, "<H") else 0


def _number(content: bytes, place: int, form: str) -> int:
    return int(struct.unpack_from(form, content, place)[0]) if 0 <= place < len(content) else 0


@contextmanager
def _unpacked_file(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a temporary unpacked copy of a gzipped file, because Parquet needs random access."""
    with opened(path) as (file, content):
        if content is file:
            yield path
            return
        with NamedTemporaryFile(suffix=".parquet") as copy:
            shutil.copyfileobj(content, copy)
            copy.flush()
            yield Path(copy.name)


def open_source(preparation: Preparation, path: Path) -> Source:
    """Detect the format of a file by its content."""
    if path.is_dir():
        return _Saved(preparation, path)
    preparation.output.source(path)
    beginning = read_beginning(path)
    if beginning.startswith(b"PAR1"):
        return _Parquet(preparation, path)
    text = beginning.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    return (_Json if is_json(path, text) else _Delimited)(preparation, path)


def rows_of_object(value: Any, path: Path) -> Sequence[Any] | None:
    """Return the rows of an object that contains all rows: in a list, as one list per column, or by row numbers.

    The forms are ``{"data": [{...}, ...]}`` and ``{"source": [...], "target": [...]}``. Pandas also writes ``{"source":
    {"0": ...}, ...}``, ``{"0": {"source": ..., ...}, ...}`` and ``{"columns": [...], "data": [[...], ...]}``.

    Raises:
        UserError: if the rows are in several lists, such as one list for each split, or if columns have different row
            numbers.
    """
    if not isinstance(value, dict):
        return None
    names, cells = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(cells, list) and all(isinstance(row, list) for row in cells):
        return [names, *cells]
    if len(value) > 1 and all(name.isdecimal() and isinstance(row, dict) for name, row in value.items()):
        return list(value.values())
    numbers = {
        name: list(column)
        for name, column in value.items()
        if isinstance(column, dict) and all(key.isdecimal() for key in column)
    }
    columns = value | {name: list(value[name].values()) for name in numbers}
    lists = {name: column for name, column in columns.items() if isinstance(column, list) and len(column) > 1}
    tables = {
        name: column
        for name, column in columns.items()
        if isinstance(column, list) and column and all(isinstance(row, dict) for row in column)
    }
    rows = max(tables.values(), key=len, default=[])
    if len(rows) > 1:
        alike = [f"{name} ({len(column):,})" for name, column in tables.items() if _mostly_same(column[0], rows[0])]
        if len(alike) > 1:
            raise UserError(f"{path} has several lists of rows ({', '.join(alike)}): write a file for each list.")
        inner = [row.get("row") for row in rows]  # the dataset viewer of Hugging Face writes rows in this form
        return inner if all(isinstance(row, dict) for row in inner) else rows
    sizes = {len(column) for column in lists.values()}
    if len(lists) < 2 or len(lists) < len(value) or len(sizes) != 1:
        return None
    first = next(iter(numbers), "")
    others = [name for name in numbers if numbers[name] != numbers[first]]
    if others:
        raise UserError(
            f"the columns {first} and {others[0]} of {path} have different row numbers, or in another order: write all "
            "columns with the same rows."
        )
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _mostly_same(first: Collection[str], second: Collection[str]) -> bool:
    """Return True if at least half of the names of two rows occur in both."""
    return 2 * len(set(first) & set(second)) >= len({*first, *second})
