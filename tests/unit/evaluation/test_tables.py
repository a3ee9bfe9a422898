"""Test the writers of tables. Expected texts are written by hand according to the rules of the formats."""

import csv
import io

from wean_fairseq.evaluation.tables import Cell, Table


def test_text_aligns_wide_characters_and_names_groups_once() -> None:
    """A Chinese character takes two columns of a terminal, so the first column is four wide."""
    table = Table(["name", "a", "b", "c"], [["系统", "1.0", "22", "3"]], groups=["", "x", "x", "y"])
    assert table.as_text().splitlines() == ["      [x]      [y]", "name    a   b  c", "系统  1.0  22  3"]


def test_markdown_writes_marks_and_details_and_escapes_bars() -> None:
    row = [Cell("a|b"), Cell("2.0", "1 to 3", "beaten"), Cell("3.0", mark="published"), "4"]
    assert Table(["s", "x", "y", "z"], [row], align="lrrl").as_markdown() == (
        "| s | x | y | z |\n|---|--:|--:|---|\n| a\\|b | 2.0 ▽ (1 to 3) | *3.0* | 4 |"
    )


def test_latex_escapes_commands_and_csv_quotes_separators() -> None:
    table = Table(["s", "50%"], [["a_b, c", "1 ± 2"]])
    assert r"a\_b, c & 1 $\pm$ 2 \\" in table.as_latex()
    assert table.as_latex().startswith("\\begin{tabular}{lr}\n\\toprule\ns & 50\\% \\\\\n\\midrule\n")
    assert table.as_csv() == 's,50%\n"a_b, c",1 ± 2\n'
    assert r"a\textbackslash{}nb & 1 \\" in Table(["s", "x"], [["a\nb", "1"]]).as_latex()
    assert table.as_tsv() == "s\t50%\na_b, c\t1 ± 2\n"


def test_no_cell_for_a_spreadsheet_program_is_a_formula() -> None:
    """Spreadsheet programs run cells that begin with these signs, even after spaces or in full-width form."""
    cells = ["=1+1", "+a", "-a", "@a", "\t=a", "\uff1da", "\u00a0=a", "-1.5e-05", "-0.50", "a=1", "a\tb\nc"]
    as_csv, as_tsv = (Table(cells, [cells]).as_csv(), Table(cells, [cells]).as_tsv())
    quoted = ["'=1+1", "'+a", "'-a", "'@a", "'\t=a", "'\uff1da", "'\u00a0=a", "-1.5e-05", "-0.50", "a=1", "a\tb\nc"]
    assert list(csv.reader(io.StringIO(as_csv))) == [quoted, quoted]
    escaped = [cell.replace("\t", "\\t").replace("\n", "\\n") for cell in quoted]
    assert [line.split("\t") for line in as_tsv.splitlines()] == [escaped, escaped]
