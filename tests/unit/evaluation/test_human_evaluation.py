"""Test that rating sheets are blinded, seeded and complete. Returned ratings are checked.

The expected statistics are computed by hand.
"""

import csv
import io
import json
import re
import tempfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.human import Design, analyse, make_design, read_ratings, write_sheets
from wean_fairseq.evaluation.human.cli import format_results
from wean_fairseq.evaluation.human.design import COMPARE, LIKERT, csv_sheet
from wean_fairseq.evaluation.human.ratings import paired_t_test
from wean_fairseq.evaluation.output_reader import SystemOutput

SOURCES = [f"source {number}" for number in range(6)]
NAMES = ["Secret", "Hidden", "Veiled"]
HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> \" , ;"


def systems(count: int = 2) -> list[SystemOutput]:
    return [
        SystemOutput(name, [[f"output {place} {number}"] for number in range(6)], "")
        for place, name in enumerate(NAMES[:count])
    ]


def study(tmp_path: Path, kind: str = LIKERT, count: int = 2, raters: int = 2, sentences: int = 3) -> Design:
    design = make_design(
        systems(count), SOURCES, ["fluency", "adequacy"], kind=kind, num_sentences=sentences, num_raters=raters, seed=4
    )
    write_sheets(design, tmp_path)
    return design


def fill_in(path: Path, answer) -> Path:
    """Fill in a sheet like a rater, with ``answer(row, criterion)``."""
    with path.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    for row in rows:
        for criterion in ("fluency", "adequacy"):
            row[criterion] = answer(row, criterion)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_sheets_do_not_name_systems_and_hold_everything(tmp_path: Path) -> None:
    design = study(tmp_path, count=3)
    for path in (*tmp_path.glob("rater-*.csv"), *tmp_path.glob("rater-*.html")):
        text = path.read_text(encoding="utf-8")
        assert not any(name in text for name in NAMES)
        for item in design.items:
            assert all(shown in text for shown in (item.name, item.source, *item.texts))
    assert len(design.items) == 9
    assert Counter(item.systems for item in design.items) == {(name,): 3 for name in NAMES}
    assert len({item.sentence for item in design.items}) == 3


def test_same_seed_same_study_and_raters_have_their_own_order(tmp_path: Path) -> None:
    first, second = study(tmp_path / "a"), study(tmp_path / "b")
    assert first == second
    assert (tmp_path / "a/rater-1.html").read_bytes() == (tmp_path / "b/rater-1.html").read_bytes()
    orders = list(first.orders.values())
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert Design.from_file(tmp_path / "a/key.json") == first
    usual, *others = (
        make_design(systems(), SOURCES, ["f"], num_sentences=3, **seed) for seed in ({}, {"seed": 1}, {"seed": 2})
    )
    assert [usual == other for other in others] == [True, False]


def test_studies_with_one_seed_rate_the_same_sentences_but_share_no_item() -> None:
    """Test that studies share no item, which would let sheets and saved forms of another study be accepted."""
    first, second = (make_design(chosen, SOURCES, ["f"], num_sentences=3) for chosen in (systems(2), systems(3)[1:]))
    assert {item.sentence for item in first.items} == {item.sentence for item in second.items}
    assert not {item.name for item in first.items} & {item.name for item in second.items}


def secret_side(row: dict[str, str]) -> str:
    """Return the side of a row that shows the first system."""
    return "A" if row["text A"].startswith("output 0") else "B"


@pytest.mark.parametrize("raters", [1, 2, 3, 4, 7])
def test_half_of_the_raters_see_each_side_first(raters: int) -> None:
    many = [SystemOutput(name, [[f"output {place}"]] * 200, "") for place, name in enumerate(NAMES[:2])]
    design = make_design(many, None, ["fluency"], kind=COMPARE, num_sentences=200, num_raters=raters)
    first: Counter[str] = Counter()
    for rater in design.raters:
        rows = csv.DictReader(io.StringIO(csv_sheet(design, rater), newline=""))
        left = [row["item"] for row in rows if secret_side(row) == "A"]
        assert 60 < len(left) < 140  # 200 fair draws are outside this range with a probability below 1e-7
        first.update(left)
    assert {first[item.name] for item in design.items} == {raters // 2, (raters + 1) // 2}


class _Tags(HTMLParser):
    """Collect the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [name for name, _ in attrs]


def test_hostile_text_is_harmless(tmp_path: Path) -> None:
    """Test that hostile text adds no HTML element, no formula in the spreadsheet and no external resource."""
    design = make_design([SystemOutput("X", [[HOSTILE]], "")], [HOSTILE], ["a<b"], num_sentences=1, num_raters=1)
    write_sheets(design, tmp_path)
    page = (tmp_path / "rater-1.html").read_text(encoding="utf-8")
    parser = _Tags()
    parser.feed(page)
    assert parser.tags["script"] == 1
    assert parser.tags["input"] == 5
    assert not {"src", "href"} & set(parser.attributes)
    assert "default-src 'none'" in page
    with (tmp_path / "rater-1.csv").open(encoding="utf-8", newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert row["text"] == f"'{HOSTILE}"


@pytest.mark.parametrize("before", ["", " ", "\u00a0", "\u200b", "\ufeff", "\t", "\u3000\u2060"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe62", "\ufe66"])
def test_no_cell_and_no_heading_begins_a_formula(before: str, sign: str) -> None:
    """Test signs of formulas, also small or full-width ones, or ones after white space or invisible characters."""
    text = f"{before}{sign}1+1"
    design = make_design([SystemOutput("X", [[text]], "")], [text], ["a"], num_sentences=1, num_raters=1)
    (row,) = csv.DictReader(io.StringIO(csv_sheet(design, "rater-1"), newline=""))
    assert row["text"] == row["source"] == f"'{text}"
    with pytest.raises(UserError, match="begins like a formula of a spreadsheet"):
        make_design([SystemOutput("X", [["a"]], "")], None, [text], num_sentences=1, num_raters=1)


@pytest.mark.parametrize("text", ["a = b", "'quoted'", "", "1 + 1", "\u2013 a dash", "#1", "ﬁne"])
def test_other_cells_stay_as_they_are(text: str) -> None:
    design = make_design([SystemOutput("X", [[text]], "")], [text], ["a"], num_sentences=1, num_raters=1)
    (row,) = csv.DictReader(io.StringIO(csv_sheet(design, "rater-1"), newline=""))
    assert row["text"] == text


#: Parts of names that a heading, a table, a page or a JSON file might change.
NAME_PARTS = st.sampled_from(
    [*",;\"'\t\n\r ", "a", "é", "\ud800", "\udcff", "\x1b", "rater", "item", "source", "text", "text A", "all", "="]
)


@given(criteria=st.lists(st.lists(NAME_PARTS, max_size=5).map("".join), max_size=9), sign=st.sampled_from(",;"))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_every_accepted_set_of_criteria_is_read_back(criteria: list[str], sign: str) -> None:
    try:
        design = make_design(systems(1), None, criteria, num_sentences=1, num_raters=1)
    except UserError:
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "study", "rater-1.csv")
        write_sheets(design, path.parent)
        assert Design.from_file(path.parent / "key.json") == design
        with path.open(encoding="utf-8", newline="") as file:
            heading, row = csv.reader(file)
        row[-len(criteria) :] = ["4"] * len(criteria)
        with path.open("w", encoding="utf-8", newline="") as file:  # as spreadsheet programs save it
            csv.writer(file, delimiter=sign).writerows([heading, row])
        means = analyse(design, read_ratings(design, [path]))["systems"]["Secret"]
    assert {name: cell["mean"] for name, cell in means.items()} == dict.fromkeys([*criteria, "all"], 4.0)


@pytest.mark.parametrize("name", ["", " ", "text", "text A", "all", "a\tb", "\udcff", "\x1b[1m"])
def test_a_criterion_that_no_sheet_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").write_text("a\n", encoding="utf-8")
    study = ["--sentences", "1", "--criteria", "fluency", name, "--out", str(tmp_path / "study")]
    assert main(["sheet", "--hyp", f"A={tmp_path / 'out'}", *study]) == 2
    if not name.isprintable():  # a name of a system must be readable, too
        assert main(["sheet", "--hyp", f"{name}={tmp_path / 'out'}", "--sentences", "1", *study[-2:]]) == 2
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("content", ["", "\n", "rater,item,source,text,fluency,adequacy\n"])
def test_a_sheet_without_answers_is_said(tmp_path: Path, content: str) -> None:
    design = study(tmp_path)
    (tmp_path / "rater-1.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"rater-1\.csv has no rows of answers; give a sheet that"):
        read_ratings(design, [tmp_path / "rater-1.csv"])


def test_likert_statistics_by_hand(tmp_path: Path) -> None:
    """Two raters give the system Secret 5 and 3 for each of three sentences, so its mean is 4 without spread.

    The system Hidden gets 4 and 2, so its mean is 3.

    Every sentence differs by exactly 1, so the standard error is 0 and the t statistic is not defined.
    """
    design = study(tmp_path)
    better = {item.name for item in design.items if item.systems == ("Secret",)}
    paths = [
        fill_in(
            tmp_path / f"rater-{rater}.csv",
            lambda row, _, rater=rater: str((5 if row["item"] in better else 4) - 2 * rater + 2),
        )
        for rater in (1, 2)
    ]
    result = analyse(design, read_ratings(design, paths))
    assert result["systems"]["Secret"]["fluency"] == {"mean": 4.0, "ci": [4.0, 4.0]}
    assert result["systems"]["Hidden"]["all"]["mean"] == 3.0
    assert result["tests"][0] == {
        "baseline": "Secret",
        "system": "Hidden",
        "criterion": "fluency",
        "difference": -1.0,
        "p": None,
    }
    shown = format_results(result)
    assert "fluency: -1.00 (no test: the difference is the same for every sentence)" in shown


def test_t_test_of_degenerate_ratings() -> None:
    """Closed form: with one sentence, or with equal differences, the t statistic has no standard error.

    The means of 0.1, 0.2, 0.3 in both orders are equal, but not in floating point.
    """
    one, other = np.array([3.0]), np.array([4.0])
    assert paired_t_test(one, other) == {"difference": 1.0, "p": None}
    assert paired_t_test(one, one) == {"difference": 0.0, "p": 1.0}
    sums = np.mean([[0.1], [0.2], [0.3]], axis=0), np.mean([[0.3], [0.2], [0.1]], axis=0)
    assert sums[0] != sums[1]
    assert paired_t_test(*sums) == {"difference": 0.0, "p": 1.0}


def test_interval_and_t_test_by_hand(tmp_path: Path) -> None:
    """One rater gives the system Secret the ratings 1, 2 and 3.

    The mean is 2, s is 1, and the half width is t(0.975, 2) / sqrt(3) = 4.302653 / sqrt(3).

    The half width is 2.484138. The system Hidden gets 2, 2 and 5. The differences 1, 0, 2 have mean 1, s = 1 and t =
    sqrt(3). With 2 degrees of freedom, the two-sided p is 1 - t/sqrt(t^2 + 2) = 1 - sqrt(3/5) = 0.225403.
    """
    design = study(tmp_path, raters=1)
    ordered = sorted(design.items, key=lambda item: item.sentence)
    answers = {("Secret",): iter("123"), ("Hidden",): iter("225")}
    given = {item.name: next(answers[item.systems]) for item in ordered}
    path = fill_in(tmp_path / "rater-1.csv", lambda row, _: given[row["item"]])
    result = analyse(design, read_ratings(design, [path]))
    cell = result["systems"]["Secret"]["fluency"]
    assert cell["ci"] == pytest.approx([2 - 2.484138, 2 + 2.484138], abs=1e-6)
    assert result["tests"][0]["p"] == pytest.approx(0.225403, abs=1e-6)
    assert result["kappa"]["fluency"] is None  # two raters are needed to compute an agreement


def test_comparison_statistics_by_hand(tmp_path: Path) -> None:
    """Three raters compare six pairs.

    In the table, S means that Secret is preferred, H that Hidden is preferred, and 0 a tie.

    Most raters prefer Secret for the last four sentences. Secret loses no sentence, so the sign test has p = 2/16.
    Counting the judgements (10 wins, 2 losses) would give p = 0.039.
    """
    design = study(tmp_path, kind=COMPARE, raters=3, sentences=6)
    paths = []
    for rater, votes in enumerate(("SSSSSS", "00000S", "HH0SSS"), start=1):

        def answer(row: dict[str, str], _, votes: str = votes) -> str:
            side = secret_side(row)
            return {"S": side, "H": "BA"["AB".index(side)], "0": "tie"}[votes[int(row["source"].split()[1])]]

        paths.append(fill_in(tmp_path / f"rater-{rater}.csv", answer))
    (row, _) = analyse(design, read_ratings(design, paths))["comparisons"]
    assert row == {
        "system": "Secret",
        "against": "Hidden",
        "criterion": "fluency",
        "win": pytest.approx(1000 / 18),
        "tie": pytest.approx(600 / 18),
        "loss": pytest.approx(200 / 18),
        "sentences": {"win": 4, "tie": 2, "loss": 0},
        "p": 0.125,
    }


def test_sides_are_exchanged_and_keys_of_other_formats_are_refused(tmp_path: Path) -> None:
    """Test two raters who always answer A, and therefore never prefer the same system."""
    design = study(tmp_path, kind=COMPARE, sentences=6)
    paths = [fill_in(tmp_path / f"rater-{number}.csv", lambda *_: "A") for number in (1, 2)]
    result = analyse(design, read_ratings(design, paths))
    assert result["alpha"]["fluency"] == pytest.approx(-5 / 6)
    assert result["kappa"]["fluency"] == pytest.approx(-1.0)
    text = (tmp_path / "key.json").read_text("utf-8")
    other = tmp_path / "key-3.json"
    other.write_text(text.replace("wean-human-evaluation-2", "wean-human-evaluation-3"), "utf-8")
    with pytest.raises(UserError, match=r"key-3\.json.*'wean-human-evaluation-3'.*give the unchanged key"):
        Design.from_file(other)


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Replace the first match of ``pattern`` in a sheet."""
    text = path.read_text(encoding="utf-8")
    changed = re.sub(pattern, replacement, text, count=1)
    assert changed != text
    path.write_text(changed, encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"(item-\w+)(.*),3,3", r"\1\2,3,", "unanswered items item-"),
        (r"(item-\w+)(.*),3,3", r"\1\2,3,6", "answers that are none of 1, 2, 3, 4, 5 in item-"),
        (r"rater-1,item-\w+.*\r?\n", "", "missing items item-"),
        (r"(rater-1,item-\w+.*\n)", r"\1\1", "items rated twice item-"),
        # An unquoted comma in a text moves the answers to other columns.
        (r"(rater-1,item-\w+),", r"\1,4,", "rows with more cells than the heading item-"),
        (r"source", "fluency", "more than one column fluency"),
        (r"item-\w+", "item-zzzz", "unknown items item-zzzz"),
        (r"fluency", "fluent", "has no column fluency"),
        (r"rater-1", "rater-7", "names the raters"),
    ],
)
def test_spoilt_sheets_are_refused_by_name(tmp_path: Path, pattern: str, replacement: str, message: str) -> None:
    design = study(tmp_path)
    paths = [fill_in(tmp_path / f"rater-{number}.csv", lambda *_: "3") for number in (1, 2)]
    edit(paths[0], pattern, replacement)
    with pytest.raises(UserError, match=f"rater-1.csv.*{message}"):
        read_ratings(design, paths)


def test_empty_rows_below_a_sheet_are_left_out(tmp_path: Path) -> None:
    """Spreadsheet programs save a row that was cleared as separators alone."""
    design = study(tmp_path)
    paths = [fill_in(tmp_path / f"rater-{number}.csv", lambda *_: "3") for number in (1, 2)]
    expected = read_ratings(design, paths)
    with paths[0].open("a", encoding="utf-8") as sheet:
        sheet.write(",,,,\r\n , ,\r\n")
    assert read_ratings(design, paths) == expected


def change_texts(path: Path, columns: list[str], change) -> None:
    """Replace the cells of these columns by ``change(cells)``, and keep the other cells in their rows."""
    with path.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    for column in columns:
        for row, cell in zip(rows, change([row[column] for row in rows]), strict=True):
            row[column] = cell
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def changing_study(folder: Path, kind: str) -> tuple[Design, list[Path]]:
    """Write a study with texts that spreadsheet programs change, and fill in its sheets."""
    texts = ['=I said: "don\'t" \u2013 yes...', "12 May", "1.0", "a caf\u00e9\u00a0au lait", "", "-- 3"]
    outputs = [SystemOutput(name, [[f"{text}{end}"] for text in texts], "") for name, end in (("A", ""), ("B", " x y"))]
    sources = ["red cat", "old man", "blue dog", "big house", "green tree", "new car"]
    design = make_design(outputs, sources, ["fluency", "adequacy"], kind=kind, num_sentences=6, num_raters=2, seed=4)
    write_sheets(design, folder)
    answer = "3" if kind == LIKERT else "A"
    return design, [fill_in(folder / f"rater-{number}.csv", lambda *_: answer) for number in (1, 2)]


@pytest.mark.parametrize(
    ("kind", "columns", "change"),
    [
        (LIKERT, ["item"], sorted),
        (LIKERT, ["source"], sorted),
        (LIKERT, ["text"], lambda cells: [*cells[1:], cells[0]]),
        (LIKERT, ["text"], lambda cells: [cell.replace("au lait", "au the") for cell in cells]),
        (COMPARE, ["item"], sorted),
        (COMPARE, ["text A", "text B"], lambda cells: [*cells[1:], cells[0]]),
    ],
)
def test_texts_that_are_not_those_of_their_items_are_refused(
    tmp_path: Path, kind: str, columns: list[str], change
) -> None:
    design, paths = changing_study(tmp_path, kind)
    change_texts(paths[1], columns, change)
    with pytest.raises(
        UserError, match=r"rater-2.csv: the \S.* of item-\w{6} is '.*', but the rater got '.*'; bring the"
    ):
        read_ratings(design, paths)


def test_exchanged_sides_are_refused(tmp_path: Path) -> None:
    design, paths = changing_study(tmp_path, COMPARE)
    paths[0].write_text(
        paths[0].read_text(encoding="utf-8").replace("text A,text B", "text B,text A"), encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"rater-1\.csv: the text A of item-"):
        read_ratings(design, paths)


@pytest.mark.parametrize("kind", [LIKERT, COMPARE])
@pytest.mark.parametrize(
    "change",
    [
        lambda cells: [""] * len(cells),
        lambda cells: [{"1.0": "1", "12 May": "12.05.2026"}.get(cell, cell.replace("\u00a0", "  ")) for cell in cells],
        lambda cells: [cell.removeprefix("'").replace("...", "\u2026").replace("'", "\u2019") for cell in cells],
        lambda cells: [" " + cell.replace("caf\u00e9", "cafe\u0301").replace("\u2013", "-") + " \n" for cell in cells],
    ],
    ids=["cleared", "spaces-numbers-dates", "quotes-dots", "accents-dashes-ends"],
)
def test_changes_of_spreadsheet_programs_are_accepted(tmp_path: Path, kind: str, change) -> None:
    """The answers are read if texts were cleared or changed by a program. Names of items tell which text was rated."""
    design, paths = changing_study(tmp_path, kind)
    for path in paths:
        change_texts(path, ["text"] if kind == LIKERT else ["text A", "text B"], change)
    assert {len(answers) for answers in read_ratings(design, paths).values()} == {len(design.items)}


def test_missing_and_repeated_raters(tmp_path: Path) -> None:
    design = study(tmp_path)
    first = fill_in(tmp_path / "rater-1.csv", lambda *_: "3")
    with pytest.raises(UserError, match="no sheet of rater-2"):
        read_ratings(design, [first])
    with pytest.raises(UserError, match="second sheet of rater-1"):
        read_ratings(design, [first, first])


def test_semicolons_and_byte_order_mark_of_spreadsheet_programs(tmp_path: Path) -> None:
    design = study(tmp_path, raters=1)
    lines = ["rater;item;fluency;adequacy", *(f"rater-1;{item.name};3;4" for item in design.items)]
    path = tmp_path / "rater-1.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n")
    assert len(read_ratings(design, [path])["rater-1"]) == 6


def test_line_ends_of_older_spreadsheet_programs(tmp_path: Path) -> None:
    design = study(tmp_path, raters=1)
    path = fill_in(tmp_path / "rater-1.csv", lambda *_: "3")
    expected = read_ratings(design, [path])
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\r"))
    assert read_ratings(design, [path]) == expected


def test_small_files_that_name_large_products_end(tmp_path: Path) -> None:
    """Test a key with 9,000 systems and 9,000 sentences, which has 81 million items.

    A wide sheet with 100,000 short rows must not be read as rows of 100,000 cells.
    """
    design = study(tmp_path, raters=1)
    key = json.loads((tmp_path / "key.json").read_text("utf-8"))
    item = {"systems": [], "texts": [], "source": ""}
    items = [{"name": str(number), "sentence": number, **item} for number in range(9000)]
    key |= {"kind": COMPARE, "systems": list(map(str, range(9000))), "items": items}
    (tmp_path / "large.json").write_text(json.dumps(key), encoding="utf-8")
    with pytest.raises(UserError, match="The items are not those of the systems"):
        Design.from_file(tmp_path / "large.json")
    sheet = tmp_path / "wide.csv"
    for columns in ("", ",fluency,adequacy"):
        wide = ",".join(map(str, range(100_000)))
        sheet.write_text(f"rater,item{columns},{wide}\n" + "rater-1,\n" * 100_000, encoding="utf-8")
        with pytest.raises(UserError, match="unknown items" if columns else "no column fluency, adequacy"):
            read_ratings(design, [sheet])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_sentences": 7}, "cannot sample 7 of 6 sentences"),
        ({"criteria": ["a", "a"]}, "different names"),
        ({"sources": ["short"]}, "different numbers of lines"),
        ({"systems": [*systems(1), *systems(1)]}, "same name"),
        ({"systems": systems(1), "kind": COMPARE}, "needs more systems than 1"),
    ],
)
def test_impossible_studies(changes: dict, message: str) -> None:
    options = {"systems": systems(), "sources": SOURCES, "criteria": ["a"], "num_sentences": 2, **changes}
    positional = [options.pop(name) for name in ("systems", "sources", "criteria")]
    with pytest.raises(UserError, match=message):
        make_design(*positional, **options)


def test_a_study_is_written_again_after_an_interruption(tmp_path: Path) -> None:
    """Test sheets without a key, which a full disk or a kill leaves.

    An earlier version of the command then refused the files that it had written itself.
    """
    files = write_sheets(design := study(tmp_path / "whole"), tmp_path / "other")
    for path in files[2:]:
        path.unlink()
    assert write_sheets(design, tmp_path / "other") == files
    assert all(path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes() for path in files)


def test_a_study_is_not_overwritten_and_a_wrong_key_is_named(tmp_path: Path) -> None:
    design = study(tmp_path)
    with pytest.raises(UserError, match="there is a study in this folder already"):
        write_sheets(design, tmp_path)
    (tmp_path / "key.json").unlink()  # the key is hidden from the raters, whose sheets are already filled in
    fill_in(tmp_path / "rater-1.csv", lambda *_: "3")
    with pytest.raises(UserError, match=r"rater-1\.csv exists: there is a study in this folder already"):
        write_sheets(design, tmp_path)
    (tmp_path / "links").mkdir()
    # writing through the link would create the other file
    (tmp_path / "links" / "key.json").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match="there is a study in this folder already"):
        write_sheets(design, tmp_path / "links")
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match=r"Expected `object`, got `array`; give the unchanged key\.json"):
        Design.from_file(tmp_path / "other.json")


@pytest.mark.parametrize("kind", [LIKERT, COMPARE])
def test_a_changed_key_is_refused(kind: str, tmp_path: Path) -> None:
    """Test JSON members of key.json whose values have other types or contradict each other.

    The test leaves out the seed, which is not used.
    """
    study(tmp_path, kind, count=3)
    path, whole = tmp_path / "changed.json", json.loads((tmp_path / "key.json").read_text("utf-8"))
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert Design.from_file(path) == Design.from_file(tmp_path / "key.json")
    changes = []
    item, *others = whole["items"]
    for value in (None, 5.5, "x", [], {}, [1], [["x"]], ["x", "x"], float("nan")):
        changes += [{**whole, name: value} for name in whole.keys() - {"seed"}]
        as_good = {"source"} if value == "x" else {"texts"} if value == ["x", "x"] and kind == COMPARE else set()
        members = item.keys() - as_good
        changes += [{**whole, "items": [{**item, name: value}, *others]} for name in members]
        changes += [{**whole, "items": [value, *others]}, {**whole, "orders": {**whole["orders"], "rater-1": value}}]
    order = whole["orders"]["rater-1"]
    changes += [
        {**whole, "items": whole["items"][:-1]},
        {**whole, "items": [*whole["items"], whole["items"][0]]},
        {**whole, "raters": [*whole["raters"], "rater-9"]},
        {**whole, "systems": whole["systems"][:-1]},
        {**whole, "systems": [*whole["systems"], "Other"]},
        {**whole, "orders": {**whole["orders"], "rater-1": order[:-1]}},
        {**whole, "orders": {**whole["orders"], "rater-9": order}},
        {**whole, "more": 1},
    ]
    for change in changes:
        path.write_text(json.dumps(change), encoding="utf-8")
        with pytest.raises(UserError, match=r"changed\.json.*; give the unchanged key\.json"):
            Design.from_file(path)


def test_an_open_quotation_mark_is_named_without_the_rest_of_the_file(tmp_path: Path) -> None:
    """Test an open quotation mark, after which all rows belong to one cell. The message must not contain these rows."""
    design = study(tmp_path)
    sheet = tmp_path / "rater-1.csv"
    lines = fill_in(sheet, lambda *_: "3").read_text("utf-8").splitlines()
    filler = [f"rater-1,item-{number},,{'long text ' * 9},3,3" for number in range(3000)]
    for place in range(len(lines[2].split(","))):
        cells = lines[2].split(",")
        cells[place] = f'"{cells[place]}'
        sheet.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:], *filler]), encoding="utf-8")
        with pytest.raises(UserError, match=r"line 3 cannot be read .* a quotation mark is not closed") as error:
            read_ratings(design, [sheet])
        assert len(str(error.value)) < 400


def test_long_names_of_a_foreign_sheet_are_shortened(tmp_path: Path) -> None:
    design = study(tmp_path)
    sheet = fill_in(tmp_path / "rater-1.csv", lambda *_: "3")
    for name in ("rater-1", design.items[0].name):
        changed = tmp_path / "changed.csv"
        changed.write_text(sheet.read_text("utf-8").replace(name, name + "x" * 300_000), encoding="utf-8")
        with pytest.raises(UserError, match=r"names the raters|unknown items") as error:
            read_ratings(design, [changed])
        assert len(str(error.value)) < 400


def test_a_sheet_shows_no_source_of_another_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Test a log of the same sentences in another order."""
    (tmp_path / "src").write_text("red cat\nold man\n", encoding="utf-8")
    log = "".join(f"S-{number}\t{text}\nH-{number}\t-1\tx\n" for number, text in enumerate(["old man", "red cat"]))
    (tmp_path / "log").write_text(log, encoding="utf-8")
    command = ["sheet", "--generated", f"A={tmp_path}/log", "--src", f"{tmp_path}/src", "--sentences", "2"]
    assert main([*command, "--out", str(tmp_path / "study")]) == 2
    assert "A: 2 S- lines of its log are not the lines of the source" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


def test_command_line_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for system in systems():
        (tmp_path / system.name).write_text("\n".join(system.hypotheses) + "\n", encoding="utf-8")
    (tmp_path / "ref").write_text("\n".join(SOURCES) + "\n", encoding="utf-8")
    hyps = [f"{name}={tmp_path / name}" for name in NAMES[:2]]
    out = tmp_path / "study"
    options = ["--sentences", "2", "--raters", "2", "--ref", str(tmp_path / "ref"), "--out", str(out)]
    assert main(["sheet", "--hyp", *hyps, *options]) == 0
    assert "6 items for each of 2 raters" in capsys.readouterr().out
    sheets = [str(fill_in(out / f"rater-{number}.csv", lambda *_, n=number: str(2 + n))) for number in (1, 2)]
    assert main(["ratings", *sheets, "--key", str(out / "key.json"), "--json", str(tmp_path / "r.json")]) == 0
    assert "reference: fluency 3.50" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["raters"] == 2
    assert main(["ratings", *sheets, "--key", str(out / "key.json"), "--json", sheets[1]]) == 2
    assert "rater-2.csv would overwrite" in capsys.readouterr().err


@pytest.mark.parametrize("raters", ["0", "1001", "99999999999"])
def test_a_number_of_raters_that_no_study_has_is_refused(capsys: pytest.CaptureFixture[str], raters: str) -> None:
    """Test the limit of raters, without which a typing error could fill memory and disk with sheets."""
    with pytest.raises(SystemExit):
        main(["sheet", "--hyp", "X=x", "--out", "y", "--raters", raters])
    assert f"argument --raters: '{raters}' is not a whole number of 1 to 1000" in capsys.readouterr().err
