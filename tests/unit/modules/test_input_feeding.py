"""Compare global attention and the input-feeding LSTM with loops over positions, steps, layers, and with LSTMCell."""

import pytest
import torch
from torch import nn

from wean_fairseq.modules.input_feeding import GlobalAttention, InputFeedingLstm

B, T, S, E, H = 2, 4, 5, 3, 6
MASK = torch.tensor([[False] * 5, [True, False, False, True, True]])


def naive_attention(layer, query, states):
    """Return W_c [c; h], with the score and the mean computed one step and one position at a time."""
    attended, weights = torch.zeros(B, query.size(1), H), torch.zeros(B, query.size(1), S)
    for b in range(B):
        for t in range(query.size(1)):
            keys = [h if layer.key_proj is None else layer.key_proj.weight @ h for h in states[b]]
            exps = [0.0 if MASK[b, i] else torch.exp(query[b, t] @ keys[i]) for i in range(S)]
            for i in range(S):
                weights[b, t, i] = exps[i] / sum(exps)
            context = sum(weights[b, t, i] * states[b, i] for i in range(S))
            attended[b, t] = torch.tanh(layer.combine.weight @ torch.cat([context, query[b, t]]))
    return attended, weights


@pytest.mark.parametrize("score", ["dot", "general"])
def test_attention_equals_a_loop_over_positions(score):
    torch.manual_seed(3)
    layer = GlobalAttention(score, H)
    query, states = torch.randn(B, T, H), torch.randn(B, S, H)
    with torch.no_grad():
        found = layer.over(layer.remember(states, MASK))(query)
        torch.testing.assert_close(found, naive_attention(layer, query, states), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 3])
def test_steps_equal_lstm_cells_that_are_fed(layers):
    """The oracle is PyTorch's LSTMCell of each layer, fed with [word; attentional state of the step before]."""
    torch.manual_seed(4)
    attention = GlobalAttention("general", H)
    stack = InputFeedingLstm(E, H, layers, attention, dropout=0.5, dropout_input=False).eval()
    words, states = torch.randn(B, T, E), torch.randn(B, S, H)
    start = [(torch.randn(B, H), torch.randn(B, H)) for _ in range(layers)]
    with torch.no_grad():
        hidden, cell = (torch.stack([pair[part] for pair in start]) for part in range(2))
        memory = attention.remember(states, MASK)
        outputs, weights, after = stack(words, memory, stack.start(hidden, cell))
        cells = []
        for layer in range(layers):
            cells.append(nn.LSTMCell(E + H if layer == 0 else H, H))
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(cells[layer], name).copy_(getattr(stack.lstm, f"{name}_l{layer}"))
        fed, now = torch.zeros(B, H), start
        for t in range(T):
            below = torch.cat([words[:, t], fed], dim=-1)
            for layer in range(layers):
                now[layer] = cells[layer](below, now[layer])
                below = now[layer][0]
            attended, expected_weights = naive_attention(attention, below.unsqueeze(1), states)
            fed = attended[:, 0]
            torch.testing.assert_close(outputs[:, t], fed, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(weights[:, t], expected_weights[:, 0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(after.fed, fed, rtol=1e-5, atol=1e-5)
        for layer in range(layers):
            torch.testing.assert_close(after.layers.hidden[layer], now[layer][0], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(after.layers.cell[layer], now[layer][1], rtol=1e-5, atol=1e-5)


def parts_of(stack):
    """Return the words, the source memory and the initial state of a batch."""
    words, states = torch.randn(B, T, E), torch.randn(B, S, H)
    memory = stack.attention.remember(states, MASK)
    return words, memory, stack.start(torch.randn(2, B, H), torch.randn(2, B, H))


@pytest.mark.parametrize("dropout_input", [False, True])
def test_halves_of_a_sentence_one_after_the_other_are_the_whole(dropout_input):
    """The state fed within a call equals the state that a call returns, even in training with dropout at each step."""
    torch.manual_seed(5)
    stack = InputFeedingLstm(E, H, 2, GlobalAttention("dot", H), dropout=0.5, dropout_input=dropout_input)
    words, memory, state = parts_of(stack)
    torch.manual_seed(6)
    whole, _, _ = stack(words, memory, state)
    torch.manual_seed(6)
    first, _, state = stack(words[:, :1], memory, state)
    second, _, _ = stack(words[:, 1:], memory, state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)


def test_what_is_fed_has_the_dropout_of_what_is_scored_unless_the_input_has_its_own():
    """OpenNMT feeds the state with the dropout that is applied before scoring the words.

    The release of EncDecA feeds the state before this dropout.
    """
    torch.manual_seed(7)
    for dropout_input in (False, True):
        stack = InputFeedingLstm(E, H, 2, GlobalAttention("general", H), dropout=0.5, dropout_input=dropout_input)
        outputs, _, after = stack(*parts_of(stack))
        last = outputs[:, -1]
        assert (last == 0).any()
        if dropout_input:
            assert (after.fed != 0).all()
            torch.testing.assert_close(last[last != 0], 2 * after.fed[last != 0])  # 1 / (1 - 0.5)
        else:
            assert torch.equal(after.fed, last)
