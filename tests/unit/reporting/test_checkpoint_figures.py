"""Test the figures and tables that a report computes from checkpoints.

An unusable checkpoint is mentioned in the report, and does not cause an error.
"""

from argparse import Namespace

import pytest
import torch

from tests.unit.reporting.run_folder import make_run
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.tables import Table
from wean_fairseq.reporting import checkpoint_figures, trace
from wean_fairseq.reporting.document import FigureBlock, ListBlock
from wean_fairseq.reporting.dumps import Attention
from wean_fairseq.reporting.report_cli import main
from wean_fairseq.reporting.runs import read_run

WORDS = ["the", "piano", "learn", "@@ly", "42", "book"]
#: The cosines of "piano" with "learn" and "book" are 0.8 and 0, computed by hand.
ROWS = {"piano": [1.0, 0.0], "learn": [0.8, 0.6], "book": [0.0, 1.0]}


@pytest.fixture(name="folder")
def run_with_checkpoints(tmp_path):
    """Return a run with two checkpoints. The first has an embedding, and the second is incomplete."""
    folder = make_run(tmp_path / "run")
    (folder / "bin").mkdir()
    (folder / "bin" / "dict.src.txt").write_text("".join(f"{word} 1\n" for word in WORDS))
    embedding = torch.tensor([[0.0, 0.0]] * 4 + [ROWS.get(word, [-1.0, -1.0]) for word in WORDS])
    parameters = {"decoder.embed_out": embedding + 1, "encoder.some.embedding.weight": embedding}
    torch.save({"model": parameters}, folder / "transformer" / "checkpoint_best.pt")
    (folder / "copy_transformer" / "checkpoint_best.pt").write_bytes(b"PK")
    return folder


def blocks(folder, monkeypatch, attention=None):
    """Return the blocks of a run in a report, computed without fairseq."""
    monkeypatch.setattr(trace, "open_model", lambda checkpoint, data: checkpoint)
    monkeypatch.setattr(trace, "trace_attention", attention or (lambda loaded, lines: 1 / 0))
    drawn = []

    def write(draw, name, caption):
        drawn.append((name, draw))
        return FigureBlock(folder / "a.png", folder / "a.svg", caption)

    return list(checkpoint_figures.from_checkpoints(read_run(folder), ", seed 1", write)), drawn


def test_neighbours_of_content_words_stand_in_a_table(folder, monkeypatch):
    found, _ = blocks(folder, monkeypatch)
    (table,) = [block for block in found if isinstance(block, Table)]
    assert table.head == ["word", "transformer"]
    assert table.caption.endswith(" cosines, seed 1")
    assert [str(row[0]) for row in table.rows] == ["learn", "piano", "book"]  # in the order of the test text
    assert str(table.rows[1][1]).startswith("learn 0.80, book 0.00")


def test_what_cannot_be_shown_is_said_without_paths(folder, monkeypatch):
    found, drawn = blocks(folder, monkeypatch)
    (missing,) = [block for block in found if isinstance(block, ListBlock)]
    assert drawn == []
    broken = "its checkpoint does not load here (ZeroDivisionError: division by zero)"
    assert missing.items[0] == f"attention of transformer: {broken}"
    assert missing.items[-1].startswith("neighbours of copy_transformer: checkpoint_best.pt is damaged")
    assert str(folder) not in str(missing.items)


def test_attention_is_drawn_of_the_sentence_the_models_read(folder, monkeypatch):
    """If the recipe kept the test set in word pieces, these are drawn, otherwise the text."""
    asked = []

    def attention(loaded, lines):
        asked.extend(lines)
        return [Attention(["a"], ["b"] * 99, [[1.0]] * 99)]  # a long output, as of a model that never ends, is cut

    found, drawn = blocks(folder, monkeypatch, attention)
    assert [name for name, _ in drawn] == ["transformer attention", "copy_transformer attention"]
    assert all(len(draw.args[0][0].output) == 30 for _, draw in drawn)
    assert set(asked) == {"how do i learn the piano"}  # among the sentences, this length is nearest to ten words
    assert any(isinstance(block, FigureBlock) for block in found)
    (folder / "bin").rename(folder / "bin-test")
    (folder / "bin-test" / "test.src-tgt.src").write_text("pi@@ ano\n")
    assert checkpoint_figures.find_example(read_run(folder)) == (folder / "bin-test", "pi@@ ano")
    for name in ("test.src-tgt.src", "dict.src.txt"):  # files behind links out of the run are not shown
        (folder / "bin-test" / name).rename(folder.parent / name)
        (folder / "bin-test" / name).symlink_to(folder.parent / name)
    run = read_run(folder)
    assert checkpoint_figures.find_example(run) is None
    assert run.problems[-1].startswith("bin-test/dict.src.txt is behind a link")


def test_only_the_parts_of_a_run_use_data_of_the_folder_above(tmp_path):
    """Data beside a run may be private."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dict.src.txt").touch()
    assert checkpoint_figures.find_example(read_run(make_run(tmp_path / "run"))) is None
    (tmp_path / ".run.lock").touch()  # a recipe has locked the folder
    data, _ = checkpoint_figures.find_example(read_run(tmp_path / "run"))
    assert data == tmp_path / "bin"


def test_a_report_can_leave_the_checkpoints_out(folder, tmp_path):
    pages = []
    for options in ([], ["--no-checkpoints"]):
        assert main([str(folder), "--output", str(tmp_path / "page"), *options]) == 0
        pages.append((tmp_path / "page" / "report.html").read_text("utf-8"))
    assert ["Nearest neighbours" in page for page in pages] == [True, False]


def test_without_dictionaries_there_is_one_sentence(folder, monkeypatch):
    (folder / "bin" / "dict.src.txt").unlink()
    ((missing,), _) = blocks(folder, monkeypatch)
    assert missing.items == ["attention and neighbours: there is no bin directory with the dictionaries (dict.src.txt)"]


def test_a_line_without_words_is_refused():
    """The text processing of a model removes zero-width characters, so a line may become empty."""
    model = Namespace(text=Namespace(prepare=lambda line: line.strip("\u200b")), explain=None)
    with pytest.raises(UserError, match="line 2 of the text has no words"):
        trace.trace_attention(model, ["a", "\u200b"])
