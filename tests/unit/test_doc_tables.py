"""Test that the generated tables of README.md and docs/ are up to date and have the scores of the result files."""

import json
import re
import tomllib

import doc_tables

FOLDERS = ("docs", "examples", "preprocess", "results", ".github")
DOCUMENTS = [*doc_tables.ROOT.glob("*.md"), *(doc_tables.ROOT / "benchmarks").glob("*.md")]
DOCUMENTS += [path for folder in FOLDERS for path in (doc_tables.ROOT / folder).rglob("*.md")]


def test_the_pages_have_the_tables():
    assert doc_tables.main(["--check"]) == 0, "run python scripts/doc_tables.py"


def test_the_documents_written_by_hand_have_at_most_25_000_words():
    """The words are counted as wc does, with commands and table bars, but without the blocks that a script writes."""
    written = [path for path in DOCUMENTS if path.name not in ("replication.md", "reliability.md")]
    block = re.compile(r"<!-- (?:results|[a-z]+): [^>]* -->\n.*?<!-- (?:/results|end of [a-z]+) -->", re.DOTALL)
    assert len(written) > 40
    assert sum(len(block.sub("", path.read_text(encoding="utf-8")).split()) for path in written) <= 25_000


def test_a_measured_score_is_that_of_its_file():
    """The expected scores are read from results/few_pairs_10000.json by the test itself."""
    entry = {"on": "pairs", "metric": "bleu", "result": "few_pairs_10000", "systems": ["copynet"]}
    path = doc_tables.ROOT / "results" / "few_pairs_10000.json"
    scores = json.loads(path.read_text(encoding="utf-8"))["evaluation"]["systems"]
    expected = [f"{scores[system]['bleu']['score']:.2f}" for system in ("copynet", "copy-source")]
    assert re.findall(r"\d+\.\d\d", " ".join(doc_tables.measured(entry))) == expected


def test_the_equations_have_the_systems_of_the_table():
    """Each heading names systems, followed by their papers in brackets.

    One heading is excluded, because it has equations that all copying systems share.
    """
    page = (doc_tables.ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    headings = re.findall(r"^##+ (?!Copying, shared)(.+)", page, flags=re.MULTILINE)
    paper = re.compile(r" \((?:[^()]|\([^()]*\))*\)")  # with one level of nested brackets
    shown = [name for heading in headings for name in re.split(r", | and ", paper.sub("", heading))]
    assert len(shown) == len(set(shown))
    content = tomllib.loads((doc_tables.ROOT / "docs" / "systems.toml").read_text(encoding="utf-8"))
    assert set(shown) == {name for system in content["system"] for name in system["name"].split(", ")}


def test_a_stale_page_is_reported_and_written_again(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: scripts/doc_tables.py -->\nold\n<!-- end of x -->\nb\n", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "systems.toml").write_text("", encoding="utf-8")
    monkeypatch.setattr(doc_tables, "ROOT", tmp_path)
    monkeypatch.setattr(doc_tables, "BLOCKS", {("page.md", "x"): lambda _content: doc_tables.table(["h"], [["1"]])})
    assert doc_tables.main(["--check"]) == 1
    assert "page.md" in capsys.readouterr().err
    assert doc_tables.main([]) == 0
    assert "|h|\n|---|\n|1|\n" in page.read_text(encoding="utf-8")
    assert doc_tables.main(["--check"]) == 0
