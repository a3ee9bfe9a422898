"""Test figures and means of z from a dump: joined pieces, kinds of words, and refused files."""

import json
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation import granularity
from wean_fairseq.reporting import figures
from wean_fairseq.reporting.dumps import kind_of_dump, read_provenance
from wean_fairseq.reporting.plot_cli import main

ENTRIES = [  # the sentences are in another order, as in batches
    {"id": 1, "source": ["##ly", "##s", "7", "</s>"], "source_granularity": {"2": [0.5, 0.7, 0.0, 0.9]}},
    {
        "id": 0,
        "source": ["Is", "ca@@", "t", "in", "<unk>", "</s>"],
        "source_granularity": {"1": [0.1, 0.2, 0.4, 0.3, 1.0, 1.0], "2": [0.0, 1.0, 0.5, 0.2, 1.0, 1.0]},
    },
]


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "z.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES))
    return str(path)


def test_pieces_are_joined_and_special_symbols_left_out(dump):
    first, second = granularity.read_dump(dump)
    assert first.words == ["Is", "cat", "in"]
    assert first.granularity["2"] == [0.0, 0.75, 0.2]
    assert second.words == ["##lys", "7"]  # a piece begins a word if the beginning of the word is missing
    assert second.granularity == {"2": [pytest.approx(0.6), 0.0]}
    assert granularity.join_words(["ca@@", "<unk>", "t"], {"1": [0.0, 0.5, 1.0]}).words == ["ca", "t"]


def test_a_picture_is_written_and_the_means_of_function_and_content_words(dump):
    """By hand, "is" and "in" are function words, "cat" is a content word, and numbers and other tokens are neither."""
    assert main(["granularity", "--dump", dump, "--number", "1", "--output", dump]) == 0
    assert Path(f"{dump}.png").read_bytes().startswith(b"\x89PNG")
    lines = [line.split("\t") for line in Path(f"{dump}.tsv").read_text(encoding="utf-8").splitlines()]
    assert lines[1] == ["1", "0.2000", "0.3000", "0.1000", "", "2", "1"]
    assert lines[2] == ["2", "0.1000", "0.7500", "0.6500", "", "2", "1"]


def test_the_standard_error_is_that_of_a_difference_of_means():
    """The two samples have the variances 0.02 and 0.08. The error by hand is the root of 0.01 + 0.04."""
    assert granularity.standard_error([0.1, 0.3], [0.2, 0.6]) == pytest.approx(0.05**0.5)


def test_a_picture_names_its_sentences_and_says_its_numbers(dump):
    figure = figures.granularity(granularity.read_dump(dump))
    first, second, _ = figure.axes
    assert [panel.get_title(loc="left") for panel in (first, second)] == ["sentence 1", "sentence 2"]
    assert [text.get_text() for text in first.texts] == ["0.10", "0.30", "0.30", "0.00", "0.75", "0.20"]
    assert first.get_ylim() == (-0.5, 1.5)  # the lowest layer is at the bottom


def test_sentences_without_words_are_not_drawn():
    empty, full = granularity.Sentence([], {"1": []}), granularity.Sentence(["x"], {"1": [0.5]})
    assert len(figures.granularity([empty, full]).axes) == 2  # one axis is for the panel, and one for the colours
    with pytest.raises(UserError, match="the sentences have no words"):
        figures.granularity([empty])


def test_numbers_can_be_read_on_every_shade():
    """Test that the contrast is at least 4.5, as WCAG 2.2 requires."""
    steps = [number / 40 for number in range(41)]
    panel = figures.granularity([granularity.Sentence(["x"] * 41, {"1": steps})]).axes[0]
    for text, z in zip(panel.texts, steps, strict=True):
        shade, ink = (luminance(colour) for colour in (panel.images[0].to_rgba(z), to_rgb(text.get_color())))
        assert (max(shade, ink) + 0.05) / (min(shade, ink) + 0.05) >= 4.5


def luminance(colour):
    """Return the relative luminance of WCAG 2.2."""
    parts = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_sentences_are_spread_over_the_file():
    sentences = [granularity.Sentence([str(number)], {}) for number in range(10)]
    assert [sentence.words[0] for sentence in granularity.spread(sentences, 3)] == ["0", "3", "6"]
    assert granularity.spread(sentences[:2], 5) == sentences[:2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"id": 0, "source": ["a"]}\n',
            "line 1 of .* has no granularities: give a file that --granularity-dump wrote",
        ),
        ("no json\n", "line 1 of .* has no granularities"),
        ('{"id": 0, "source": ["a", "b"], "source_granularity": {"1": [0.5]}}\n', "line 1 of .* has no granularities"),
        ('{"id": 0, "source": ["</s>"], "source_granularity": {"1": [0.5]}}\n', "has no words with granularities"),
        *(
            (
                f'{{"id": 0, "source": ["a"], "source_granularity": {{"{layer}": [0.5]}}}}\n',
                "is not the number of a layer",
            )
            for layer in ("01", "0", "-1", "\u0661", "1\\n", "9" * 5000)  # \u0661 is an Arabic digit
        ),
        ('{"id": 0, "source": ["a"], "source_granularity": {"1": [0.5, 0.5]}}\n', "has 2 numbers for 1 words"),
        ('{"id": 0, "source": ["a"], "source_granularity": {"1": [1.5]}}\n', "Expected `float` <= 1.0"),
        ('{"id": -1, "source": ["a"], "source_granularity": {"1": [0.5]}}\n', "Expected `int` >= 0"),
        (
            '{"id": 7, "source": ["a"], "source_granularity": {"1": [0.5]}}\n' * 2,
            "line 2 of .* repeats the id 7: give the dump of a single command",
        ),
    ],
)
def test_what_is_no_dump_is_refused(tmp_path, content, message):
    path = tmp_path / "dump"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        granularity.read_dump(str(path))


PROVENANCE = '{"id": 0, "source": ["a", "</s>"], "output": [{"word": "b", "copied": COPIED, "positions": {PLACES}}]}\n'


@pytest.mark.parametrize(
    ("copied", "places", "message"),
    [
        ("-7.5", "", "Expected `float` >= 0"),
        ("1.5", "", "Expected `float` <= 1"),
        ("0.5", '"0": 3.0', "Expected `float` <= 1"),
        ("0.5", '"-1": 1.0', "Expected `int` >= 0"),
        ("0.5", '"99": 1.0', "a word was copied from position 99 of 2 source words"),
        ("0.5", f'"{"9" * 5000}": 1.0', "Integer value out of range"),
    ],
)
def test_impossible_provenance_is_refused(tmp_path, copied, places, message):
    (tmp_path / "dump").write_text(PROVENANCE.replace("COPIED", copied).replace("PLACES", places))
    with pytest.raises(UserError, match=f"line 1 of .* has no copy provenance: give .* wrote .*{message}"):
        read_provenance(tmp_path / "dump")
    assert kind_of_dump(tmp_path / "dump") == "provenance"


def test_a_repeated_sentence_of_provenance_is_refused(tmp_path):
    line = PROVENANCE.replace("COPIED", "1.0").replace("PLACES", '"0": 1.0, "1": 0.0')
    (tmp_path / "dump").write_text(line)
    assert [*read_provenance(tmp_path / "dump")] == [0]
    (tmp_path / "dump").write_text(line * 2)
    with pytest.raises(UserError, match=r"line 2 of .* repeats the id 0"):
        read_provenance(tmp_path / "dump")
