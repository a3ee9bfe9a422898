"""Test that recurrent layers give the same results for padded batches and for each sentence alone."""

import pytest
import torch
from torch import nn

from wean_fairseq.modules import EarlyResetGru, run_over_words

LENGTHS, E, H = (4, 1, 6), 3, 5


@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_each_sentence_is_read_as_if_it_stood_alone(kind, bidirectional, left_pad):
    torch.manual_seed(2)
    rnn = kind(E, H, 2, batch_first=True, bidirectional=bidirectional)
    sentences = [torch.randn(length, E) for length in LENGTHS]
    inputs, padding_mask = torch.full((3, 8, E), 1e9), torch.ones(3, 8, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        place = slice(8 - len(sentence), None) if left_pad else slice(len(sentence))
        inputs[row, place], padding_mask[row, place] = sentence, False
    outputs, state = run_over_words(rnn, inputs, padding_mask)
    assert not outputs[padding_mask].any()
    for row, sentence in enumerate(sentences):
        expected, expected_state = rnn(sentence.unsqueeze(0))
        torch.testing.assert_close(outputs[row][~padding_mask[row]], expected[0])
        parts = state if kind is nn.LSTM else (state,)
        expected_parts = expected_state if kind is nn.LSTM else (expected_state,)
        for part, expected_part in zip(parts, expected_parts, strict=True):
            torch.testing.assert_close(part[:, row], expected_part[:, 0])


@pytest.mark.parametrize("left_pad", [False, True])
def test_a_gru_that_resets_early_reads_each_sentence_as_if_it_stood_alone(left_pad):
    """The expected states come from the same GRU on the sentence alone, with a non-zero initial state.

    Another test compares the equations of this GRU with a loop.
    """
    rnn, state = EarlyResetGru(E, H, batch_first=True, bidirectional=True), torch.randn(2, 2, H)
    inputs, padding_mask = torch.randn(2, 6, E), torch.zeros(2, 6, dtype=torch.bool)
    words = slice(2, None) if left_pad else slice(4)
    padding_mask[1], padding_mask[1, words] = True, False
    outputs, final = rnn(inputs, state, padding_mask)
    expected, expected_final = rnn(inputs[1:, words], state[:, 1:])
    assert not outputs[padding_mask].any()
    torch.testing.assert_close(outputs[1, words], expected[0])
    torch.testing.assert_close(final[:, 1:], expected_final)
    torch.testing.assert_close(outputs[:1], rnn(inputs[:1], state[:, :1])[0])


def test_padding_gets_no_gradient():
    inputs = torch.randn(2, 4, E, requires_grad=True)
    padding_mask = torch.tensor([[True, True, False, False], [False] * 4])
    outputs, (hidden, cell) = run_over_words(nn.LSTM(E, H, batch_first=True), inputs, padding_mask)
    (outputs.sum() + hidden.sum() + cell.sum()).backward()
    assert torch.equal(inputs.grad.eq(0).all(dim=-1), padding_mask)


def test_a_sentence_of_padding_alone_breaks_nothing():
    outputs, _ = run_over_words(nn.GRU(E, H, batch_first=True), torch.randn(1, 4, E), torch.ones(1, 4).bool())
    assert outputs.shape == (1, 4, H)
