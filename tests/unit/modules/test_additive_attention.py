"""Test additive attention against a loop over sentences and positions."""

import pytest
import torch

from wean_fairseq.modules import AdditiveAttention

B, S, Q, K, A = 2, 5, 4, 7, 3


def naive_scores(layer, query, keys, coverage):
    scores = torch.zeros(B, S)
    for b in range(B):
        for i in range(S):
            inner = layer.key_proj.weight @ keys[b, i] + layer.query_proj.weight @ query[b]
            if layer.query_proj.bias is not None:
                inner = inner + layer.query_proj.bias
            if coverage is not None:
                inner = inner + layer.coverage_weight * coverage[b, i]
            scores[b, i] = (layer.vector * torch.tanh(inner)).sum()
    return scores


@pytest.mark.parametrize("query_bias", [False, True])
@pytest.mark.parametrize("coverage", [False, True])
def test_scores_and_gradients_equal_a_loop_over_positions(coverage, query_bias):
    torch.manual_seed(3)
    layer = AdditiveAttention(Q, K, A, coverage=coverage, query_bias=query_bias)
    inputs = [torch.randn(B, Q), torch.randn(B, S, K), *([torch.rand(B, S)] if coverage else [])]
    results = []
    for compute in (
        lambda query, keys, cov=None: layer.scores(query, layer.project_keys(keys), cov),
        lambda query, keys, cov=None: naive_scores(layer, query, keys, cov),
    ):
        leaves = [value.clone().requires_grad_() for value in inputs]
        scores = compute(*leaves)
        gradients = torch.autograd.grad((scores * torch.arange(S)).sum(), [*leaves, *layer.parameters()])
        results.append((scores.detach(), gradients))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_projected_keys_serve_many_steps():
    """Computing scores must not overwrite the projected keys, which later steps read."""
    layer = AdditiveAttention(Q, K, A)
    keys = layer.project_keys(torch.randn(B, S, K))
    first, second = torch.randn(B, Q), torch.randn(B, Q)
    before = layer.scores(second, keys).detach()
    layer.scores(first, keys)
    torch.testing.assert_close(layer.scores(second, keys), before)


def test_only_what_is_asked_for_has_weights():
    plain, full = AdditiveAttention(Q, K, A), AdditiveAttention(Q, K, A, coverage=True, query_bias=True)
    assert {name for name, _ in plain.named_parameters()} == {"key_proj.weight", "query_proj.weight", "vector"}
    extra = {name for name, _ in full.named_parameters()} - {name for name, _ in plain.named_parameters()}
    assert extra == {"coverage_weight", "query_proj.bias"}


@pytest.mark.parametrize("autocast", [False, True])
def test_coverage_in_float32_goes_with_half_precision_scores(autocast):
    """bfloat16 has 8 significant bits, so the tolerance is 2% of the largest score."""
    layer = AdditiveAttention(Q, K, A, coverage=True)
    query, keys, coverage = torch.randn(B, Q), torch.randn(B, S, K), torch.rand(B, S)
    expected = layer.scores(query, layer.project_keys(keys), coverage).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        dtype = torch.float32 if autocast else torch.bfloat16
        half = layer.to(dtype)
        found = half.scores(query.to(dtype), half.project_keys(keys.to(dtype)), coverage)
    torch.testing.assert_close(found.float(), expected, rtol=0.0, atol=0.02 * float(expected.abs().max()) + 0.01)
