"""Test the notebook for teachers: its cells run in order, and the names in it exist."""

import ast
import os
import re
from pathlib import Path
from pkgutil import resolve_name

import nbformat
import pytest

from tests.integration.commands import BIN, ENVIRONMENT, ROOT, TIMEOUT
from wean_fairseq.generation import Generated, Output, TextModel

NOTEBOOK = ROOT / "examples" / "teaching.ipynb"


def notebook() -> nbformat.NotebookNode:
    found = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(found)
    return found


def test_the_cells_are_python_and_name_what_there_is():
    cells = [cell for cell in notebook().cells if cell.cell_type == "code"]
    parts = list(ast.walk(ast.parse("\n".join(cell.source for cell in cells))))
    for node in parts:
        if isinstance(node, ast.ImportFrom):
            assert all(resolve_name(f"{node.module}:{name.name}") for name in node.names)
    kinds = {"model": TextModel, "found": Generated, "output": Output}
    attributes = {
        (node.value.id, node.attr)
        for node in parts
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in kinds
    }
    assert {name for name, _ in attributes} == set(kinds)
    known = {name: {*dir(kind), *getattr(kind, "__dataclass_fields__", ())} for name, kind in kinds.items()}
    assert [(name, attribute) for name, attribute in attributes if attribute not in known[name]] == []


def test_the_notebook_is_stored_with_its_outputs():
    """Test that readers can see the outputs without running the notebook.

    The outputs must contain no path of the machine on which the notebook was run.
    """
    cells = [cell for cell in notebook().cells if cell.cell_type == "code"]
    silent = [cell for cell in cells if not cell.outputs]
    assert [cell.source.split()[0] for cell in silent] == ["import"], "only the imports print nothing"
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "the cells were run in order"
    parts = [part for cell in cells for part in cell.outputs]
    assert {part.get("name", "stdout") for part in parts} == {"stdout"}, "no warnings, no error"
    printed = "".join(part.get("text", "") for part in parts)
    assert re.search(r"^WEAN +the famous \w+ bought a car in 1969\.$", printed, flags=re.MULTILINE)
    assert not re.search(r"(?<!\w)/(?:home|root|tmp|usr|work)/", printed)
    assert len([part for part in parts if "image/png" in part.get("data", {})]) == 1


@pytest.mark.slow
def test_the_notebook_runs_from_the_first_cell_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from nbclient import NotebookClient

    small = {"SMOKE": "1", "GPUS": "0", "RUN": str(tmp_path / "run"), "PYTHONPATH": str(ROOT)}
    for name, value in (ENVIRONMENT | small | {"PATH": f"{BIN}{os.pathsep}{ENVIRONMENT['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    done = notebook()
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    # If other tests use all cores, a kernel may need more than a minute to start.
    NotebookClient(done, timeout=TIMEOUT, startup_timeout=TIMEOUT, resources=folder).execute()
    said = ["".join(part.get("text", "") for part in cell.get("outputs", [])) for cell in done.cells]
    assert any("BLEU" in text or "bleu" in text for text in said)
    pictures = [part for cell in done.cells for part in cell.get("outputs", []) if "image/png" in part.get("data", {})]
    assert len(pictures) == 1
