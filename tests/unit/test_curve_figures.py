"""The curves in the documents are drawn from kept data (scripts/figures.py)."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("figures", ROOT / "scripts" / "figures.py")
assert spec is not None
assert spec.loader is not None
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)

TABLE = "seed\tsystem\tepoch\tupdates\tbleu\n3\tA\t0.500\t5\t1\n3\tA\t1.000\t10\t2.5\n4\tA\t1.000\t10\t\n"


@pytest.fixture
def root(tmp_path):
    """Return a project with the curves of one experiment."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results/demo.curves.tsv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_a_table_is_read_as_trainings(root):
    (first, second), metrics = figures.read_curves(root / "results/demo.curves.tsv")
    assert (first.name, second.name, metrics) == ("A, seed 3", "A, seed 4", ["bleu"])
    assert [(line.epoch, line.updates, line.values["bleu"]) for line in first.valid] == [(0.5, 5, 1.0), (1.0, 10, 2.5)]
    assert "bleu" not in second.valid[0].values


def test_the_picture_is_a_png_with_the_experiment_as_title(root, monkeypatch):
    drawn = []
    draw_curves = figures.curves.draw_curves
    monkeypatch.setattr(figures.curves, "draw_curves", lambda *given: drawn.append(draw_curves(*given)) or drawn[0])
    (picture,) = figures.draw(root, ["demo"])
    assert drawn[0].get_suptitle() == "demo"
    assert picture == root / "docs/images/demo_curves.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_experiment_without_curves_is_named(capsys):
    assert figures.main(["none_of_this_name"]) == 2
    assert "none_of_this_name.curves.tsv does not exist" in capsys.readouterr().err


def test_every_picture_of_curves_has_its_data():
    pictures = [path.name.removesuffix("_curves.png") for path in (ROOT / "docs/images").glob("*_curves.png")]
    assert [name for name in pictures if not (ROOT / "results" / f"{name}{figures.SUFFIX}").exists()] == []
