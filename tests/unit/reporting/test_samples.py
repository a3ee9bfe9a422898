"""Test outputs next to their source: copied, new and omitted words."""

import json

from tests.unit.reporting.run_folder import OUTPUTS, make_run
from wean_fairseq.reporting import samples
from wean_fairseq.reporting.document import Piece
from wean_fairseq.reporting.runs import read_run


def marked(pieces) -> str:
    """Return the pieces, each with a sign: = for copied, + for new and - for dropped."""
    signs = {"copied": "=", "new": "+", "dropped": "-", "": ""}
    return " ".join(signs[piece.kind] + piece.text for piece in pieces)


def words(text: str) -> list[Piece]:
    return samples.split_words(text, characters=False)


def test_signs_are_no_part_of_the_words_that_they_are_attached_to():
    """The word "car" counts as copied from the source, with or without a comma.

    Tokens, word pieces and placeholders stay unchanged.
    """
    source, output = words('He said: "I like my car, O\'Neil."'), words("O'Neil (he) likes the car.")
    assert (
        "".join(" " * (not piece.attached) + piece.text for piece in source)[1:] == 'He said: "I like my car, O\'Neil."'
    )
    assert marked(samples.mark_words(source, output)[:8]) == "=O'Neil +( =he +) +likes +the =car =."
    assert [
        piece.text for piece in words("lo@@ w <unk> -lrb- ... , 3.5 don't")
    ] == "lo@@ w <unk> -lrb- ... , 3.5 don't".split()


def test_a_word_of_many_signs_ends():
    assert [piece.text for piece in words("(" * 9 + "a" + "." * 50_000 + "/b)")] == ["("] * 9 + [
        "a" + "." * 50_000 + "/b",
        ")",
    ]
    assert [piece.text for piece in words("(" * 50_000)] == ["(" * 50_000]


def test_words_are_compared_with_the_source():
    """The expected marks are set by hand. The output has one "the" more than the source."""
    found = samples.mark_words(words("The cat and a dog and a bird"), words("the bird the cat sees"))
    assert marked(found) == "=the =bird +the =cat +sees -and -a -dog -and -a"


def test_a_word_that_is_left_out_once_is_the_last_one():
    assert marked(samples.mark_words(words("a b a"), words("a"))) == "=a -b -a"


def test_chinese_without_spaces_is_compared_by_characters(tmp_path):
    outputs = {"copynet": ["今天好", "你在哪", "好", "是"]}
    sources = ["今天天气好", "你在哪里", "很好", "是的"]
    run = read_run(make_run(tmp_path / "run", sources=sources, references=sources, outputs=outputs, script="lcsts"))
    block = samples.samples_block(run, run.sets["test"], 1)
    assert block is not None
    assert block.glue == ""
    assert marked(block.samples[0].lines[2][1]) == "=今 =天 =好 -天 -气"


def test_an_endless_output_is_cut_and_says_so():
    pieces = samples.mark_words(words("a"), words("b " * 100_000))
    assert len(pieces) == samples.MOST_WORDS + 1
    assert pieces[-1].text == "… (99600 words more)"


def test_what_the_model_says_it_copied_stands_beside(tmp_path):
    folder = make_run(tmp_path / "run")
    entries = []
    for number, output in enumerate(OUTPUTS["copy_transformer"]):
        words = [
            {"word": word, "copied": 0.9 if word == "piano" else 0.1, "positions": {"0": 1.0}}
            for word in output.split()
        ]
        entries.append(
            {"id": number, "source": ["a"], "output": [*words, {"word": "</s>", "copied": 0.0, "positions": {}}]}
        )
    dump = folder / "copy_transformer" / "copied.jsonl"
    dump.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    run = read_run(folder)
    block = samples.samples_block(run, run.sets["test"], 4)
    assert block is not None
    lines = dict(block.samples[0].lines)
    assert marked(lines["copy_transformer, by its own account"]) == "+how +do +i +learn =piano"
    assert lines["copy_transformer, by its own account"][-1].title == "copied with probability 0.90"
    dump.write_text(json.dumps(entries[0]) + "\n")  # the dump has another size than the test set
    block = samples.samples_block(read_run(folder), run.sets["test"], 4)
    assert block is not None
    assert "copy_transformer, by its own account" not in dict(block.samples[0].lines)


def test_without_the_text_there_are_no_samples(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "text" / "test.src").write_text("something else\n")
    run = read_run(folder)
    assert samples.samples_block(run, run.sets["test"], 3) is None
