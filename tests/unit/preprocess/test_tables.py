"""Test reading tables of pairs: every format and dialect must give the pairs that were written.

The test wrote the expected pairs by the rules of the format (RFC 4180 for CSV, json for JSON).
"""

import csv
import gzip
import io
import json
import re
from argparse import Namespace
from pathlib import Path

import pytest
from corpus import dialects
from corpus.command import preparation_parser
from corpus.headers import is_number
from corpus.json_values import value_at
from corpus.output import OutputFolder
from corpus.preparation import Preparation
from corpus.tables import open_pairs

from wean_fairseq.errors import UserError
from wean_fairseq.storage import files

PAIRS = [(f"Anna purchased house number {n}.", f"Anna bought house number {n}.") for n in range(40)]
MARKED = [(f'The boss said "go, now" to Anna {n}', f'Anna; {n} heard "go"') for n in range(40)]
LONG = [(f"First line {n},\nsecond line.\n\nThird, and last.", f"One line {n}.") for n in range(40)]
NAMES = ("source", "target")


def written(rows, names=NAMES, **dialect) -> str:
    text = io.StringIO()
    table = csv.writer(text, **{"lineterminator": "\n", **dialect})
    table.writerows([names, *rows] if names else rows)
    return text.getvalue()


def joined(rows, between: str, names=NAMES, end: str = "\n") -> str:
    return "".join(between.join(row) + end for row in ([names, *rows] if names else rows))


def objects(rows, names=NAMES) -> list[dict[str, str]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def json_lines(values) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class Reader:
    """Reads a table. The attribute ``said`` is the printed text."""

    def __init__(self, folder: Path, capsys) -> None:
        self.folder = folder
        self.capsys = capsys
        self.said = ""

    def __call__(self, content: str | bytes, *, name="pairs", paths=None, columns=None, header=None, **options):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        parsed = preparation_parser("reader", "").parse_args(["--output", "none"])
        options = Namespace(**(vars(parsed) | options))
        preparation = Preparation(OutputFolder(self.folder / "out", script="reader", options={}), options)
        pairs = open_pairs(preparation, paths or [path], columns=columns, header=header)
        pairs.survey()
        self.said = self.capsys.readouterr().out.replace(f"reader: {path}: ", "")
        return list(pairs.pairs())


@pytest.fixture
def read(tmp_path: Path, capsys) -> Reader:
    return Reader(tmp_path, capsys)


QUOTED = [(f"{a}, so", b) for a, b in PAIRS]
SPACED = [(f"Today, Anna purchased {n}", f"Anna bought {n}, today") for n in range(40)]
PATHS = [(rf"{a} C:\new\table", b) for a, b in PAIRS]
FORMULAS = [(rf"{a} \alpha \nu", b) for a, b in PAIRS]
TABS = [(f"Old Anna {n}; she purchased, a house.", f"Anna {n} bought a house.") for n in range(40)]
LITERAL = [(f'"Go {n}", he said.', f'He said "go {n}"') for n in range(40)]
SIMILAR = [(f"{n} x, y", f"{n} z") for n in range(40)]
PRICES = [(f"It costs {n},5 euros", f"Its price is {n},5") for n in range(40)]
ADDRESSES = [(f"Anna {n}", f"Street {n},Town\nPostcode,State\nCountry,World") for n in range(40)]
BREAKS = [(f"First line {n},\nsecond, line.", f"One line {n}.") for n in range(40)]
ENDS = [(a + " \\", b + "\\") if n == 9 else (a, b) for n, (a, b) in enumerate(PAIRS)]
COLUMNS, LISTS = list(NAMES), [list(row) for row in MARKED]
GOOD = {
    "commas": (written(PAIRS), PAIRS),
    "semicolons": (joined(SIMILAR, ";"), SIMILAR),
    "vertical bars": (joined(PAIRS, "|"), PAIRS),
    "three bars": (joined(PAIRS, " ||| ", names=None), [(a + " ", " " + b) for a, b in PAIRS]),
    "tabs with commas and semicolons": (joined(TABS, "\t", names=None), TABS),
    "tabs, quoted as pandas does": (written(MARKED, delimiter="\t"), MARKED),
    "tabs, quoted as Excel does": (joined([tuple(f'"{s}"' for s in row) for row in TABS], "\t", end="\r\n"), TABS),
    "tabs and marks in the text": (joined(LITERAL, "\t", names=None), LITERAL),
    "commas, quoted": (written(MARKED), MARKED),
    "commas, all quoted, CRLF": (written(MARKED, quoting=csv.QUOTE_ALL, lineterminator="\r\n"), MARKED),
    "backslash escapes": (joined([tuple(f'"{escaped(s)}"' for s in row) for row in MARKED], ","), MARKED),
    "single quotation marks": (joined([(f"'{a}'", f"'{b}'") for a, b in QUOTED], ","), QUOTED),
    "a space after the comma": ("source, target\n" + "".join(f'"{a}", "{b}"\n' for a, b in SPACED), SPACED),
    "sep line": ("sep=;\r\n" + joined(SIMILAR, ";", end="\r\n"), SIMILAR),
    "sep line in capitals": ("SEP=;\r\n" + joined(SIMILAR, ";", end="\r\n"), SIMILAR),
    "sep line with another delimiter": ("sep=:\n" + joined(QUOTED, ":"), QUOTED),
    "carets, all quoted": (written(MARKED, delimiter="^", quoting=csv.QUOTE_ALL), MARKED),
    "tildes": (joined(QUOTED, "~"), QUOTED),
    "Hive": (joined(QUOTED, "\x01", names=None), QUOTED),
    "semicolons and decimal commas": (joined(PRICES, ";", names=None), PRICES),
    "line breaks in cells": (written(LONG), LONG),
    "line breaks after commas": (written(BREAKS), BREAKS),
    "line breaks and commas without spaces, all quoted": (written(ADDRESSES, quoting=csv.QUOTE_ALL), ADDRESSES),
    "backslashes at the end of cells": (joined(ENDS, "\t"), ENDS),
    "old Mac line ends": (joined(PAIRS, ",", end="\r"), PAIRS),
    "mixed line ends": (
        "".join(line + ("\n", "\r\n")[n % 2] for n, line in enumerate(joined(PAIRS, ",").splitlines())),
        PAIRS,
    ),
    "unnamed index of pandas": (written([(n, *row) for n, row in enumerate(PAIRS)], ("", *NAMES)), PAIRS),
    "empty columns of Excel": (joined([(*row, "", "") for row in PAIRS], ";", (*NAMES, "", "")), PAIRS),
    "byte order mark": ("\ufeff" + written(MARKED), MARKED),
    "very long cells": (
        written([*PAIRS, ("x, " * 100_000, "y" * 200_000)]),
        [*PAIRS, ("x, " * 100_000, "y" * 200_000)],
    ),
    "mysql": (joined([(a + "\\nTwo \\\\ x", b) for a, b in PAIRS], "\t"), [(a + "\nTwo \\ x", b) for a, b in PAIRS]),
    "mysql outfile": (
        joined([(a + "\\\nTwo\\\tcell", b) for a, b in PAIRS], "\t", None),
        [(a + "\nTwo\tcell", b) for a, b in PAIRS],
    ),
    "paths of Windows": (joined(PATHS, "\t"), PATHS),
    "escaped paths of Windows": (
        written([(f'{a} "new" C:\\dir', b) for a, b in PAIRS], delimiter="\t", doublequote=False, escapechar="\\"),
        [(f'{a} "new" C:\\dir', b) for a, b in PAIRS],
    ),
    "formulas": (joined(FORMULAS, "\t"), FORMULAS),
    "JSON lines": (json_lines(objects(MARKED)), MARKED),
    "JSON lines with additional numbers": (json_lines([{"n": 1, **row} for row in objects(MARKED)]), MARKED),
    "JSON array": (json.dumps(objects(MARKED)), MARKED),
    "indented JSON array": (json.dumps(objects(MARKED), indent=2), MARKED),
    "indented JSON objects": ("\n".join(json.dumps(row, indent=2) for row in objects(MARKED)), MARKED),
    "JSON array, one object per line": (
        "[\n" + ",\n".join(json.dumps(row) for row in objects(MARKED)) + "\n]\n",
        MARKED,
    ),
    "nested JSON": (json_lines({"id": n, "translation": row} for n, row in enumerate(objects(MARKED))), MARKED),
    "JSON lists": (json_lines(MARKED), MARKED),
    "JSON list with a header": (json.dumps([NAMES, *PAIRS]), PAIRS),
    "JSON rows in an object": (json.dumps({"version": 1, "data": objects(MARKED)}), MARKED),
    "JSON columns": (json.dumps({"a": [a for a, _ in MARKED], "b": [b for _, b in MARKED]}), MARKED),
    "JSON of pandas": (
        json.dumps({name: {str(n): row[side] for n, row in enumerate(MARKED)} for side, name in enumerate(NAMES)}),
        MARKED,
    ),
    "JSON of pandas, by rows": (json.dumps(dict(enumerate(objects(MARKED)))), MARKED),
    "JSON of pandas, split": (json.dumps({"columns": COLUMNS, "index": list(range(40)), "data": LISTS}), MARKED),
    "JSON of pandas, table": (json.dumps({"schema": {"fields": [{"name": "a"}]}, "data": objects(MARKED)}), MARKED),
    "JSON with other lists": (
        json.dumps(
            {
                "authors": [{"id": 1, "name": "a", "target": "b"}],
                "labels": {"0": "n", "7": "m"},
                "data": objects(MARKED),
            }
        ),
        MARKED,
    ),
    "JSON of the viewer": (
        json.dumps({"features": [{}, {}], "rows": [{"row_idx": 0, "row": row} for row in objects(MARKED)]}),
        MARKED,
    ),
    "JSON with a byte order mark": ("\ufeff" + json.dumps(objects(MARKED)), MARKED),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", GOOD)
def test_every_dialect_gives_the_pairs_that_it_has(read: Reader, kind: str, packed: bool):
    content, expected = GOOD[kind]
    assert read(gzip.compress(content.encode()) if packed else content) == expected
    assert f"rows: {len(expected):,}; first pair: " in read.said
    assert "left out" not in read.said


@pytest.mark.parametrize("inside", ["; ", " | ", ";", "|"])
@pytest.mark.parametrize("quoted", ["all", "some", "none"])
def test_a_mark_that_occurs_once_in_every_sentence_is_not_the_delimiter(read: Reader, inside: str, quoted: str):
    """Three comments in a third column must not make the mark inside the sentences the better delimiter."""
    comma = {"all": ",", "some": "", "none": ""}[quoted]
    pairs = [(f"Anna{comma} bought{inside}{n} houses", f"She bought {n} houses") for n in range(300)]
    if quoted == "some":
        pairs[::10] = [(f"Anna, {a}", b) for a, b in pairs[::10]]
    rows = [(*row, "a comment") if n in (50, 100, 150) else row for n, row in enumerate(pairs)]
    assert read(written(rows)) == [row for n, row in enumerate(pairs) if n not in (50, 100, 150)]
    assert "CSV, commas between cells" in read.said
    assert "left out: 3 malformed (first: line 52, 3 cells instead of 2)" in read.said


@pytest.mark.parametrize("delimiter", ["\t", "|||"])
def test_tabs_on_most_lines_are_the_delimiter_before_a_comma_in_every_sentence(read: Reader, delimiter: str):
    pairs = [(f"Anna, bought {n} houses", f"She bought {n} houses") for n in range(300)]
    rows = [(*row, "a comment") if n in (50, 100, 150) else row for n, row in enumerate(pairs)]
    assert read(joined(rows, delimiter, names=None)) == [row for n, row in enumerate(pairs) if n not in (50, 100, 150)]
    assert "left out: 3 malformed (first: line 51, 3 cells instead of 2)" in read.said


@pytest.mark.parametrize(
    ("first", "row", "delimiter"),
    [
        # "|||" is in 95 % of the sentences, but not in the header
        ("上下文,回复", "how are you ||| fine {n},thanks {n}", ","),
        # a comma in one name of the header, and in each source
        ("Original sentence|Simple, short version", "Yesterday, Anna bought {n} houses|Anna bought {n} houses", "|"),
        # a first sentence is not a header, although each part contains a known word
        ("Is this the first question; or the last answer?|Is it?", "Is it {n}; or not?|Is it {n}?", "|"),
        # words between marks and commas, and a sentence that begins with such a word
        ('"Go", he said|He said go', '"Go {n}", she said|She said go {n}', "|"),
        ('He said, "go"|He said go', 'She said, "go {n}", twice|She said go {n}', "|"),
    ],
)
def test_evidence_for_a_delimiter_inside_sentences_is_not_enough(read: Reader, first: str, row: str, delimiter: str):
    rows = [row.format(n=n) for n in range(100)]
    rows[::20] = [line.replace(" ||| ", " ") for line in rows[::20]]
    pairs = read("".join(f"{line}\n" for line in [first, *rows]), header="no")
    assert pairs == [tuple(line.split(delimiter)) for line in [first, *rows]]


@pytest.mark.parametrize(
    ("first", "row"),
    [
        ("Paraphrases of sentences, version 1", "well, this is sentence {n}\tsentence {n} is here"),
        ('"Well, I think so", he said.\tHe thinks so.', '"Well, I think {n}", he said.\tHe thinks {n}.'),
    ],
)
def test_a_tab_on_nearly_every_line_is_the_delimiter(read: Reader, first: str, row: str):
    """A title line has no tab, and quoted sentences contain one comma each."""
    lines = [first, *(row.format(n=n) for n in range(40))]
    pairs = read("".join(f"{line}\n" for line in lines), header="no")
    assert pairs == [tuple(line.split("\t")) for line in lines if "\t" in line]


SAID = '"Well, I think {n}", he said'


@pytest.mark.parametrize(
    ("first", "row", "every", "delimiter"),
    [
        # a tab inside most cells, which quotation marks enclose
        ('"hi\thello","ok"', '"hi {n}\thello","ok {n}"', '"hi {n}","ok {n}"', ","),
        ('"He said\tso, twice";"She said"', '"{n}. He said\tso, twice";"She said, {n}"', '"x";"y"', ";"),
        ('1,"hi\tyou, there",ok', '{n},"hi\tyou, there",ok {n}', '{n},"hi, there",ok', ","),
        # a tab in every text, but not in the names of the columns
        ("Vorher,Nachher", "how are you {n}\tfine,thanks {n}", "how are you\t{n},thanks {n}", ","),
        ("Vorher,Nachher", "\tHow is it {n},thanks {n}", "\tHow is it,thanks {n}", ","),
        ("Vorher;Nachher", "Satz {n};Satz {n} alt\t", "Satz;{n}\t", ";"),
        # quoted sentences, and a first line without a delimiter or with another number of them
        ("Paraphrases", SAID + ".\tHe thinks {n}.", SAID + "\t{n}", "\t"),
        ("a\tb\tc", SAID + ".\tHe thinks {n}.", SAID + "\t{n}", "\t"),
        ('"a\tb, c"\t"x"', SAID + ".\tHe thinks {n}.", SAID + "\t{n}", "\t"),
        # quoted sentences in tables with other delimiters
        (SAID + ".|||He thinks.", SAID + ".|||He thinks {n}.", SAID + "|||a|||b", "|||"),
        (SAID + "|He thinks", SAID + "|He thinks {n}", SAID + "|{n}", "|"),
        (SAID + ";He thinks", SAID + ";He thinks {n}", SAID + ";{n}", ";"),
    ],
)
def test_quotation_marks_show_the_delimiter(first: str, row: str, every: str, delimiter: str):
    """Every twentieth line is another one, so that no delimiter is equally often on every line."""
    lines = [first, *((every if n % 20 == 9 else row).format(n=n) for n in range(60))]
    assert dialects.choose_dialect(lines)[0].delimiter == delimiter


@pytest.mark.parametrize(
    ("row", "every", "delimiter"),
    [
        (" {n} | Satz {n} | Satz {n} neu | 0,{n}", " {n} | Satz | neu | 1,{n}", "|"),  # psql
        ("Satz {n}, Satz {n} neu, NN;VB", "Satz, Satz {n}, NN", ","),
        ("Satz {n}; Satz {n} neu; http://x/~user/{n}", "Satz; Satz {n}; http://x/~user/{n}", ";"),
        # one inch mark per cell in a few lines
        ("a cat {n} ||| the cat {n}", 'a 6" pipe ||| a 6" tube', "|||"),
        ("well,a cat {n}\tthe cat", 'a 6" pipe,yes\ta 6" tube', "\t"),
    ],
)
def test_marks_in_cells_are_not_the_delimiter(row: str, every: str, delimiter: str):
    lines = [(every if n % 20 == 9 else row).format(n=n) for n in range(60)]
    assert dialects.choose_dialect(lines)[0].delimiter == delimiter
    title = dialects.choose_dialect(["(60 rows)", *lines, "(60 rows)"])[0]
    assert title.delimiter == delimiter


@pytest.mark.parametrize(
    ("lines", "chosen", "hint"),
    [
        (
            ["how are you {n}\tfine,thanks {n}"],
            "\t",
            "commas could also be between the cells (100% of the first rows fit)",
        ),
        (["{n}|||Old Anna {n}|Anna {n}"], "|||", 'put a line with "sep=|" before the table'),
        (["Vorher,Nachher", "hi\tyou {n},hello {n}"], ",", 'put a line with "sep=" and a tab before the table'),
        (["a {n},b\x01c {n}"], ",", 'put a line with "sep=" and the byte 1 before the table'),
        # decimal commas, addresses, known names, and quotation marks around all cells leave no doubt
        (["alt {n};neu {n};0,{n}"], ";", ""),
        (["alt {n},neu {n},http://x/~user/{n}"], ",", ""),
        (["source,target", "Anna {n};a,She {n}"], ",", ""),
        (['"Anna {n}","She\t{n}"'], ",", ""),
        (['"Well," he said {n}.\t"Fine," she said.'], "\t", ""),
    ],
)
def test_another_likely_delimiter_is_named(lines: list[str], chosen: str, hint: str):
    dialect, hints = dialects.choose_dialect([*lines[:-1], *(lines[-1].format(n=n) for n in range(60))])
    assert dialect.delimiter == chosen
    assert hint in " ".join(hints)
    assert bool(hint) == bool(hints)


def test_the_delimiter_can_be_given_in_the_first_line(read: Reader):
    lines = "".join(f"how are you {n}\tfine,thanks {n}\n" for n in range(40))
    assert read(lines)[0] == ("how are you 0", "fine,thanks 0")
    assert "warning: commas could also be" in read.said
    assert read("sep=,\n" + lines)[0] == ("how are you 0\tfine", "thanks 0")
    assert "warning" not in read.said


def test_errors_name_another_likely_delimiter(read: Reader):
    """A tab at the end of every line gives an empty second column."""
    with pytest.raises(UserError, match=r"which columns are the sentences\. .* Commas could also be between the cells"):
        read("".join(f"Anna {n},She {n}\t\n" for n in range(40)), header="yes")


def test_a_line_of_a_megabyte_with_quoted_cells_is_measured():
    """Each quoted cell was looked up in the whole line, which took more than 100 s."""
    dialect, _ = dialects.choose_dialect(['"a",b\'x;c|d\t' * 90_000])
    assert dialect is not None


@pytest.mark.parametrize("row", ["Old Anna, {n}\tAnna {n}", "Anna {n}, bought it\tShe, {n}", "a; b {n}|||c, {n}"])
def test_marks_in_sentences_are_not_named_beside_a_tab_on_every_line(read: Reader, row: str):
    read("".join(row.format(n=n) + "\n" for n in range(40)))
    assert "warning" not in read.said


def test_a_delimiter_of_four_fifths_of_the_lines_does_not_beat_one_of_all_lines(read: Reader):
    """The header has known names with a comma between them, but every fifth line has another number of commas."""
    rows = [f"Old Anna, {n}|Anna {n}" if n % 5 else f"Old Anna {n}|Anna {n}" for n in range(100)]
    pairs = read("".join(f"{line}\n" for line in ["source, target|summary", *rows]), header="yes")
    assert pairs == [tuple(line.split("|")) for line in rows]


@pytest.mark.parametrize("packed", [False, True])
def test_parquet_gives_the_pairs_that_it_has(read: Reader, tmp_path: Path, packed: bool):
    duckdb = pytest.importorskip("duckdb")
    content = json_lines({"id": n, "pair": row, "none": None} for n, row in enumerate(objects(MARKED)))
    (tmp_path / "rows.jsonl").write_text(content)
    duckdb.sql(f"COPY (FROM read_json('{tmp_path}/rows.jsonl')) TO '{tmp_path}/rows.parquet' (FORMAT parquet)")
    parquet = (tmp_path / "rows.parquet").read_bytes()
    assert read(gzip.compress(parquet) if packed else parquet, columns="pair.source,pair.target") == MARKED
    assert "Parquet; source = column 2 pair.source" in read.said
    with pytest.raises(UserError, match=r"cannot read .*pairs"):
        read(parquet[:200])


def test_a_small_parquet_file_with_billions_of_rows_is_refused(read: Reader, tmp_path: Path, monkeypatch):
    """Parquet stores equal rows only once, so a small file may have very many rows."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(files, "_UNPACKED", 1000)  # 1,000 bytes instead of 4 MiB
    rows = f"SELECT '{'a ' * 500}' AS source, '{'b ' * 500}' AS target FROM range(5000)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/rows.parquet' (FORMAT parquet)")
    with pytest.raises(UserError, match="is 100 times larger when it is unpacked: save it as CSV"):
        read((tmp_path / "rows.parquet").read_bytes())


@pytest.mark.parametrize("name", ["*.parquet", "?ther.parquet", "[o]ther.parquet", "a[b.parquet", "'; x --.parquet"])
def test_a_parquet_file_is_read_whatever_its_name(read: Reader, tmp_path: Path, name: str):
    """DuckDB treats such names as patterns and would read other files, too."""
    duckdb = pytest.importorskip("duckdb")
    for number, file in enumerate(("other.parquet", "pairs.parquet")):
        query = f"SELECT 'a {number} ' || i AS a, 'b ' || i AS b FROM range(30) t(i)"
        duckdb.sql(f"COPY ({query}) TO '{tmp_path / file}' (FORMAT parquet)")
    (tmp_path / "pairs.parquet").rename(tmp_path / name)
    found = read("", paths=[tmp_path / name], columns="a,b")
    assert found == [(f"a 1 {number}", f"b {number}") for number in range(30)]


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        (written([("x", *row) for row in PAIRS], ("id", "text", "text")), "2,3", PAIRS),
        (written([("x", *row) for row in PAIRS], ("id", "a, first", "b second")), '"a, first",b second', PAIRS),
        (written([(*row, f"R {n}") for n, row in enumerate(PAIRS)], ("a", "b", "c")), "b,a,c", None),
        (json_lines({"s": a, "refs": [b, b + "!"]} for a, b in PAIRS), "s,refs.2", [(a, b + "!") for a, b in PAIRS]),
        (json_lines({"a.b": a, "c": {"d": b}} for a, b in PAIRS), "a.b,c.d", PAIRS),
        (json_lines({"a  b": a, "c": b} for a, b in PAIRS), "a  b,c", PAIRS),
        (written(PAIRS, ("the\u00a0source", "the\ntarget ")), "the source,the target", PAIRS),
        (
            json_lines({"a": a, "b": n} for n, (a, _) in enumerate(PAIRS)),
            "a,b",
            [(a, str(n)) for n, (a, _) in enumerate(PAIRS)],
        ),
    ],
)
def test_columns_are_found_by_name_number_and_path(read: Reader, content, columns, expected):
    expected = expected or [(b, a, f"R {n}") for n, (a, b) in enumerate(PAIRS)]
    assert read(content, columns=columns) == expected


@pytest.mark.parametrize("text", ["1" * 100_000 + "x", "1 " * 50_000 + "x"])
def test_a_long_cell_that_is_almost_a_number_ends(text: str):
    assert (is_number(text), is_number(text[:-1]), is_number("-3.5 %"), is_number("12:30Z")) == (
        False,
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("names", "is_header"),
    [
        (("Complex sentence", "Simple sentence"), True),
        (("original", "rewritten"), True),
        (("Write the sentence here:", "Write a simpler one:"), True),  # the rows do not end with this punctuation mark
        (("原文", "改写"), True),
        (("Anna sold house number 99.", "Anna gave it away."), False),
        (("99", "number"), False),
    ],
)
def test_the_header_is_guessed_and_the_option_overrides_the_guess(read: Reader, names, is_header):
    content = joined(PAIRS, ",", names)
    for header, found in ((None, is_header), ("yes", True), ("no", False)):
        assert read(content, header=header) == (PAIRS if found else [names, *PAIRS])
        assert f"; header: {'yes' if found else 'no'}, " in read.said


def swallowing(first: int, last: int, closing: str) -> str:
    """Return CSV with a quotation mark that opens in one row and closes in another."""
    rows = [f"{a},{b}" for a, b in PAIRS]
    rows[first], rows[last] = f'"{rows[first]}', closing.format(*PAIRS[last])
    return "source,target\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("closing", ['{}",{}', '{},"{}"', '{},{}"'])
@pytest.mark.parametrize("last", [11, 30])
def test_an_open_mark_swallows_no_row_and_is_named(read: Reader, closing: str, last: int):
    assert len(read(swallowing(10, last, closing))) == 40
    assert "all quotation marks are text, because one on line 12 stays open" in read.said
    quoted = written([(f"{a}, so", f"{b}, too") for a, b in PAIRS], None)
    assert len(read(swallowing(10, last, closing) + quoted)) >= 78
    assert "first: line 12, a quotation mark stays open" in read.said


LEFT_OUT = {
    "empty sides": (written([*PAIRS, ("", "x"), ("y", " ")]), "2 with an empty side (first: line 42)"),
    "too many cells": (
        written(PAIRS[:5]) + "a,b,c\n" + written(PAIRS[5:], None),
        "1 malformed (first: line 7, 3 cells",
    ),
    "a title": ("Export of May\n\n" + written(PAIRS), "1 malformed (first: line 1, 1 cell instead of 2)"),
    "a footer": (written(PAIRS) + "Total: 40\n", "1 malformed (first: line 42, 1 cell instead of 2)"),
    "duplicates": (written([*PAIRS, *PAIRS[:3]]), "3 exact duplicates"),
    "a header again": (written(PAIRS[:20]) + written(PAIRS[20:]), "1 repeating the header (first: line 22)"),
    "JSON null": (
        json_lines([*objects(PAIRS), {"source": None, "target": "x"}]),
        "1 with an empty side (first: line 41)",
    ),
    "JSON without a name": (json_lines([*objects(PAIRS), {"source": "x"}]), "1 with an empty side (first: line 41)"),
    "malformed JSON": (json_lines(objects(PAIRS)) + '{"source": \n', "1 malformed (first: line 41, expecting value"),
    "JSON text": (json_lines([*objects(PAIRS), "x"]), "1 malformed (first: line 41, neither a JSON object nor a list)"),
    "JSON objects as cells": (
        json_lines([*objects(PAIRS), {"source": {"x": 1}, "target": "y"}]),
        "1 malformed (first: line 41, source is not text)",
    ),
    "Markdown": (
        joined(PAIRS[:1], "|") + "|---|\n" + joined(PAIRS[1:], "|", None),
        "1 malformed (first: line 3, a line of dashes)",
    ),
    "a lone mark": (
        written([(a + ", so", b) for a, b in PAIRS]) + 'x",y\n',
        "1 malformed (first: line 42, a quotation mark closes nothing)",
    ),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_rows_that_are_left_out_are_counted_with_their_line(read: Reader, kind: str):
    content, says = LEFT_OUT[kind]
    assert len(read(content)) == 40
    assert f"left out: {says}" in read.said


REFUSED = {
    "UTF-16": (written(PAIRS).encode("utf-16"), {}, "is UTF-16: convert it"),
    "UTF-16 without a mark": (written(PAIRS).encode("utf-16-le"), {}, "has zero bytes, as UTF-16"),
    "Latin-1": (written([("à", "é"), *PAIRS]).encode("latin-1"), {}, "line 2 of .* is not UTF-8"),
    "Latin-1 in JSON": (json_lines(objects([*PAIRS, ("à", "é")])).encode("latin-1"), {}, "line 41 of .* is not UTF-8"),
    "a workbook": (b"PK\x03\x04\x14\0\x06\0[Content_Types].xml\n", {}, "is a workbook of Excel"),
    "an archive": (b"PK\x03\x04pairs.csv", {}, "is an archive"),
    "a damaged archive": (gzip.compress(written(PAIRS).encode())[:100], {}, "cannot unpack"),
    "SQL": ("-- MySQL dump 10.13\nINSERT INTO p VALUES ('a b','c');\n", {}, "is an SQL dump"),
    "HTML": ("<html><table><tr><td>a,b</td></tr></table>", {}, "is HTML"),
    "no row": ("source,target\n", {}, "has no usable pair: it has no rows"),
    "nothing": ("\n \n", {}, "is empty"),
    "one column": ("One sentence\nAnother one\n", {}, "has one column"),
    "empty sides alone": (joined([("x", "")] * 20, ","), {}, "no usable pair: 20 with an empty side .first: line 2"),
    "commas without marks": (joined([(f"a, b, {n}", "c") for n in range(20)], ",", None), {}, "columns are: 4 without"),
    "one column twice": (written(PAIRS), {"columns": "2,2"}, "names one column twice"),
    "one name twice": (
        written([(1, *row) for row in PAIRS], ("id", "t", "t")),
        {"columns": "t,t"},
        "has 2 columns named t",
    ),
    "no such number": (written(PAIRS), {"columns": "1,3"}, "has no column 3. Its columns are: 1 source, 2 target"),
    "one column named": (written(PAIRS), {"columns": "source"}, "takes two names"),
    "open mark in names": (written(PAIRS), {"columns": 'a,"b'}, "cannot be read: quote a name"),
    "three columns": (written([(1, *row) for row in PAIRS], ("id", *NAMES)), {}, "1 id, 2 source, 3 target"),
    "numbers": (
        written([(n, a) for n, (a, _) in enumerate(PAIRS)], ("id", "text")),
        {},
        "numbers instead of sentences in its column id",
    ),
    "numbers in JSON": (json_lines({"a": n, "b": n} for n in range(9)), {}, "has no columns of text"),
    "several lists in JSON": (
        json.dumps({"train": objects(PAIRS), "test": objects(PAIRS[:5])}),
        {},
        r"several lists of rows \(train \(40\), test \(5\)\): write a file for each",
    ),
    "lists with other names in JSON": (
        json.dumps({"train": objects(PAIRS), "more": [row | {"id": 1} for row in objects(PAIRS[:1])]}),
        {},
        r"several lists of rows \(train \(40\), more \(1\)\): write a file for each",
    ),
    "columns with other rows in JSON": (
        json.dumps({side: {str(n + shift): a for n, (a, _) in enumerate(PAIRS)} for shift, side in enumerate("ab")}),
        {},
        "the columns a and b of .* have different row numbers",
    ),
    "many columns": (joined([["x"] * 99] * 20, "\t", None), {}, "99 without names"),
    "many columns in JSON": (json_lines([{"a": ["x"] * 99}] * 20), {}, r"30 a.30, ... \(99 in all\). Name two"),
    "the same text": (written([(a, a) for a, _ in PAIRS]), {}, "the same text on both sides of all 40 pairs"),
    "Python instead of JSON": (
        "".join(f"{row}\n" for row in objects(PAIRS)),
        {},
        "line 1 of .* JSON takes double quotation marks",
    ),
    "JSON that ends early": (json.dumps(objects(PAIRS))[:-9], {}, "line 1 of .* is not JSON"),
    "JSON array without end": (json.dumps(objects(PAIRS))[:-1], {}, "ends within a JSON array"),
    "JSON and more": (json.dumps(objects(PAIRS)) + " x", {}, "has text after its JSON array"),
    # Looking up every name in every row took half a minute for 200 rows with 1,000 different names each.
    "many names in JSON": (
        json_lines({f"k{n}.{m}": "a" for m in range(999)} for n in range(11)),
        {},
        "has more than 10,000 names",
    ),
    # For nested names, the time grows with the number of names multiplied by their depth.
    "deep names": (
        '{"a":' * 900 + '{"b": "x y", "c": "d"}' + "}" * 900,
        {},
        r"no columns of text.*: 1 a(\.a){19}\. N",
    ),
    "deep JSON": ("[" * 100_000, {}, "is not JSON"),
    "a long number in JSON": (
        '{"a": %s, "b": "x"}\n' % ("9" * 5000) * 20,
        {},
        "it has a number of more than 4,300 digits",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_right_is_refused(read: Reader, kind: str):
    content, options, says = REFUSED[kind]
    with pytest.raises(UserError, match=says):
        read(content, **options)


@pytest.mark.parametrize(
    "first", ['rce": "a, b", "target": "c"}', "{source: 1, 2}", "<<<<<<< HEAD", ',{"source": "a"}']
)
def test_json_lines_are_recognised_although_the_first_is_damaged(read: Reader, first: str):
    """Otherwise the commas in the lines would be taken for those of CSV."""
    assert len(read(f"{first}\n" + json_lines(objects(PAIRS)))) == 40
    assert "JSON lines; source = column 1 source" in read.said
    assert "left out: 1 malformed (first: line 1, expecting" in read.said


def test_a_row_with_a_repeated_name_is_malformed(read: Reader):
    twice = '{"source": "a b", "target": "first c", "target": "second c"}'
    assert read(f"{json_lines(objects(PAIRS))}{twice}\n") == PAIRS
    assert "left out: 1 malformed (first: line 41, it has 'target' more than once" in read.said
    for content in (f"{twice}\n" * 40, f"[{twice}, {twice}]"):
        with pytest.raises(UserError, match=r"line 1 of .* is not JSON .it has 'target' more than once"):
            read(content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{source: a, target: b}\n" * 20, "line 1 of .*pairs.jsonl.* is not JSON"),
        ("a, b\nc, d\n", "line 1 of .*pairs.jsonl.* is not JSON"),
        ("1\n2\n", "has no rows of text: line 1 is neither a JSON object nor a list"),
        ("", "has no rows"),
    ],
)
def test_a_file_with_a_name_of_json_is_read_as_json(read: Reader, content: str, says: str):
    for name in ("pairs.jsonl", "pairs.jsonl.gz"):
        with pytest.raises(UserError, match=says):
            read(gzip.compress(content.encode()) if name.endswith(".gz") else content, name=name)


def test_bad_utf8_is_replaced_on_request(read: Reader):
    for content in (joined([("caf\udce9", "x y"), *PAIRS], ","), json_lines(objects([("caf\udce9", "x y"), *PAIRS]))):
        data = content.encode("utf-8", "surrogateescape")
        assert read(data, bad_utf8="replace") == [("caf\ufffd", "x y"), *PAIRS]


def test_marks_within_cells_stay_and_are_named(read: Reader):
    rows = [(f"{a}, so", f'a 5" disk {n}') for n, (a, _) in enumerate(PAIRS)]
    assert read("source,target\n" + "".join(f'"{a}",{b}\n' for a, b in rows)) == rows
    assert "line 2 has a quotation mark that does not enclose a cell; it stays in the text" in read.said


def test_a_dialect_that_shows_late_in_the_file_is_noticed(read: Reader):
    """The dialect is guessed from the first 1,000 lines."""
    rows = [(f"{n} Anna bought it", f"{n} she did") for n in range(1500)]
    assert read(written([*rows, *MARKED])) == rows + MARKED
    late = joined([tuple(f'"{escaped(cell)}"' for cell in row) for row in [*rows, *MARKED]], ",")
    assert read(late) == rows + MARKED


def test_two_text_files_are_aligned_pairs(read: Reader, tmp_path: Path):
    paths = [tmp_path / "a.csv", tmp_path / "b.tsv"]  # the content decides, not the name
    for side, path in enumerate(paths):
        path.write_text("".join(f"{row[side]}\n" for row in [*MARKED, ("x", ""), MARKED[0]]))
    assert read("", paths=paths) == MARKED
    assert re.search("left out: 1 with an empty side .first: line 41.; 1 exact duplicates", read.said)


def test_any_number_of_lines_may_be_joined_by_backslashes():
    """3,000 lines ended in a RecursionError. Closed form: each line break becomes part of the cell around it."""
    dialect = dialects.Dialect(",", quote='"', escapes=True)
    (row,) = dialects.read_rows(["x,y\\"] * 3000 + ["x,y"], dialect)
    assert row.value == ["x", *["y\nx"] * 3000, "y"]


def test_unclosed_marks_do_not_read_1000_lines_again_for_each_row(monkeypatch):
    """A file of 3.6 MB took minutes. After the limit of work, a row may continue on ten lines only."""
    monkeypatch.setattr(dialects, "_MOST_WORK", 10_000)
    dialect = dialects.Dialect(",", quote='"')
    short, long = ['"a', *["b"] * 8, 'c",d'], ['"a', *["b"] * 18, 'c",d']
    rows = list(dialects.read_rows([*short, *long, 'a"," b'] + ["x,y"] * 999 + [*short, *long], dialect))
    whole = ["\n".join(["a", *["b"] * number, "c"]) for number in (8, 18)]
    assert [row.value[0] for row in rows if not row.problem and row.value != ["x", "y"]][:3] == [*whole, whole[0]]
    assert [row.line for row in rows if row.problem == dialects.OPEN_MARK] == [31, 1041]


@pytest.mark.parametrize(
    ("last", "problem"), [('x,"y', dialects.OPEN_MARK), ('x,"y"z', "text follows a closing quotation mark")]
)
def test_the_problem_of_the_last_row_is_named(last, problem):
    """No line follows the last row, so an open mark is noticed at the end of the file."""
    *_, row = dialects.read_rows(['"a","b"', last], dialects.Dialect(",", quote='"'))
    assert row.problem == problem


def test_a_name_of_many_digits_is_no_number_of_an_item():
    """Python refuses to convert more than 4,300 digits."""
    assert value_at(["a", "b"], "2") == "b"
    assert value_at(["a", "b"], "9" * 5000) is None
