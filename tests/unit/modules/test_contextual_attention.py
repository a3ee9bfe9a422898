"""Test queries that include the context (PC-SAN, eq. 8 to 11), and the layer that uses them."""

import pytest
import torch

from tests.reference import pc_san as reference
from tests.reference.transformer import lively
from wean_fairseq.modules import ContextualDecoderLayer, SourceContext, TargetContext
from wean_fairseq.modules.contextual_attention import ContextualQuery
from wean_fairseq.modules.transformer import causal_bias, padding_bias
from wean_fairseq.modules.transformer_decoder import Decoded, LayerState
from wean_fairseq.modules.words_read import WordsRead

BATCH, STEPS, DIM, TOPICS, MEMORY_DIM = 2, 5, 6, 4, 7
NOTHING: dict[str, torch.Tensor] = {}  # no words before this step
CONTEXTS = {"target": TargetContext(), "inclusive": TargetContext(inclusive=True), "source": SourceContext()}


def query_map(context_dim: int = DIM) -> ContextualQuery:
    return lively(ContextualQuery(DIM, context_dim))


@pytest.mark.parametrize("inclusive", [False, True])
def test_the_context_is_the_mean_of_the_past(inclusive):
    """The expected context is the mean, computed position by position."""
    states = torch.randn(BATCH, STEPS, DIM)
    found = TargetContext(inclusive=inclusive)(states, NOTHING)[0]
    for row in range(BATCH):
        for place in range(STEPS):
            expected = reference.context_mean(list(states[row]), place, inclusive=inclusive)
            torch.testing.assert_close(found[row, place], expected)


def test_the_first_position_has_no_context():
    assert not TargetContext()(torch.randn(1, 1, DIM), NOTHING)[0].any()


@pytest.mark.parametrize(("inclusive", "first_changed"), [(False, 3), (True, 2)])
def test_what_comes_later_changes_no_context(inclusive, first_changed):
    """The contexts before the change must be bitwise equal.

    The changed states are a million times larger, so that even a rounding error would be visible.
    """
    context, states = TargetContext(inclusive=inclusive), torch.randn(1, STEPS, DIM)
    before = context(states, NOTHING)[0]
    states[:, 2:] = 1e6 * torch.randn(1, STEPS - 2, DIM)
    same = (context(states, NOTHING)[0] == before).all(dim=-1)[0]
    assert same.tolist() == [place < first_changed for place in range(STEPS)]


@pytest.mark.parametrize("inclusive", [False, True])
def test_step_by_step_it_is_the_same_after_a_prefix_and_a_reorder(inclusive):
    context, states = TargetContext(inclusive=inclusive), torch.randn(BATCH, STEPS, DIM)
    expected = context(states, NOTHING)[0]
    found, sums = context(states[:, :2], NOTHING)
    torch.testing.assert_close(found, expected[:, :2])
    order = torch.tensor([1, 1, 0])
    sums = {name: kept[order] for name, kept in sums.items()}
    for step in range(2, STEPS):
        found, sums = context(states[order, step : step + 1], sums)
        torch.testing.assert_close(found, expected[order, step : step + 1])
    assert sums["context_count"].flatten().tolist() == [STEPS] * 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_long_means_are_taken_in_float32(dtype):
    """2,000 states of 100 have the sum 200,000, which float16 cannot hold. Their mean is 100."""
    found = TargetContext()(torch.full((1, 2001, 1), 100.0, dtype=dtype), NOTHING)[0]
    assert found.dtype == dtype
    assert found[0, 1:].eq(100.0).all()


def test_the_source_context_is_the_mean_of_the_topics_at_every_step():
    memory = torch.randn(BATCH, TOPICS, MEMORY_DIM)
    mask = torch.tensor([[True, True, False, False], [False, False, False, True]])
    found = SourceContext()(memory, padding_bias(mask))
    for row, kept in enumerate((memory[0, 2:], memory[1, :3])):
        torch.testing.assert_close(found[row], kept.mean(dim=0, keepdim=True))


def test_queries_and_context_are_mixed_by_one_number_a_position():
    """The expected query is computed with the equation of the paper.

    (Q^ - Q) / (C - Q) is the same in all units and differs between positions.
    """
    layer, states, mean = query_map(), torch.randn(BATCH, STEPS, DIM), torch.randn(BATCH, STEPS, DIM)
    with torch.no_grad():
        found = layer(torch.cat([states, mean], dim=-1))
        shares = torch.empty(BATCH, STEPS)
        for row in range(BATCH):
            for step in range(STEPS):
                expected, gate = reference.mixed_query(layer, states[row, step], mean[row, step])
                torch.testing.assert_close(found[row, step], expected, rtol=1e-4, atol=1e-5)
                query = layer.weight @ states[row, step] + layer.bias
                ratio = (found[row, step] - query) / (layer.context_proj.weight @ mean[row, step] - query)
                torch.testing.assert_close(ratio, gate.expand(DIM), rtol=1e-3, atol=1e-4)
                shares[row, step] = gate
    assert shares.flatten().unique().numel() == BATCH * STEPS
    assert (shares > 0).all() and (shares < 1).all()


@pytest.mark.parametrize(("sign", "is_query"), [(-1.0, True), (1.0, False)])
def test_a_closed_gate_gives_the_query_and_an_open_one_the_context(sign, is_query):
    layer, states, mean = query_map(), torch.rand(1, 3, DIM), torch.rand(1, 3, DIM)
    with torch.no_grad():
        layer.bias.fill_(50.0)
        layer.query_gate.weight.fill_(sign)
        layer.context_gate.weight.zero_()
        found = layer(torch.cat([states, mean], dim=-1))
        query, context = states @ layer.weight.t() + layer.bias, mean @ layer.context_proj.weight.t()
    torch.testing.assert_close(found, query if is_query else context, rtol=1e-4, atol=1e-4)


def make_layer(context: str, memory_index: int = 1) -> ContextualDecoderLayer:
    return lively(
        ContextualDecoderLayer(
            DIM, 3, 10, 0.1, 0.1, memory_index=memory_index, memory_dim=MEMORY_DIM, context=CONTEXTS.get(context)
        )
    )


def read_all(layer: ContextualDecoderLayer, states: torch.Tensor, memories: torch.Tensor) -> Decoded:
    """Compute all steps at once, and return the outputs with the attention weights."""
    bias = padding_bias(torch.zeros(1, TOPICS, dtype=torch.bool))
    read = WordsRead.empty(states).append(torch.ones(1, STEPS, dtype=torch.bool), 1)
    future = causal_bias(STEPS, states)
    return layer(states, layer.remember(memories, bias), LayerState(), read, future, bias, with_weights=True)[0]


@pytest.mark.parametrize("context", [*CONTEXTS, "none"])
def test_the_layer_is_the_naive_one(context):
    layer, states = make_layer(context), torch.randn(1, STEPS, DIM)
    memories = torch.randn(1, 3, TOPICS, MEMORY_DIM)
    options = {"context": "target" if context == "inclusive" else context, "context_inclusive": context == "inclusive"}
    with torch.no_grad():
        found = read_all(layer, states, memories)
        for place in range(STEPS):
            expected, weights = reference.layer_step(layer, list(states[0]), place, list(memories[0, 1]), options)
            torch.testing.assert_close(found.states[0, place], expected, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found.log_weights[0, :, place].exp().mean(0), weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("context", [*CONTEXTS, "none"])
def test_steps_of_the_layer_equal_the_whole(context):
    layer, states, memories = make_layer(context), torch.randn(1, STEPS, DIM), torch.randn(1, 3, TOPICS, MEMORY_DIM)
    bias = padding_bias(torch.zeros(1, TOPICS, dtype=torch.bool))
    state, read = LayerState(), WordsRead.empty(states)
    with torch.no_grad():
        whole = read_all(layer, states, memories).states
        source = layer.remember(memories, bias)
        for step in range(STEPS):
            read = read.append(torch.ones(1, 1, dtype=torch.bool), 1)
            found, state = layer(states[:, step : step + 1], source, state, read, None, bias)
            torch.testing.assert_close(found.states, whole[:, step : step + 1], rtol=1e-5, atol=1e-5)


def test_a_layer_reads_its_own_memory_only():
    layer, states, memories = make_layer("target"), torch.randn(1, STEPS, DIM), torch.randn(1, 3, TOPICS, MEMORY_DIM)
    changed = memories.clone()
    changed[:, [0, 2]] += 1.0
    with torch.no_grad():
        before, same = (read_all(layer, states, of).states for of in (memories, changed))
        other = read_all(layer, states, memories.flip(1) + 1.0).states
    assert torch.equal(before, same)
    assert not torch.allclose(before, other)
