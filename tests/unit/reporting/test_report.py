"""Test that the report is one page without external files, which shows all text unchanged, and also Markdown."""

import json
import os
import re
from datetime import date
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.reporting.run_folder import OUTPUTS, SOURCES, make_run
from wean_fairseq.evaluation.published import PUBLISHED_TABLES
from wean_fairseq.reporting import figures
from wean_fairseq.reporting.document import Document, Piece, Sample, SamplesBlock, Section, escape, markdown_page, slug
from wean_fairseq.reporting.report_cli import main

A_DAY = 400_000_000  # in seconds
HOSTILE = "<script>alert(1)</script> \"onload=x' {{7*7}} ]]> | ** [a](javascript:b) \u202eabc\u0000 &amp; `$x$`"


class Page(HTMLParser):
    """Parser that collects the text of the page as a browser would show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.shown += data

    def attributes(self, name: str) -> list[str]:
        return [value for _, found in self.tags if (value := found.get(name))]


def report(folder: Path, *runs: Path) -> tuple[str, str]:
    assert main([*map(str, runs), "--output", str(folder)]) == 0
    return (folder / "report.html").read_text(encoding="utf-8"), (folder / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> tuple[str, str]:
    """Return the two pages of a report with hostile text in sources, outputs, names, settings and remarks."""
    folder = tmp_path_factory.mktemp("hostile")
    lines = [HOSTILE, f"{HOSTILE} {'x' * 100_000}", "שלום עולם", "a\u2028b"]
    outputs = {"<b>evil": lines, "other": SOURCES}
    run = make_run(
        folder / "run<i>", sources=lines, references=lines, outputs=outputs, preset="paper:wean-pwkp", remark=HOSTILE
    )
    with (run / "settings").open("a") as settings:
        settings.write(f"X={HOSTILE}\n")
    scored = json.loads((run / "test.json").read_text())
    endless = {HOSTILE * 1000: {HOSTILE * 1000: {"score": 1.0, "signature": HOSTILE * 1000}}}
    scored["systems"] |= endless
    (run / "test.json").write_text(json.dumps(scored))
    return report(folder / "out", run)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("plain")
    runs = [make_run(folder / "quora" / f"seed{seed}", seed=seed) for seed in (1, 2)]
    return folder, *report(folder / "out", *runs)


def test_nothing_hostile_gets_into_the_page(hostile):
    page = Page(hostile[0])
    assert not {tag for tag, _ in page.tags} & {"script", "iframe", "object", "b", "i", "link", "svg"}
    assert not [name for _, found in page.tags for name in found if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.shown  # shown as text
    assert "{{7*7}}" in page.shown
    for text in hostile:
        assert not set("\0\u202e") & set(text)  # these would end a file early or reverse the text after them
        assert len(text) < 600_000


def test_the_page_loads_nothing(hostile, plain):
    for text in (hostile[0], plain[1]):
        page = Page(text)
        assert all(address.startswith("data:image/svg+xml;base64,") for address in page.attributes("src"))
        assert all(address.startswith("#") for address in page.attributes("href"))
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        assert {"http-equiv": "Content-Security-Policy", "content": policy} in [found for _, found in page.tags]
        assert not re.search(r"url\(|@import", text)


def test_the_page_can_be_used_by_keyboard_and_screen_reader(plain):
    page = Page(plain[1])
    identifiers = page.attributes("id")
    assert len(identifiers) == len(set(identifiers))
    assert {address[1:] for address in page.attributes("href")} <= set(identifiers)
    assert all(found.get("alt") for tag, found in page.tags if tag == "img")
    scrolled = [found for _, found in page.tags if found.get("class") == "scroll"]
    assert scrolled
    assert all(found["tabindex"] == "0" and found["aria-label"] for found in scrolled)
    assert ("html", {"lang": "en"}) in page.tags
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))


def test_the_page_says_what_must_be_known(plain):
    """Two seeds have the same outputs, so the mean is the score and the deviation is 0."""
    _, html, markdown = plain
    shown = " ".join(Page(html).shown.split())
    assert "quora: 2 systems (transformer, copy_transformer), scores on test, seed 1, 2." in shown
    assert "± 0.00" in shown
    assert "nrefs:1|case:mixed" in shown
    assert "12,345" in shown
    assert "DATA=…/data/quora" in shown
    assert "private" not in html + markdown
    assert "Mean ± sample standard deviation over seeds." in shown
    for name in ("3,586,984", "250", "1040.5"):  # parameters, ms per update, sentences per second
        assert name in shown


def test_outputs_and_scores_come_first_and_settings_last(plain):
    headings = re.findall(r"^### (.*)$", plain[2], flags=re.MULTILINE)
    assert headings[:2] == ["Outputs on test", "Scores on test"]
    assert headings[-1] == "Data and settings"


def test_every_figure_is_there_as_png_and_svg(plain):
    folder, _, markdown = plain
    figures = folder / "out" / "figures"
    linked = re.findall(r"\((figures/[^)]+)\)", markdown)
    assert sorted(f"figures/{path.name}" for path in figures.iterdir()) == sorted(linked)
    assert {Path(name).suffix for name in linked} == {".png", ".svg"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures.glob("*.png"))


def test_the_same_runs_give_the_same_report(plain):
    folder, html, markdown = plain
    before = {path.name: path.read_bytes() for path in (folder / "out" / "figures").iterdir()}
    again = report(folder / "out", *(folder / "quora" / f"seed{seed}" for seed in (1, 2)))
    assert again == (html, markdown)
    assert before == {path.name: path.read_bytes() for path in (folder / "out" / "figures").iterdir()}


def test_tables_of_the_markdown_are_whole(plain, hostile):
    for text in (plain[2], hostile[1]):
        tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
        assert tables
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    assert "<script>" not in hostile[1].replace("\\<script\\>", "")


def test_names_that_differ_in_signs_have_files_of_their_own():
    taken: set[str] = set()
    names = [slug(name, taken) for name in ("C-DNPG (R+S)", "C-DNPG (R*S)", "注意", "x" * 500, "c dnpg r s 2")]
    assert names == ["c-dnpg-r-s", "c-dnpg-r-s-2", "x", "x" * 100, "c-dnpg-r-s-2-2"]


def test_chinese_samples_are_marked_in_markdown(tmp_path):
    """Markdown's markers would need spaces around them, which Chinese lacks, so the page uses HTML."""
    pieces = (Piece("天", "copied"), Piece("<", "new"), Piece("好", "new"), Piece("？", "dropped"))
    block = SamplesBlock("one", [Sample(1, (("a", pieces),))], [], glue="")
    text = markdown_page(Document("t", [], [Section("s", [block])], ["by `a\n\n<b>`"]), tmp_path)
    assert "- *a*: 天<b>\\<好</b><del>？</del>\n" in text
    assert "\n- by `a  <b>`\n" in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b*c_d<e>", r"a\|b\*c\_d\<e\>"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("1.25", "1.25"),
        ("-2.5", r"\-2.5"),
    ],
)
def test_markdown_shows_text_as_it_is(text, escaped):
    assert escape(text) == escaped


def test_warnings_come_first(tmp_path):
    outputs = {"transformer": ["x", "y", "z", "w"]}
    leaks = {"train / test": {"pairs": 3}}
    splits = {"train": {"kept": 900}, "valid": {"kept": 100}, "test": {"kept": 4}}
    make_run(tmp_path / "run", outputs=outputs, remark="Made up.", leaks=leaks, splits=splits)
    (tmp_path / "run" / "idle").mkdir()
    (tmp_path / "run" / "idle" / "train.log").write_text("nothing yet\n")
    html, markdown = report(tmp_path / "out", tmp_path / "run")
    shown = " ".join(Page(html).shown.split())
    for sentence in (
        "Stand-in data: Made up.",
        "The test set has 4 pairs, and scores are unreliable with fewer than 100.",
        "3 pairs of the training data are in the test data too.",
        "One seed: how much a score varies from training to training is unknown.",
        "No scores of idle: not decoded, or not scored with the others.",
        # this follows from LOG in run_folder.py
        "The training of transformer ended too early: its last validation is the best.",
        "idle: its train.log holds no validation that can be read, so it has no curve.",
        "The copy row wins",
    ):
        assert sentence in shown
        assert shown.index(sentence) < shown.index("Standard metrics")
    assert "Stand-in data: Made up." in markdown


def test_a_mistake_is_one_sentence(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere")]) == 2
    error = capsys.readouterr().err
    assert (
        error
        == f"wean-report: error: there is no directory {tmp_path / 'nowhere'}; give the run directory of a recipe.\n"
    )
    (tmp_path / "file").write_text("")
    assert main([str(make_run(tmp_path / "run")), "--output", str(tmp_path / "file")]) == 2
    assert "wean-report: error: " in capsys.readouterr().err


def test_an_emptied_report_is_written_again(tmp_path):
    run, out = make_run(tmp_path / "run"), tmp_path / "out"
    report(out, run)
    (out / "report.html").write_text("")
    report(out, run)
    assert (out / "report.html").stat().st_size > 0


@pytest.mark.parametrize("kind", ["file", "link", "figures", "linked figure"])
def test_only_an_older_report_is_replaced(tmp_path, capsys, kind):
    run, out = make_run(tmp_path / "run"), tmp_path / "out"
    mine = tmp_path / "mine"
    mine.write_text("mine")
    if kind == "linked figure":  # in a report of wean-report, figures may be overwritten
        report(out, run)
        report(out, run)
        figure = next((out / "figures").iterdir())
        figure.unlink()
        figure.symlink_to(mine)
    else:
        (out / "figures").mkdir(parents=True)
        place = out / ("figures/scores.png" if kind == "figures" else "report.html")
        # a text that quotes a report is not a report
        text = 'Chapter 1: "Made by `wean-report run` (wean_fairseq 1.0) from the files of the run directories"'
        place.symlink_to(mine) if kind == "link" else place.write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main([str(run), "--output", str(out)]) == 2
    assert "is a link, or was not written by wean-report: choose another --output." in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_report_that_cannot_be_drawn_leaves_the_older_one(tmp_path, monkeypatch, capsys):
    """In earlier versions, its first figures replaced the older ones, and a new folder had an unfinished page."""
    run, out = make_run(tmp_path / "run"), tmp_path / "out"
    report(out, run)
    scored = json.loads((run / "test.json").read_text())
    for score in scored["systems"]["transformer"].values():
        score["score"] = 1.0
    (run / "test.json").write_text(json.dumps(scored))
    monkeypatch.setattr(figures, "draw_curves", lambda *_, **__: figures.new_figure(1, 1, (151, 1))[0])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for folder in (out, tmp_path / "new"):
        assert main([str(run), "--output", str(folder)]) == 2
        message = "error: the sentences, words or systems are too long or too many to draw; choose fewer and shorter"
        assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "new").exists()


def test_a_broken_dump_costs_only_its_own_figure(tmp_path):
    """The dump of granularities has a layer with more digits than Python converts to a number."""
    run = make_run(tmp_path / "run")
    line = {"id": 0, "source": ["the", "cat"]}
    granular = line | {"source_granularity": {"9" * 5000: [0.1, 0.2]}}
    copied = line | {"output": [{"word": "cat", "copied": 1.0, "positions": {"1": 1.0}}]}
    (run / "transformer" / "z.jsonl").write_text(json.dumps(granular) + "\n")
    (run / "transformer" / "copied.jsonl").write_text(json.dumps(copied) + "\n")
    html, _ = report(tmp_path / "out", run)
    shown = " ".join(Page(html).shown.split())
    warning = "transformer: line 1 of transformer/z.jsonl has no granularities: give a file that --granularity-dump"
    assert warning in shown
    assert str(tmp_path) not in shown.replace(f"wean-report {run} --output {tmp_path / 'out'}", "")
    assert {path.stem for path in (tmp_path / "out" / "figures").glob("*provenance*")} == {"run-transformer-provenance"}


def test_the_head_names_systems_data_date_and_command(tmp_path):
    run = make_run(tmp_path / "mine")
    for file in [run / "test.json", *run.glob("*/train.log")]:
        os.utime(file, (0, A_DAY))
    html, markdown = report(tmp_path / "out", run)
    assert "<h1>Report: mine: transformer, copy_transformer on quora</h1>" in html
    head = " ".join(Page(html[: html.index("<nav")]).shown.split())
    day = date.fromtimestamp(A_DAY).isoformat()
    assert re.search(rf"Made by wean-report \S+ --output \S+ .* last written {day}\.", head)
    assert "last written" in markdown.partition("\n## ")[0]


@pytest.mark.parametrize(("script", "published"), [("quora", True), ("own_pairs", False)])
def test_own_pairs_stand_beside_no_published_table(tmp_path, script, published):
    """The names of the file and the folder must not decide which published table is shown."""
    run = make_run(tmp_path / "quora", script=script, outputs={**OUTPUTS, "wean_lstm": SOURCES})
    (run / "settings").write_text("SEED=1\nDATA=/home/me/quora.csv\n")
    html, _ = report(tmp_path / "out", run)
    tables = Page(html[html.index("<main") :]).shown
    captions = [
        f"{PUBLISHED_TABLES[key].source}: {PUBLISHED_TABLES[key].title}" for key in ("wean-table5", "cdnpg-table2")
    ]
    for name in ("published, relative", *captions):
        assert (name in tables) == published
    assert ('class="published"' in html) == published
