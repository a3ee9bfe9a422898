"""Test that the SVG figures of the documents are up to date and well formed, and show the recorded numbers."""

import json
import re
import tomllib
from xml.etree import ElementTree as ET

import diagrams
import pytest


def test_the_figures_are_up_to_date():
    assert diagrams.main(["--check"]) == 0, "run python scripts/diagrams.py"


@pytest.mark.parametrize("name", diagrams.FIGURES)
def test_a_figure_is_a_small_svg_with_a_title_and_a_description(name):
    drawn = diagrams.FIGURES[name]()
    picture = ET.fromstring(drawn)
    assert picture.find("{http://www.w3.org/2000/svg}title").text
    assert picture.find("{http://www.w3.org/2000/svg}desc").text
    assert len(drawn) < 10_000, "a figure is small"


def test_the_dot_plot_shows_the_recorded_scores():
    """The expected scores are read from the files in results/ by the test itself, not by the script."""
    expected = []
    shown = tomllib.loads((diagrams.ROOT / "docs" / "systems.toml").read_text(encoding="utf-8"))["score"]
    for entry in shown:
        record = json.loads((diagrams.ROOT / "results" / f"{entry['result']}.json").read_text(encoding="utf-8"))
        for system in entry["systems"]:
            scores = record["evaluation"]["systems"][system]
            expected += [f"{scores['bleu']['score']:.1f}", f"{scores['sari']['score']:.1f}"]
    assert re.findall(r">(\d+\.\d)</text>", diagrams.scores()) == expected


def test_the_curves_show_the_recorded_losses():
    """The legend shows the lowest loss of each system, and each curve has one point per epoch."""
    table = diagrams.ROOT / "results" / f"{diagrams.CURVES}.curves.tsv"
    rows = [row.split("\t") for row in table.read_text(encoding="utf-8").splitlines()[1:]]
    expected = sorted(
        f"{name} {min(float(row[4]) for row in rows if row[1] == name):.3f}" for name in {row[1] for row in rows}
    )
    drawn = diagrams.curves()
    assert sorted(re.findall(r">(\w+ \d\.\d{3})</text>", drawn)) == expected
    points = [len(line.split()) for line in re.findall(r'<polyline points="([^"]+)"', drawn)]
    assert (len(points), sum(points)) == (len(expected), len(rows))


def test_the_learning_curve_has_the_recorded_scores():
    """Heights are read back: 220 units are the range of each panel. The test set of all points is the same."""
    drawn = diagrams.learning()
    heights = [float(y) for y in re.findall(r'<circle cx="[^"]+" cy="([^"]+)"', drawn)]
    expected, copied = [], set()
    for metric, low, high in (("bleu", 4, 32), ("sari", 36, 48)):
        for name in diagrams.LEARNERS:
            for result, system in (
                ("all_systems_quora_5000", name),
                ("all_systems_quora_20000", name),
                ("wean_quora_gpu", name),
                ("cdnpg_quora_gpu", {"paraphrase_transformer": "transformer"}.get(name)),
            ):
                record = json.loads((diagrams.ROOT / "results" / f"{result}.json").read_text(encoding="utf-8"))
                systems = record["evaluation"]["systems"]
                copied.add(systems["copy-source"]["bleu"]["score"])
                if system in systems:
                    expected.append(270 - 220 * (systems[system][metric]["score"] - low) / (high - low))
    assert heights == pytest.approx(expected, abs=0.06)
    assert len(heights) == 26
    assert len(copied) == 1


def test_the_bars_show_the_recorded_ratios():
    """The bars of fairseq's models must show the ratio 1.

    The expected ratio of wean_lstm is read from decoding.json by the test itself.
    """
    shown = re.findall(r">([^<]+)</text>", diagrams.speed())
    assert shown.count("1.00") == 3
    search = shown[shown.index("Beam search: CPU time, fairseq = 1 (shorter is faster)") :]
    record = json.loads((diagrams.ROOT / "benchmarks/results/decoding.json").read_text(encoding="utf-8"))
    ratio = record["time"]["1"]["wean_lstm"]["cpu_ratio"]
    assert search[search.index("wean_lstm") + 1] == f"{ratio:.2f}"


def test_the_matrix_has_a_square_for_each_claim():
    """Each claim in docs/replication.md has a summary that begins with the symbol of its verdict."""
    page = (diagrams.ROOT / "docs" / "replication.md").read_text(encoding="utf-8")
    summaries = re.findall(r"<summary>(.)", page)
    drawn = re.findall(r'href="#v(\d)"', diagrams.matrix())
    for kind, sign in enumerate("🟩🟨🟦🟥⬜⬛🔲"):
        assert drawn.count(str(kind)) == summaries.count(sign) + 1, "one more in the legend"


def test_the_architecture_has_every_layer():
    """docs/architecture.md lists the subpackages of all layers, and each of them must be drawn."""
    page = (diagrams.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = re.findall(r"^\d  ([a-z]+)", page, flags=re.MULTILINE)
    assert len(parts) > 15
    shown = re.findall(r">([^<]+)</text>", diagrams.architecture())
    assert [part for part in parts if part not in shown] == []


def test_a_stale_figure_is_named_and_drawn_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(diagrams, "IMAGES", tmp_path)
    assert diagrams.main(["--check"]) == 1
    assert "query.svg" in capsys.readouterr().err
    assert diagrams.main([]) == 0
    assert diagrams.main(["--check"]) == 0
