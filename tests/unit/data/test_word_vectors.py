"""Test word vectors in files of both formats, and every file that is refused."""

import gzip
import logging
import os

import pytest
import torch

from tests.model_contract import PAD, UNK, make_dictionary
from wean_fairseq.data.word_vectors import load_word_vectors
from wean_fairseq.errors import UserError
from wean_fairseq.storage import files

DICTIONARY = make_dictionary(4)  # w0 .. w3 are 4 .. 7
LINES = ["the 1 2 3", "w2 0.5 -1e-2 7", "w0 4 5 6"]


@pytest.fixture
def write(tmp_path):
    def write_lines(lines, end="\n", encoding="utf-8"):
        path = tmp_path / "vectors.txt"
        path.write_bytes("".join(line + end for line in lines).encode(encoding))
        return str(path)

    return write_lines


@pytest.mark.parametrize("header", [[], ["3 3"]], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_vectors_of_the_dictionarys_words_are_found(write, header, end, caplog):
    caplog.set_level(logging.INFO)
    matrix, found = load_word_vectors(write(header + LINES, end), DICTIONARY, 3)
    expected = torch.zeros(8, 3)
    expected[6], expected[4] = torch.tensor([0.5, -0.01, 7]), torch.tensor([4.0, 5, 6])
    assert torch.equal(matrix, expected)
    assert found.tolist() == [False] * 4 + [True, False, True, False]
    assert matrix.dtype == torch.float32
    assert "has vectors for 2 of the 4 words of the dictionary (50.0%)" in caplog.text


def test_a_byte_order_mark_is_no_part_of_the_first_word(write):
    _, found = load_word_vectors(write(["w3 1 2 3"], encoding="utf-8-sig"), DICTIONARY, 3)
    assert found[7]


def test_the_first_vector_of_a_word_counts_and_padding_has_none(write):
    matrix, found = load_word_vectors(write(["w1 1 2 3", "<pad> 7 7 7", "w1 9 9 9", "<unk> 2 2 2"]), DICTIONARY, 3)
    assert matrix[5].tolist() == [1, 2, 3]
    assert not found[PAD] and not matrix[PAD].any()
    assert found[UNK] and matrix[UNK].tolist() == [2, 2, 2]


def test_words_with_spaces_or_odd_characters_are_passed_over(write):
    """Test words that contain Unicode line separators and spaces, which do not separate columns in the file."""
    lines = [". . . 1 2 3", "a\u2028b 1 2 3", "c\u00a0d 1 2 3", "\u3000 1 2 3", "w1 3 2 1"]
    matrix, found = load_word_vectors(write(["e 1 2 3", *lines]), DICTIONARY, 3)
    assert found.sum() == 1
    assert matrix[5].tolist() == [3, 2, 1]


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_UNPACKED", 1000)  # the limit is 1000 bytes instead of 4 MiB
    (tmp_path / "vectors.gz").write_bytes(gzip.compress(b"w0 1 2 3\n" * 100_000))
    with pytest.raises(UserError, match=r"cannot be read .it is 50 times larger when it is unpacked: unpack it first"):
        load_word_vectors(str(tmp_path / "vectors.gz"), DICTIONARY, 3)


@pytest.mark.parametrize(("end", "warnings"), [("\n", 0), ("", 1)])
def test_a_last_line_without_an_end_is_reported(tmp_path, caplog, end, warnings):
    """The number of vectors does not show that a file was cut inside its last number."""
    (tmp_path / "vectors").write_text(f"2 3\nw0 1 2 3\nw1 1 2 -0{end}")
    load_word_vectors(str(tmp_path / "vectors"), DICTIONARY, 3)
    assert sum("has no line end: if the file was cut" in message for message in caplog.messages) == warnings


def test_bytes_that_are_no_text_hurt_no_other_word(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"\xff\xfe 1 2 3\nw1 3 2 1\n")
    assert load_word_vectors(str(path), DICTIONARY, 3)[1].sum() == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["the 1 2", "w1 1 2"], "has vectors of width 2, but the model's embeddings are 3 wide"),
        (["2 50", "w1 1 2"], "has vectors of width 50, but the model's embeddings are 3 wide"),
        (["the 1 2 3", "w1 1 2"], "line 2 is broken: a word and 3 numbers were expected, but it has 2"),
        (["2 3", "the 1 2 3", "w1 1 2 3 4"], "line 3 is broken: a word and 3 numbers were expected, but it has 4"),
        (["the 1 2 3", "", "w1 1 2 3"], "line 2 is broken: .* but it has 0"),
        (["3 3", "the 1 2 3", "w1 1 2 3"], "is damaged: its first line says 3 vectors, but it has 2: copy or"),
        (["1 3", "the 1 2 3", "w1 1 2 3"], "is damaged: its first line says 1 vectors, but it has 2: copy or"),
        (["2 3"], "is damaged: its first line says 2 vectors, but it has 0: copy or"),
        (["w1 1 1e39 3"], "line 1 is broken: not all of its 3 values are finite numbers"),
        (["w1 1 two 3"], "line 1 is broken: not all of its 3 values are finite numbers"),
        (["2 3", "w1 1 2_0 3"], "line 2 is broken: not all of its 3 values are finite numbers"),
        (["2 3", "w1 1 nan 3"], "line 2 is broken: not all of its 3 values are finite numbers"),
        (["the 1 2 3"], "has a vector for none of the 4 words of the dictionary"),
        ([], "line 1 is not a word and its vector"),
    ],
)
def test_files_that_are_refused(write, lines, message):
    with pytest.raises(UserError, match=message) as caught:
        load_word_vectors(write(lines), DICTIONARY, 3)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(UserError, match=r"'.*nowhere' cannot be read \(No such file or directory\)"):
        load_word_vectors(str(tmp_path / "nowhere"), DICTIONARY, 3)
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)"):
        load_word_vectors(str(tmp_path), DICTIONARY, 3)


def test_a_pipe_or_a_file_without_lines_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"'.*pipe' cannot be read \(it is not a regular file\)"):
        load_word_vectors(str(tmp_path / "pipe"), DICTIONARY, 3)
    with pytest.raises(UserError, match=r"'/dev/zero' cannot be read \(it is not a regular file\)"):
        load_word_vectors("/dev/zero", DICTIONARY, 3)
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that uses no disk space
    with pytest.raises(UserError, match="line 1 is not a word and its vector"):
        load_word_vectors(str(tmp_path / "hole"), DICTIONARY, 3)
    (tmp_path / "hole").write_text("x 1 2 3\n")
    with (tmp_path / "hole").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="line 2 is broken: a word and 3 numbers were expected"):
        load_word_vectors(str(tmp_path / "hole"), DICTIONARY, 3)
