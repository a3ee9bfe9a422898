"""Test the embedding layer of the original Transformer ("Attention Is All You Need", sections 3.4 and 3.5)."""

import pytest
import torch
from torch import nn

from tests.reference import pc_san as reference
from wean_fairseq.modules import SinusoidalEmbedding
from wean_fairseq.modules.words_read import WordsRead

PAD = 1


@pytest.mark.parametrize("dim", [6, 7])
def test_words_are_scaled_and_positions_are_sines_and_cosines(dim):
    """The expected embedding is computed with the formula, unit by unit."""
    layer = SinusoidalEmbedding(nn.Embedding(9, dim, PAD), 300, dropout=0.0)
    tokens = torch.randint(3, 9, (1, 300))
    with torch.no_grad():
        found = layer(tokens)[0]
    for place in (0, 1, 17, 299):
        expected = dim**0.5 * layer.words.weight[tokens[0, place]] + reference.sinusoid(place, dim)
        torch.testing.assert_close(found[place], expected, rtol=1e-4, atol=1e-4)


def test_the_last_word_alone_is_the_last_of_all():
    layer = SinusoidalEmbedding(nn.Embedding(9, 6, PAD), 8, dropout=0.0)
    tokens = torch.randint(3, 9, (2, 5))
    before = WordsRead.empty(tokens).append(tokens[:, :-1].ne(1), len(tokens))
    torch.testing.assert_close(layer(tokens[:, -1:], before), layer(tokens)[:, -1:])


def test_positions_are_no_parameters_and_in_no_checkpoint():
    layer = SinusoidalEmbedding(nn.Embedding(9, 6, PAD), 8, dropout=0.0)
    assert list(layer.state_dict()) == ["words.weight"]


def test_dropout_falls_on_the_sum():
    layer = SinusoidalEmbedding(nn.Embedding(9, 600, PAD), 8, dropout=0.25).train()
    torch.manual_seed(0)
    dropped = layer(torch.tensor([[5, 6, 7]])).eq(0.0).float().mean()
    assert 0.2 < dropped < 0.3


def test_a_longer_sentence_is_refused():
    layer = SinusoidalEmbedding(nn.Embedding(9, 6, PAD), 4, dropout=0.0)
    with pytest.raises(ValueError, match=r"a sentence has 5 tokens, .* at most 4"):
        layer(torch.full((1, 5), 5))
