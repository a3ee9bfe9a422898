"""Test attention against a loop over positions, and the three bridges against the states that they document."""

import pytest
import torch

from wean_fairseq.modules import BilinearAttention, StateBridge, masked_softmax

B, T, S, Q, K = 2, 3, 5, 4, 7


def naive_attention(layer, query, keys, padding_mask):
    contexts, weights = torch.zeros(B, T, K), torch.zeros(B, T, S)
    for b in range(B):
        for t in range(T):
            projected = layer.query_proj.weight @ query[b, t] + layer.query_proj.bias
            if layer.tanh:
                projected = torch.tanh(projected)
            exps = [0.0 if padding_mask[b, i] else torch.exp((keys[b, i] * projected).sum()) for i in range(S)]
            for i in range(S):
                weights[b, t, i] = exps[i] / sum(exps)
                contexts[b, t] += weights[b, t, i] * keys[b, i]
    return contexts, weights


@pytest.mark.parametrize("tanh", [False, True])
def test_attention_equals_a_loop_over_positions(tanh):
    torch.manual_seed(3)
    layer = BilinearAttention(Q, K, tanh=tanh)
    query, keys = torch.randn(B, T, Q), torch.randn(B, S, K)
    padding_mask = torch.tensor([[False] * 5, [True, False, False, True, True]])
    with torch.no_grad():
        torch.testing.assert_close(
            layer(query, keys, padding_mask), naive_attention(layer, query, keys, padding_mask), rtol=1e-5, atol=1e-6
        )


def test_the_gradient_of_masked_softmax_is_that_of_a_softmax_with_large_negative_scores():
    """The oracle is autograd through a softmax whose masked scores are -1e30.

    If all scores are masked, the gradient is 0.
    """
    mask = torch.tensor([[False, True, False], [True, True, True]])
    scores = torch.randn(2, 4, 3, dtype=torch.double, requires_grad=True)
    grad = torch.randn(2, 4, 3, dtype=torch.double)
    plain = scores.masked_fill(mask.unsqueeze(1), -1e30).softmax(dim=-1)
    (expected,) = torch.autograd.grad(plain, scores, grad * torch.tensor([1.0, 0.0]).view(2, 1, 1))
    (found,) = torch.autograd.grad(masked_softmax(scores, mask), scores, grad)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_masked_softmax_gives_padding_nothing_and_an_all_padded_row_zeros():
    mask = torch.tensor([[False, True, False], [True, True, True]])
    weights = masked_softmax(torch.tensor([[[0.0, 50.0, 0.0]], [[1.0, 2.0, 3.0]]]), mask)
    assert weights.tolist() == [[[0.5, 0.0, 0.5]], [[0.0, 0.0, 0.0]]]


@pytest.mark.parametrize("mask", [None, torch.zeros(1, 300, dtype=torch.bool)])
def test_half_precision_scores_are_normalised_in_float32(mask):
    """The expected result is the softmax of the same numbers in float64, rounded once to half precision."""
    scores = (torch.randn(1, 1, 300, generator=torch.Generator().manual_seed(1)) * 4).half()
    exact = torch.softmax(scores.double(), dim=-1)
    torch.testing.assert_close(masked_softmax(scores, mask).double(), exact, rtol=2**-10, atol=1e-7)


def test_without_a_mask_padding_takes_weight():
    assert masked_softmax(torch.zeros(1, 1, 4), None).tolist() == [[[0.25] * 4]]


@pytest.mark.parametrize(("kind", "layers"), [("bottom", [0, 1]), ("top", [1, 2])])
def test_bridges_pick_layers(kind, layers):
    hidden, cell = torch.randn(3, B, 4), torch.randn(3, B, 4)
    picked_hidden, picked_cell = StateBridge(kind, 3, 2, 4)(hidden, cell)
    torch.testing.assert_close(picked_hidden, hidden[layers])
    torch.testing.assert_close(picked_cell, cell[layers])


def test_linear_bridge_projects_all_layers_of_each_sentence():
    bridge = StateBridge("linear", 3, 2, 4)
    hidden, cell = torch.randn(3, B, 4), torch.randn(3, B, 4)
    out_hidden, out_cell = bridge(hidden, cell)
    for b in range(B):
        for state, proj, out in ((hidden, bridge.hidden_proj, out_hidden), (cell, bridge.cell_proj, out_cell)):
            expected = proj.weight @ torch.cat([state[layer, b] for layer in range(3)]) + proj.bias
            torch.testing.assert_close(torch.cat([out[0, b], out[1, b]]), expected)


def test_an_impossible_bridge_is_refused():
    with pytest.raises(ValueError, match="no fewer encoder layers than decoder layers, but there are 1 and 2"):
        StateBridge("top", 1, 2, 4)
