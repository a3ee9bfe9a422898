"""Test figures by the values on their axes, with words of every kind and Chinese, and reproducible files."""

import json
import logging
import math

import pytest
import torch

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.neighbours import EMBEDDING
from wean_fairseq.reporting import figures, style
from wean_fairseq.reporting.dumps import Attention, CopiedWord, Coverage, Provenance
from wean_fairseq.reporting.plot_cli import main

ODD = "$x$ and $", "a_b^{c}", "\0\x1b[31m\u202e", "שלום", "x" * 500, "</s>", "中文"


@pytest.fixture(autouse=True)
def forget_the_font():
    for cached in (style.chinese_font, style._name_font):
        cached.cache_clear()
    yield
    style.chinese_font.cache_clear()


def values(panel) -> list[list[float]]:
    return panel.images[0].get_array().tolist()


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_attention_has_output_words_as_rows():
    weights = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]
    panel = figures.attention([Attention(["a", "b"], ["x", "y", "</s>"], weights)]).axes[0]
    assert values(panel) == weights
    assert (labels(panel.xaxis), labels(panel.yaxis)) == (["a", "b"], ["x", "y", "</s>"])


def test_provenance_shows_what_was_generated_and_what_was_copied_from_where():
    """Half of "b" was copied, and three quarters of this half came from the second position, so its share is 0.375."""
    words = [CopiedWord("b", 0.5, {0: 0.25, 1: 0.75}), CopiedWord("new", 0.0, {}), CopiedWord("</s>", 0.0, {})]
    panel = figures.provenance([Provenance(["b", "b", "</s>"], words)]).axes[0]
    assert values(panel) == [[0.5, 0.125, 0.375], [1.0, 0.0, 0.0]]
    assert (labels(panel.xaxis), labels(panel.yaxis)) == (["(generated)", "b", "b"], ["b", "new"])


def test_coverage_has_a_line_a_topic():
    panel = figures.coverage([Coverage(["sea", "sun"], ["we", "swim"], [[1.0, 0.5], [0.25, 0.5]], "C")]).axes[0]
    assert [list(line.get_ydata()) for line in panel.lines] == [[1.0, 0.25], [0.5, 0.5]]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["sea", "sun"]


def test_coverages_of_several_texts_have_one_scale():
    """The coverage left for a topic may become negative if a text is longer than planned."""
    texts = [Coverage(["sea"], ["we"], [[0.5]], "C"), Coverage(["sun"], ["swim"], [[-0.75]], "C")]
    first, second = figures.coverage(texts).axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] < -0.75 < 1.0 < first.get_ylim()[1]


def test_layers_of_bert_are_written_in_their_cells():
    panel = figures.layer_weights([[0.25, 0.75], [0.5, 0.5]]).axes[0]
    assert [text.get_text() for text in panel.texts] == ["0.25", "0.75", "0.50", "0.50"]
    assert labels(panel.yaxis) == ["1", "2"]
    assert labels(figures.layer_weights([[0.25, 0.75]]).axes[0].yaxis) == ["all"]


def test_neighbours_are_bars_as_long_as_their_cosines():
    first, second = figures.neighbours([("buy", [("get", 0.75), ("sell", 0.5)]), ("big", [("tall", 0.25)])]).axes
    assert [bar.get_width() for bar in first.patches] == [0.75, 0.5]
    assert (first.get_title(loc="left"), labels(second.yaxis)) == ("buy", ["tall"])


def test_scores_have_intervals_and_the_copy_row():
    panel = figures.scores([figures.ScorePanel("BLEU", [("a", 20.0, (19.0, 21.0)), ("b", 25.0, None)], 30.0)]).axes[0]
    lines = [list(line.get_xdata()) for line in panel.lines]
    assert [list(map(float, line)) for line in lines] == [[19.0, 21.0], [20.0], [25.0], [30.0, 30.0]]


def test_any_word_can_be_a_label(tmp_path):
    shown = []

    def draw():
        figure = figures.attention([Attention(list(ODD), list(ODD), [[0.1] * len(ODD)] * len(ODD))])
        shown.extend(labels(figure.axes[0].xaxis))
        return figure

    paths = style.write_figure(draw, tmp_path / "odd")
    assert shown[0] == "$x$ and $"
    assert shown[2] == "\ufffd\ufffd[31m\ufffd"
    assert len(shown[4]) == 24
    assert [path.name for path in paths] == ["odd.png", "odd.svg"]


def test_a_picture_that_would_take_gigabytes_is_refused(tmp_path):
    words = ["a"] * 1000
    sentence = Attention(words, ["b"], [[0.0] * 1000])
    with pytest.raises(UserError, match="too long or too many to draw"):
        style.write_figure(lambda: figures.attention([sentence]), tmp_path / "huge")


def test_a_date_of_the_environment_that_is_no_number_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    with pytest.raises(UserError, match="SOURCE_DATE_EPOCH must be a number of seconds: correct or unset it"):
        style.write_figure(lambda: figures.layer_weights([[0.25, 0.75]]), tmp_path / "a")
    assert not [*tmp_path.iterdir()]


def test_the_same_figure_is_the_same_file(tmp_path):
    for name in ("one", "two"):
        style.write_figure(lambda: figures.layer_weights([[0.25, 0.75]]), tmp_path / name)
    for suffix in ("png", "svg"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_without_a_chinese_font_there_is_one_warning(monkeypatch, caplog, recwarn, tmp_path):
    monkeypatch.setattr(style, "CHINESE_FONTS", ())
    for name in ("one", "two"):
        style.write_figure(lambda: figures.neighbours([("好", [("a", 1.0)])]), tmp_path / name)
    assert len(caplog.records) == 1
    assert "install one, for example the package fonts-noto-cjk" in caplog.text
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_a_chinese_font_is_used_where_the_usual_one_has_no_sign_and_named_once(monkeypatch, caplog, tmp_path):
    import matplotlib as mpl

    families = []

    def draw():
        families.extend(mpl.rcParams["font.family"])
        return figures.neighbours([("好", [("a", 1.0)])])

    monkeypatch.setattr(style, "CHINESE_FONTS", ("DejaVu Serif",))  # a font that every matplotlib has
    with caplog.at_level(logging.INFO):
        for name in ("one", "two"):
            style.write_figure(draw, tmp_path / name)
    assert families[:2] == ["DejaVu Sans", "DejaVu Serif"]
    assert [record.message for record in caplog.records] == ["Chinese labels are set in DejaVu Serif"]


def test_no_font_is_named_where_nothing_is_chinese(caplog, tmp_path):
    with caplog.at_level(logging.INFO):
        style.write_figure(lambda: figures.neighbours([("good", [("a", 1.0)])]), tmp_path / "a")
    assert not caplog.records


# --- wean-plot ------------------------------------------------------------------------------------------------------


@pytest.fixture
def dumps(tmp_path):
    """Return recorded steps of three sentences, in the order of batches."""
    z, copied = tmp_path / "z.jsonl", tmp_path / "copied.jsonl"
    numbers = (2, 0, 1)
    z.write_text(
        "".join(
            json.dumps({"id": n, "source": [f"w{n}", "</s>"], "source_granularity": {"1": [n / 4, 1.0]}}) + "\n"
            for n in numbers
        )
    )
    copied.write_text(
        "".join(
            json.dumps(
                {"id": n, "source": [f"w{n}"], "output": [{"word": f"w{n}", "copied": n / 4, "positions": {"0": 1.0}}]}
            )
            + "\n"
            for n in numbers
        )
    )
    cut = tmp_path / "cut.jsonl"
    cut.write_text(copied.read_text()[9:])
    return {"granularity": z, "provenance": copied, "cut": cut}


@pytest.mark.parametrize("kind", ["granularity", "provenance"])
def test_dumps_are_drawn(dumps, kind, tmp_path, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("wean_fairseq.reporting.plot_cli.write_figure", lambda draw, _: shown.append(draw()) or [])
    assert main([kind, "--dump", str(dumps[kind]), "--lines", "3", "1", "--output", str(tmp_path / "x")]) == 0
    panels = shown[0].axes[:2]
    words = [labels(panel.xaxis)[-1] for panel in panels]
    assert words == ["w2", "w0"]
    assert [values(panel)[0][-1] for panel in panels] == [0.5, 0.0]


@pytest.mark.parametrize("kind", ["granularity", "provenance"])
def test_lines_of_a_part_of_a_dump_are_chosen_by_their_numbers(dumps, kind, tmp_path, capsys, monkeypatch):
    """A dump of one of several --num-shards has gaps. The first line of a dump, with the id 2, is removed."""
    shown = []
    monkeypatch.setattr("wean_fairseq.reporting.plot_cli.write_figure", lambda draw, _: shown.append(draw()) or [])
    dumps[kind].write_text("".join(dumps[kind].read_text().replace('"id": 1', '"id": 5').splitlines(True)[1:]))
    arguments = [kind, "--dump", str(dumps[kind]), "--output", str(tmp_path / "x"), "--overwrite", "--lines"]
    assert main([*arguments, "6"]) == 0
    assert labels(shown[0].axes[0].xaxis)[-1] == "w1"
    assert main([*arguments, "2"]) == 2
    assert "--lines 2: there are only 2 sentences, with numbers up to 6; give one" in capsys.readouterr().err


def test_layers_and_neighbours_are_drawn_from_checkpoints(tmp_path, capsys):
    """The expected values are the closed form of the mixture for logits 0 and ln 3."""
    layers, words = tmp_path / "layers.pt", tmp_path / "words.pt"
    torch.save({"model": {"encoder.bert_states.mixture.logits": torch.tensor([[0.0, math.log(3)]])}}, layers)
    embedding = torch.tensor([[0.0, 0.0]] * 4 + [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    torch.save({"model": {EMBEDDING: embedding}}, words)
    (tmp_path / "dict.txt").write_text("one 3\ntwo 2\nthree 1\n")
    assert main(["layers", str(layers), "--output", str(tmp_path / "a")]) == 0
    near = ["neighbours", "one", "--checkpoint", str(words), "--dict", str(tmp_path / "dict.txt")]
    assert main([*near, "--output", str(tmp_path / "b")]) == 0
    printed = capsys.readouterr().out.splitlines()
    files = {name: [str(tmp_path / f"{name}.{suffix}") for suffix in ("png", "svg", "tsv")] for name in "ab"}
    assert printed == [*files["a"], "one  two 1.00  three 0.00", *files["b"]]
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["granularity", "--dump", "{provenance}"], "is not what --granularity-dump writes"),
        (
            ["provenance", "--dump", "{cut}"],
            "cut.jsonl has no copy provenance: give a file that --copy-provenance wrote",
        ),
        (["granularity", "--dump", "{cut}"], "is not what --granularity-dump writes"),
        (["provenance", "--dump", "{granularity}"], "is not what --copy-provenance writes"),
        (["provenance", "--dump", "{provenance}", "--lines", "4"], "there are only 3 sentences"),
        (["provenance", "--dump", "{provenance}", "--text", "x"], "not both"),
        (["provenance", "--dump", "{provenance}", "--data", "x"], "not both"),
        (["provenance", "--dump", "{provenance}", "--beam", "2"], "not both"),
        (["attention", "--checkpoint", "x"], "attention needs --checkpoint FILE, --data DIR and --text FILE."),
        (["granularity", "--dump", "nowhere"], "nowhere does not exist"),
        (["layers", "{provenance}"], "is damaged, or was not written by fairseq-train"),
        (["attention", "--checkpoint", "x", "--data", ".", "--text", "{granularity}"], "there is no model x"),
        (
            ["attention", "--checkpoint", "x.safetensors", "--data", ".", "--text", "{granularity}"],
            "the folder x.safetensors has its own data and text: leave the option data out",
        ),
    ],
)
def test_a_mistake_is_one_sentence(dumps, arguments, message, tmp_path, capsys):
    filled = [argument.format(**dumps) for argument in arguments]
    assert main([*filled, "--output", str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("wean-plot: error: ")
    assert message in error
    assert "\n" not in error


def test_no_program_of_a_matplotlibrc_is_run(tmp_path):
    """matplotlib reads matplotlibrc in the current folder, which may belong to another user.

    With usetex, matplotlib runs LaTeX.
    """
    import matplotlib as mpl

    seen = []

    def draw():
        seen.append(mpl.rcParams["text.usetex"])
        return figures.neighbours([("good", [("a", 1.0)])])

    with mpl.rc_context({"text.usetex": True}):
        style.write_figure(draw, tmp_path / "a")
        assert mpl.rcParams["text.usetex"]  # the figures of the user keep the setting
    assert seen == [False]
