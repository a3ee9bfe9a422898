"""Test each module of the topic-essay models against a hand-computed case or PyTorch's own arithmetic."""

import pytest
import torch

from wean_fairseq.modules import (
    TopicImportance,
    attend_uncovered,
    control_loss,
    find_chunks,
    first_keywords,
    gru_update,
    importance_loss,
    lstm_update,
    scatter_to_source,
    text_before,
    topic_words,
)

PAD, EOS = 1, 2


def test_topics_are_found_wherever_the_padding_is():
    source = torch.tensor(
        [[PAD, PAD, 7, 9, EOS], [5, EOS, PAD, PAD, PAD], [4, 6, 8, 3, EOS], [EOS, PAD, PAD, PAD, PAD]]
    )
    words = topic_words(source, PAD, EOS, num_slots=4)
    assert words.tokens.tolist() == [[7, 9, PAD, PAD], [5, PAD, PAD, PAD], [4, 6, 8, 3], [PAD] * 4]
    assert torch.equal(words.padding_mask, words.tokens == PAD)
    assert words.slot.tolist() == [[-1, -1, 0, 1, -1], [0, -1, -1, -1, -1], [0, 1, 2, 3, -1], [-1] * 5]
    any_number = topic_words(source, PAD, EOS)
    assert torch.equal(any_number.tokens[:, :4], words.tokens)
    values = torch.tensor([[[0.1, 0.2, 9.0, 9.0]]]).expand(4, 2, 4)
    assert scatter_to_source(values, words.slot)[0].tolist() == [pytest.approx([0, 0, 0.1, 0.2, 0])] * 2
    assert not scatter_to_source(values, words.slot)[3].any()


def test_slots_that_are_too_few_are_refused_only_if_they_are():
    source = torch.tensor([[PAD, PAD, 7, 9, EOS]])
    assert topic_words(source, PAD, EOS, num_slots=2).tokens.tolist() == [[7, 9]]
    with pytest.raises(ValueError, match="a source has 2 topic words, but there are only 1 slots"):
        topic_words(source, PAD, EOS, num_slots=1)


def test_gates_are_those_of_pytorchs_cells():
    torch.manual_seed(0)
    lstm, gru = torch.nn.LSTMCell(3, 5), torch.nn.GRUCell(3, 5)
    inputs, hidden, cell = torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    gates = inputs @ lstm.weight_ih.T + lstm.bias_ih + hidden @ lstm.weight_hh.T + lstm.bias_hh
    expected = lstm(inputs, (hidden, cell))
    for found, wanted in zip(lstm_update(gates, cell), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    added = torch.randn(4, 5)
    torch.testing.assert_close(lstm_update(gates, cell, added)[1], expected[1] + added)
    input_gates = inputs @ gru.weight_ih.T + gru.bias_ih
    hidden_gates = hidden @ gru.weight_hh.T + gru.bias_hh
    torch.testing.assert_close(gru_update(input_gates, hidden_gates, hidden), gru(inputs, hidden))


def test_coverage_by_hand():
    """Two topics have the scores log 3 and log 1, so alpha is (3/4, 1/4) in the first step, and phi is (3/2, 1/2).

    The third slot is empty and must be ignored.
    """
    mask = torch.tensor([[False, False, True]])
    scores, phi = torch.tensor([[3.0, 1.0, 5.0]]).log(), torch.tensor([[1.5, 0.5, 2.0]])
    first, coverage = attend_uncovered(scores, torch.ones(1, 3), phi, mask)
    assert first[0].tolist() == pytest.approx([0.75, 0.25, 0.0])
    assert coverage[0].tolist() == pytest.approx([0.5, 0.5, 1.0])
    second, coverage = attend_uncovered(scores, coverage, phi, mask)
    share = 3**0.5 / (3**0.5 + 1)
    assert second[0].tolist() == pytest.approx([share, 1 - share, 0.0])
    assert coverage[0].tolist() == pytest.approx([0.5 - share / 1.5, 0.5 - (1 - share) / 0.5, 1.0])
    weights = torch.stack([first, second, torch.ones(1, 3)], dim=1)  # the third step is padding
    loss = importance_loss(weights, phi, mask, torch.tensor([[False, False, True]]))
    expected = (1.5 - 0.75 - share) ** 2 + (0.5 - 0.25 - 1 + share) ** 2
    assert loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_importance_is_a_share_of_the_length(dtype):
    """With weights of 0, phi is half of the essay length in float32, because it is compared with sums over steps."""
    importance = TopicImportance(3, 2).to(dtype)
    torch.nn.init.zeros_(importance.proj.weight)
    phi = importance(torch.ones(2, 3, 2, dtype=dtype), torch.tensor([10, 301]))
    assert phi.dtype == torch.float32
    assert phi.tolist() == [[5.0] * 3, [150.5] * 3]


def test_a_keyword_given_twice_is_one():
    keywords = torch.tensor([[7, 5, 7, 7, PAD], [PAD] * 5])
    first = first_keywords(keywords, keywords == PAD)
    assert first.tolist() == [[1, 1, 0, 0, 0], [0] * 5]


def test_control_loss_by_hand():
    """d goes from (1, 1) to (1, 0) to (0.7, 0.4) in steps of length 1 and 0.5. The third step is padding."""
    steps = torch.tensor([[[1.0, 0.0], [0.7, 0.4], [0.0, 0.0]]])
    loss = control_loss(steps, torch.ones(1, 2), torch.tensor([[False, False, True]]))
    assert loss.item() == pytest.approx(0.65**0.5 + 1e-4 * (100**1 + 100**0.5))


SEPARATOR = 9
TEXTS = [[EOS, 4, 5, SEPARATOR, 6, SEPARATOR, SEPARATOR, 7], [EOS, 4, 5], [EOS, SEPARATOR, 4]]


@pytest.fixture
def words():
    return torch.tensor([text + [PAD] * (10 - len(text)) for text in TEXTS])


def test_chunks_by_hand(words):
    chunks = find_chunks(words, PAD, SEPARATOR)
    rows = [[EOS, 4, 5], [SEPARATOR, 6], [SEPARATOR], [SEPARATOR, 7], [EOS, 4, 5], [EOS], [SEPARATOR, 4]]
    assert chunks.split(words).tolist() == [row + [0] * (3 - len(row)) for row in rows]
    assert chunks.text.tolist() == [0, 0, 0, 0, 1, 2, 2]
    assert chunks.number.tolist() == [0, 1, 2, 3, 0, 0, 1]
    joined = chunks.join(chunks.split(words))
    assert torch.equal(joined, words.masked_fill(words == PAD, 0))
    before = [[], [4, 5, SEPARATOR], [4, 5, SEPARATOR, 6, SEPARATOR], [4, 5, SEPARATOR, 6, SEPARATOR, SEPARATOR]]
    before += [[], [], [SEPARATOR]]
    assert text_before(words, chunks, PAD).tolist() == [row + [PAD] * (6 - len(row)) for row in before]


def test_chunks_carry_gradients(words):
    chunks = find_chunks(words, PAD, SEPARATOR)
    values = torch.randn(3, 10, 2, requires_grad=True)
    chunks.join(chunks.split(values).square()).sum().backward()
    expected = 2 * values.detach() * (words != PAD).unsqueeze(-1)
    torch.testing.assert_close(values.grad, expected)
