"""Test nearest neighbours in an embedding."""

import os
from pathlib import Path

import pytest
import torch

from wean_fairseq.checkpoints.dictionaries import fingerprint, load_dictionary
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.neighbours import EMBEDDING, chance_baseline, load_embedding
from wean_fairseq.reporting.plot_cli import main

WORDS = ["big", "large", "car", "automobile", "madeupword9999"]
# Two pairs of vectors have similar directions, and one vector is alone. On purpose, the vectors do not have length 1.
ROWS = torch.tensor([[1.0, 0.1, 0.0], [9.0, 0.0, 0.5], [0.0, 2.0, 0.1], [0.0, 5.0, 0.0], [-1.0, -1.0, -3.0]])


@pytest.fixture
def files(tmp_path):
    """Return a checkpoint and a dictionary that has special symbols first, and padding words inside and at the end.

    The last word of the text is spelt like padding, but has a count.
    """
    weight = torch.cat([torch.full((4, 3), 7.0), ROWS[:2], torch.ones(1, 3), ROWS[2:], torch.ones(1, 3)])
    checkpoint, dictionary = tmp_path / "checkpoint_best.pt", tmp_path / "dict.src.txt"
    torch.save({"model": {EMBEDDING: weight}}, checkpoint)
    lines = [f"{word} {9 - i}" for i, word in enumerate(WORDS)] + ["madeupword0000 0"]
    lines.insert(2, "madeupword0001 0")
    dictionary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(checkpoint), str(dictionary)


def test_rows_belong_to_the_words_and_have_length_one(files):
    near = load_embedding(*files)
    assert near.words == WORDS
    torch.testing.assert_close(near.embedding, ROWS / ROWS.norm(dim=1, keepdim=True))


def test_nearest_is_by_cosine_and_leaves_the_word_out(files):
    near = load_embedding(*files)
    found = near.nearest("big", 2)
    assert [word for word, _ in found] == ["large", "automobile"]
    # closed form: (1, 0.1, 0) . (9, 0, 0.5) / (|a| |b|)
    assert found[0][1] == pytest.approx(9 / (1.01**0.5 * 81.25**0.5), abs=1e-6)
    assert len(near.nearest("big", 99)) == len(WORDS) - 1


def test_synonyms_are_counted_per_word(files):
    sets = [{"big", "large"}, {"car", "madeupword9999"}, {"automobile", "unseen"}]
    near = load_embedding(*files)
    # found: big, large; not found: car, madeupword9999; automobile has none
    assert near.synonyms_found(sets, 1) == (2, 4)


def test_chance_is_reproducible():
    assert chance_baseline(WORDS, [{"big", "large"}], 1) == chance_baseline(WORDS, [{"big", "large"}], 1)


def test_command_line(files, tmp_path, capsys):
    synonyms = tmp_path / "synonyms.txt"
    synonyms.write_text("big large\ncar automobile\n", encoding="utf-8")
    checkpoint, dictionary = files
    arguments = ["--checkpoint", checkpoint, "--dict", dictionary, "--number", "1", "--synonyms", str(synonyms)]
    assert main(["neighbours", "big", "car", *arguments, "--output", str(tmp_path / "near")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["big", "large", "0.99"]
    assert lines[1].split() == ["car", "automobile", "1.00"]
    assert lines[2].startswith("4 of 4 words with synonyms")
    table = (tmp_path / "near.tsv").read_text(encoding="utf-8").splitlines()
    assert table[:2] == ["word\tneighbour\tcosine", "big\tlarge\t0.9935"]  # 9 / sqrt(1.01 * 81.25)


def test_an_unknown_word_is_named(files, tmp_path, capsys):
    checkpoint, dictionary = files
    arguments = ["--checkpoint", checkpoint, "--dict", dictionary, "--output", str(tmp_path / "near")]
    assert main(["neighbours", "huge", *arguments]) == 2
    assert capsys.readouterr().err == "wean-plot: error: the dictionary does not have 'huge'; ask for words it has.\n"


def test_another_dictionary_is_refused(files, tmp_path):
    other = tmp_path / "dict.txt"
    other.write_text("big 1\n", encoding="utf-8")
    with pytest.raises(UserError, match="embeds 7 words but the dictionary has 1"):
        load_embedding(files[0], str(other))


@pytest.mark.parametrize("is_export", [False, True])
@pytest.mark.parametrize(("name", "trained_on", "other"), [(EMBEDDING, 0, 1), ("decoder.embed_tokens.weight", 1, 0)])
def test_a_dictionary_in_another_order_is_refused(files, tmp_path, name, trained_on, other, is_export):
    """Each side of a model may have its own dictionary. An export names the sides, and sorts their records by name."""
    checkpoint, dictionary = files
    turned = tmp_path / "dict.tgt.txt"
    turned.write_text("".join(reversed(Path(dictionary).read_text(encoding="utf-8").splitlines(keepends=True))))
    sides = [dictionary, str(turned)]
    state = torch.load(checkpoint, weights_only=True)
    state["model"]["decoder.embed_tokens.weight"] = state["model"][EMBEDDING]
    recorded = {side: fingerprint(load_dictionary(file)) for side, file in zip(("y", "x"), sides, strict=True)}
    if is_export:
        recorded = dict(sorted(recorded.items()))
        state["cfg"] = {"task": {"source_lang": "y", "target_lang": "x"}}
    torch.save(state | {"task_state": {"dictionaries": recorded}}, checkpoint)
    assert len(load_embedding(checkpoint, sides[trained_on], name).words) == len(WORDS)
    with pytest.raises(UserError, match=f"{sides[other]} has its words in another order than when the model was"):
        load_embedding(checkpoint, sides[other], name)


def test_a_file_that_is_no_dictionary_is_refused(files, tmp_path):
    other = tmp_path / "dict.txt"
    other.write_text("big 1\nhello there you\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    for special in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(UserError, match=r"is not a dictionary \(it is not a regular file"):
            load_embedding(files[0], str(special))
    with pytest.raises(UserError, match=r"dict\.txt is not a dictionary \(Incorrect dictionary format") as error:
        load_embedding(files[0], str(other))
    assert "hello" not in str(error.value)  # the dictionary may be a link to any file


def test_a_checkpoint_that_is_cut_off_is_refused(files, tmp_path):
    broken = tmp_path / "broken.pt"
    broken.write_bytes(Path(files[0]).read_bytes()[:300])
    with pytest.raises(UserError, match="cut off"):
        load_embedding(str(broken), files[1])
    with pytest.raises(UserError, match="there is no checkpoint"):
        load_embedding(str(tmp_path / "none.pt"), files[1])


def test_a_checkpoint_without_that_embedding_says_what_it_has(files):
    with pytest.raises(UserError, match=f"has no 'decoder.x'; it has {EMBEDDING}"):
        load_embedding(*files, name="decoder.x")


@pytest.mark.parametrize("shape", [(), (7,), (7, 2, 2)])
def test_only_a_matrix_is_an_embedding(files, shape):
    """Before the check, a vector failed with an IndexError, and neighbours were computed from three dimensions."""
    state = torch.load(files[0], weights_only=True)
    torch.save(state | {"model": {"bias": torch.zeros(shape)}}, files[0])
    with pytest.raises(UserError, match=r"'bias' in .* is not a matrix: name one with a row for each word"):
        load_embedding(*files, name="bias")
