"""Test neighbours in the embedding of a loaded model: expected values are cosines of vectors at known angles."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from torch import nn

from wean_fairseq.data.extended_vocabulary import ExtendedDictionary
from wean_fairseq.inspection.decoding import neighbourhoods


def dictionary(*words: str) -> Dictionary:
    """Return a dictionary in which ``madeupword0000`` is padding, as fairseq adds it."""
    made = Dictionary()
    for word in words:
        made.add_symbol(word, n=0 if word == "madeupword0000" else 1)
    return made


def part(rows: int, degrees: list[float] | None = None, other: int = 0) -> nn.Module:
    """Return an encoder or decoder with an embedding, in which word k has the k-th angle of ``degrees``."""
    table = nn.Embedding(rows, 2)
    if degrees is not None:
        angles = torch.tensor(degrees) * math.pi / 180
        table.weight.data[4 : 4 + len(degrees)] = 3 * torch.stack([angles.cos(), angles.sin()], dim=1)
    tables = [table, nn.Embedding(other, 9)] if other else [table]
    return nn.ModuleDict({str(number): each for number, each in enumerate(tables)})


def test_nearest_words_of_each_side():
    words = dictionary("a", "b", "c", "d", "madeupword0000")
    model = SimpleNamespace(encoder=part(9, [0, 60, 90, 20]), decoder=part(9, [0, 10, 180, 90], other=512))
    near = neighbourhoods(model, words, words)
    degrees = {"d": 20, "b": 60, "c": 90}
    expected = [(word, pytest.approx(math.cos(angle * math.pi / 180), abs=1e-3)) for word, angle in degrees.items()]
    assert near.source.nearest("a", 6) == expected
    assert near.source.nearest("a", 1) == expected[:1]
    assert near.target.nearest("a", 6)[0] == ("b", pytest.approx(math.cos(math.pi / 18), abs=1e-3))
    assert near.source.rows.keys() == {"a", "b", "c", "d"}  # neither padding nor special symbols


def test_a_side_without_an_embedding_has_the_others_where_there_is_one_dictionary():
    words = dictionary("a", "b", "c", "d")
    model = SimpleNamespace(encoder=nn.Linear(2, 2), decoder=part(8, [0, 60, 90, 20]))
    shared = neighbourhoods(model, words, words)
    assert shared.source is shared.target is not None
    assert neighbourhoods(model, dictionary("x", "y", "z"), words).source is None


def test_a_word_that_looks_like_padding_moves_no_other_word():
    """Padding may be anywhere in the dictionary, and a word with a count may look like padding."""
    words = dictionary("a", "madeupword0000", "b", "madeupword0001")
    model = SimpleNamespace(encoder=part(8, [0, 5, 60, 90]), decoder=part(8, [0, 5, 60, 90]))
    near = neighbourhoods(model, words, words).source
    cosines = [("b", pytest.approx(0.5, abs=1e-3)), ("madeupword0001", pytest.approx(0, abs=1e-3))]
    assert near.nearest("a", 6) == cosines
    assert "madeupword0000" not in near.rows


def test_slots_are_no_words():
    words = ExtendedDictionary(dictionary("a", "b"))
    words.reserve_slots(3)
    table = part(6, [0, 30])
    near = neighbourhoods(SimpleNamespace(encoder=table, decoder=table), words, words)
    assert near.source.nearest("a", 6) == [("b", pytest.approx(math.cos(math.pi / 6), abs=1e-3))]
    assert near.source is near.target
