"""Test ``examples/paper_tables.sh`` on the recorded results: published numbers, our numbers and missing numbers."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import BIN, ENVIRONMENT, ROOT
from wean_fairseq.evaluation.published import PUBLISHED_TABLES

SCRIPT = ROOT / "examples" / "paper_tables.sh"


def run(**variables: object) -> subprocess.CompletedProcess[str]:
    """Run the script with variables in the environment of the tests."""
    environment = ENVIRONMENT | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    environment |= {name: str(value) for name, value in variables.items()}
    return subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture(scope="module", name="document")
def render(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Render the document. Check that no other file was written, so that no model was trained or decoded."""
    folder = tmp_path_factory.mktemp("tables")
    done = run(OUTPUT=folder / "all.md")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["all.md"]
    return (folder / "all.md").read_text(encoding="utf-8")


def sections(document: str) -> list[str]:
    """Return the sections that contain a table of scores."""
    return [part for part in re.split(r"^##+ ", document, flags=re.MULTILINE) if "| numbers |" in part]


def test_every_published_number_is_there(document: str) -> None:
    """Test that each data set has a section with the numbers of each of its systems, line by line."""
    parts = iter(sections(document))
    for table in PUBLISHED_TABLES.values():
        for rows in table.rows.values():
            part = next(parts)
            published = re.findall(
                r"^\| ([^|]+) \| (?:published|reported, not run) \| (.*) \| P\d+ \|$", part, re.MULTILINE
            )
            assert [name for name, _ in published] == list(rows)
            for (name, cells), row in zip(published, rows.values(), strict=True):
                numbers = [float(cell) if re.match(r"[\d.]+$", cell) else None for cell in cells.split(" | ")]
                assert numbers == [*row.scores, *(None for _ in table.beside)], name
    assert next(parts, None) is None


def test_every_line_says_where_it_comes_from(document: str) -> None:
    """Test that the last column and the legend have the same marks.

    The commands for missing numbers must call existing scripts.
    """
    for part in sections(document):
        used = {
            mark
            for marks in re.findall(r"\| ([A-Z]\d+(?:, [A-Z]\d+)*) \|$", part, re.MULTILINE)
            for mark in marks.split(", ")
        }
        origins = dict(re.findall(r"^- ([A-Z]\d+): (.+)$", part, re.MULTILINE))
        body = re.findall(r"^\| .*\|$", part, re.MULTILINE)
        assert used == set(origins)
        assert sum(bool(re.search(r"\| [A-Z]\d+", line)) for line in body) == len(body) - 1
        assert "{" not in part
        for script in re.findall(r"bash (examples/\S+?\.sh)", part):
            assert (ROOT / script).is_file()


def test_kept_results_are_shown(document: str) -> None:
    """Test that the table shows the scores of two result files with two decimals."""
    for name, system, key in (
        ("wean_simplification_pwkp_gpu", "wean_lstm", "paper:wean-pwkp/BLEU"),
        ("copynet_dialogue_ds2", "copynet", "paper:copynet-dialogue/exact@10"),
    ):
        content = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
        score = content["evaluation"]["systems"][system][key]["score"]
        assert re.search(rf"\| ours \(`{system}`\) \|.* {score:.2f} \|.* R\d", document)
        assert f"results/{name}.json, " in document


def test_variables_reach_the_command(tmp_path: Path) -> None:
    done = run(OUTPUT=tmp_path / "one.md", TABLES="wean-table3 cdnpg-table5")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^## (\S+)", (tmp_path / "one.md").read_text("utf-8"), re.MULTILINE) == ["WEAN", "C-DNPG", "Not"]
    for variables, message in (
        ({"RESULTS": tmp_path / "nowhere"}, "is not a folder with results"),
        ({"RELEASED": f"pwkp={tmp_path}"}, "has no references"),
    ):
        failed = run(OUTPUT=tmp_path / "none.md", **variables)
        assert failed.returncode == 2
        assert message in failed.stderr and failed.stderr.count("\n") == 1
        assert not (tmp_path / "none.md").exists()
