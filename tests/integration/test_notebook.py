"""The notebook for teachers: its cells run in order and refer to existing names."""

import ast
import os
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
    assert [cell.outputs for cell in cells] == [[]] * len(cells), "the notebook is kept without outputs"
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


@pytest.mark.slow
def test_the_notebook_runs_from_the_first_cell_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from nbclient import NotebookClient

    small = {"SMOKE": "1", "GPUS": "0", "RUN": str(tmp_path / "run"), "PYTHONPATH": str(ROOT)}
    for name, value in (ENVIRONMENT | small | {"PATH": f"{BIN}{os.pathsep}{ENVIRONMENT['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    done = notebook()
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    # A kernel may need more than a minute to start if other tests use all cores.
    NotebookClient(done, timeout=TIMEOUT, startup_timeout=TIMEOUT, resources=folder).execute()
    said = ["".join(part.get("text", "") for part in cell.get("outputs", [])) for cell in done.cells]
    assert any("BLEU" in text or "bleu" in text for text in said)
    pictures = [part for cell in done.cells for part in cell.get("outputs", []) if "image/png" in part.get("data", {})]
    assert len(pictures) == 1
