"""Compare the Transformer's layers with those of ``tests/reference/transformer.py``, and test effects of padding."""

import pytest
import torch
from torch import nn

from tests.reference import transformer as reference
from tests.reference.transformer import lively
from tests.simulated_gpu import SimulatedGpu
from wean_fairseq.modules import (
    DecoderLayer,
    EncoderLayer,
    PositionedEmbedding,
    TiedOutput,
    TransformerDecoder,
    TransformerEncoder,
    init_transformer,
)
from wean_fairseq.modules.transformer import MultiHeadAttention, attention_log_weights, padding_bias
from wean_fairseq.modules.words_read import SharedWords, WordsRead

PAD, WORDS, DIM, HEADS, INNER = 1, 13, 6, 3, 10


def embedding(max_positions: int = 8) -> PositionedEmbedding:
    return PositionedEmbedding(nn.Embedding(WORDS, DIM, PAD), max_positions, dropout=0.0)


def encoder(layer: type[EncoderLayer] = EncoderLayer) -> TransformerEncoder:
    return lively(TransformerEncoder(embedding(), [layer(DIM, HEADS, INNER, 0.1, 0.1) for _ in range(2)]))


def decoder() -> TransformerDecoder:
    return lively(TransformerDecoder(embedding(), [DecoderLayer(DIM, HEADS, INNER, 0.1, 0.1) for _ in range(2)]))


@pytest.mark.parametrize("with_weights", [False, True])
def test_attention_is_that_of_the_paper_with_a_bias_for_each_query(with_weights):
    attention = lively(MultiHeadAttention(DIM, HEADS, 0.1))
    states, source, bias = torch.randn(2, 4, DIM), torch.randn(2, 5, DIM), torch.randn(2, 1, 4, 5)
    with torch.no_grad():
        output, log_weights = attention(states, attention.project(source), bias, with_weights=with_weights)
        assert (log_weights is not None) is with_weights
        for row in range(2):
            for step in range(4):
                expected = reference.attend(attention, states[row, step], list(source[row]), list(bias[row, 0, step]))
                torch.testing.assert_close(output[row, step], expected[0], rtol=1e-5, atol=1e-5)
                if with_weights:
                    torch.testing.assert_close(log_weights[row, :, step].exp(), expected[1], rtol=1e-5, atol=1e-6)


def test_a_gpus_kernel_attends_as_a_cpu_does_and_drops_weights_in_training_alone():
    attention = lively(MultiHeadAttention(DIM, HEADS, 0.5)).eval()
    states, source, bias = torch.randn(2, 4, DIM), torch.randn(2, 5, DIM), torch.randn(2, 1, 4, 5)
    expected = attention(states, attention.project(source), bias).output
    with SimulatedGpu() as gpu:
        memory = attention.project(source)
        torch.testing.assert_close(attention(states, memory, bias).output, expected)
        dropped = attention.train()(states, memory, bias).output
    assert any("scaled_dot_product" in name for name in gpu.launches)
    assert not torch.allclose(dropped, expected)


def test_log_weights_keep_a_gradient_where_weights_vanish():
    """A key whose score is 200 lower has the weight exp(-200), which is 0 in float32.

    The logarithm of the weight is -200, with the gradient 1.
    """
    query = torch.tensor([[[[1.0]]]])
    keys = torch.tensor([[[[0.0], [-200.0]]]], requires_grad=True)
    log_weights = attention_log_weights(query, keys, None)
    torch.testing.assert_close(log_weights.flatten(), torch.tensor([0.0, -200.0]))
    log_weights[..., 1].sum().backward()
    torch.testing.assert_close(keys.grad.flatten(), torch.tensor([-1.0, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_log_weights_are_float32(dtype):
    assert attention_log_weights(
        torch.ones(1, 1, 2, 4, dtype=dtype), torch.ones(1, 1, 3, 4, dtype=dtype), None
    ).dtype == (torch.float32)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="there are 4 heads and 6 units"):
        MultiHeadAttention(DIM, 4, 0.1)


@pytest.mark.parametrize("with_weights", [False, True])
def test_dropout_falls_on_attention_weights(with_weights):
    """Of 400 weights of 1 / 400 on values of 1, dropout keeps three quarters and multiplies them by 4 / 3.

    Their sum is 1 on average, with a standard deviation of 0.03.
    """
    attention = MultiHeadAttention(1, 1, 0.25).train()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.value_proj.bias.fill_(1.0)
        attention.out_proj.weight.fill_(1.0)
    source = torch.zeros(1, 400, 1)
    torch.manual_seed(0)
    output, log_weights = attention(torch.zeros(1, 50, 1), attention.project(source), None, with_weights=with_weights)
    assert 0.97 < output.mean() < 1.03
    assert 0.01 < output.std() < 0.06
    if with_weights:
        torch.testing.assert_close(log_weights.exp(), torch.full((1, 1, 50, 400), 1 / 400))


def test_the_encoder_is_the_naive_one():
    network = encoder()
    words = [5, 9, 4, 9, 2]
    with torch.no_grad():
        found = network(torch.tensor([words]), torch.zeros(1, 5, dtype=torch.bool))[-1]
        torch.testing.assert_close(found[0], torch.stack(reference.encode(network, words)), rtol=1e-4, atol=1e-5)


def test_the_decoder_is_the_naive_one():
    network = decoder()
    words, source = [2, 7, 3, 12], torch.randn(1, 3, DIM)
    with torch.no_grad():
        memory = network.remember(source, torch.zeros(1, 3, dtype=torch.bool))
        found, _ = network(torch.tensor([words]), memory, network.begin(memory), with_weights=True)
        for step, (state, context, weights) in enumerate(reference.decode(network, words, list(source[0]))):
            torch.testing.assert_close(found.states[0, step], state, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.context[0, step], context, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.log_weights[0, :, step].exp(), weights, rtol=1e-4, atol=1e-6)


def test_steps_are_those_of_the_whole_after_a_reorder():
    """Every hypothesis has its own copy of the source, as in fairseq's search."""
    network = decoder()
    tokens, source = torch.randint(3, WORDS, (2, 5)), torch.randn(2, 4, DIM)
    with torch.no_grad():
        memory = network.remember(source, torch.tensor([[True, True, False, False], [False] * 4]))
        whole, _ = network(tokens, memory, network.begin(memory), with_weights=True)
        state, order = network.begin(memory), torch.tensor([0, 1])
        for step in range(5):
            if step == 3:
                order = torch.tensor([1, 1, 0])
                memory, state = memory.select(order), state.select(order, order)
            found, state = network(tokens[order, step : step + 1], memory, state, with_weights=True)
            for part, expected in zip(found, whole, strict=True):
                expected_step = expected[order][..., step : step + 1, :]
                torch.testing.assert_close(part, expected_step, rtol=1e-5, atol=1e-5)


def test_hypotheses_of_a_sentence_share_its_source_and_their_words():
    """The expected states are computed for each hypothesis alone.

    Several hypotheses continue the same hypothesis, and the first of three sentences is dropped.
    """
    network = decoder()
    source = torch.randn(3, 4, DIM)
    with torch.no_grad():
        padding_mask = torch.tensor([[True, False, False, False], [True, True, False, False], [False] * 4])
        memory = network.remember(source, padding_mask)
        state = network.begin(memory)
        words = torch.tensor([[4], [5], [6]])
        parents = [torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([2, 2, 5, 4]), torch.tensor([1, 1, 2, 3])]
        kept = [None, torch.tensor([1, 2]), None]
        history, sentences = words, torch.arange(3)
        for step in range(4):
            found, state = network(history[:, -1:], memory, state)
            for row, read in enumerate(history):
                own = memory.select(torch.tensor([row * len(sentences) // len(history)]))
                alone, _ = network(read.unsqueeze(0), own, network.begin(own))
                states = found.states.reshape(len(history), DIM)[row]
                torch.testing.assert_close(states, alone.states[0, -1], rtol=1e-5, atol=1e-5)
            if step < 3:
                state = state.select(parents[step], kept[step])
                if kept[step] is not None:
                    memory, sentences = memory.select(kept[step]), sentences[kept[step]]
                new = torch.arange(7, 7 + len(parents[step])).unsqueeze(1)
                history = torch.cat([history[parents[step]], new], dim=1)
        # one cache entry per hypothesis and step, without copies
        assert state.layers[0].words.kept["keys"].size(2) == 1 + 2 + 2 + 2


def test_two_can_go_on_from_the_same_state():
    """The expected states are computed for each continuation alone.

    One of the two continuations extends the cached words in place.
    """
    network = decoder()
    with torch.no_grad():
        memory = network.remember(torch.randn(1, 4, DIM), torch.zeros(1, 4, dtype=torch.bool))
        start = network.begin(memory)
        for word in (4, 5, 6):
            _, start = network(torch.tensor([[word]]), memory, start)
        states, found = [start, start], [start, start]
        for words in ((7, 8), (8, 7), (3, 3)):
            for number, word in enumerate(words):
                found[number], states[number] = network(torch.tensor([[word]]), memory, states[number])
        for last, words in zip(found, ([4, 5, 6, 7, 8, 3], [4, 5, 6, 8, 7, 3]), strict=True):
            whole, _ = network(torch.tensor([words]), memory, network.begin(memory))
            torch.testing.assert_close(last.states[:, 0], whole.states[:, -1], rtol=1e-5, atol=1e-5)
        again, _ = network(torch.tensor([[3]]), memory, network(torch.tensor([[8]]), memory, start)[1])
        other, _ = network(torch.tensor([[4, 5, 6, 8, 3]]), memory, network.begin(memory))
        torch.testing.assert_close(again.states[:, 0], other.states[:, -1], rtol=1e-5, atol=1e-5)


def test_the_source_is_projected_once():
    network = decoder()
    calls = []
    network.layers[0].cross_attention.key_proj.register_forward_hook(lambda *_: calls.append(1))
    memory = network.remember(torch.randn(1, 4, DIM), torch.zeros(1, 4, dtype=torch.bool))
    state = network.begin(memory)
    for _ in range(3):
        _, state = network(torch.full((1, 1), 5), memory, state)
    assert len(calls) == 1


@pytest.mark.parametrize(("left", "right"), [(0, 3), (3, 0), (2, 2)])
def test_positions_count_from_the_first_word(left, right):
    network = encoder()
    words = [5, 9, 4, 2]
    padded = torch.tensor([[PAD] * left + words + [PAD] * right])
    with torch.no_grad():
        plain = network.embedding(torch.tensor([words]))
        torch.testing.assert_close(network.embedding(padded)[:, left : left + 4], plain)
        found = network(padded, padded.eq(PAD))[-1][:, left : left + 4]
        expected = network(torch.tensor([words]), torch.zeros(1, 4, dtype=torch.bool))[-1]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        before = torch.tensor([[PAD] * left + words[:-1]])
        read = WordsRead.empty(before).append(before.ne(PAD), 1)
        torch.testing.assert_close(network.embedding(torch.tensor([words[-1:]]), read), plain[:, -1:])


def test_order_matters():
    network = encoder()
    found = network(torch.tensor([[5, 9, 4]]), torch.zeros(1, 3, dtype=torch.bool))[-1]
    swapped = network(torch.tensor([[9, 5, 4]]), torch.zeros(1, 3, dtype=torch.bool))[-1]
    assert (found[0, [0, 1]] - swapped[0, [1, 0]]).abs().max() > 0.01


def test_a_sentence_longer_than_the_positions_is_refused_and_padding_does_not_count():
    network = embedding(max_positions=4)
    network(torch.tensor([[PAD, PAD, 5, 9, 4, 2]]))
    with pytest.raises(ValueError, match=r"a sentence has 5 tokens, .* made for at most 4 .* split or truncate"):
        network(torch.tensor([[PAD, 5, 9, 4, 7, 2]]))


def test_a_row_of_padding_stays_finite():
    network = encoder()
    tokens = torch.tensor([[PAD, PAD, PAD], [5, 2, PAD]])
    states = network(tokens, tokens.eq(PAD))[-1]
    states.sum().backward()
    assert torch.isfinite(states).all()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)
    assert padding_bias(tokens.eq(PAD)).flatten().tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, float("-inf")]


class NearestWordsOnly(EncoderLayer):
    """An encoder layer with an additional bias that depends on the state of each query and on the distance."""

    scale = 0.0

    def forward(self, states, bias):
        place = torch.arange(states.size(1))
        far = (place[:, None] - place).abs() * states.norm(dim=-1, keepdim=True)  # (B, S, S)
        return super().forward(states, bias - self.scale * far.unsqueeze(1))


def test_a_layer_can_add_its_own_bias_to_the_attention():
    """A bias of 0 gives the same states as layers without a bias. With an extreme bias each word sees only itself."""
    network, plain = encoder(NearestWordsOnly), encoder()
    tokens, mask = torch.tensor([[5, 9, 4, 2]]), torch.zeros(1, 4, dtype=torch.bool)
    torch.testing.assert_close(network(tokens, mask), plain(tokens, mask))
    for layer in network.layers:
        layer.scale = 1e4
    alone = network(torch.tensor([[5]]), mask[:, :1])[-1]
    torch.testing.assert_close(network(tokens, mask)[-1][:, :1], alone, rtol=1e-4, atol=1e-5)


def test_gradients_reach_a_bias_through_the_fused_kernel():
    attention = lively(MultiHeadAttention(DIM, HEADS, 0.0))
    states = torch.randn(2, 4, DIM)
    gradients = []
    for with_weights in (False, True):
        bias = torch.zeros(2, 1, 4, 4, requires_grad=True)
        attention(states, attention.project(states), bias, with_weights=with_weights)[0].pow(2).sum().backward()
        gradients.append(bias.grad)
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_tied_output_and_its_loss(label_smoothing):
    """The expected scores are computed by hand, and the expected loss comes from fairseq's own smoothing."""
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    layer, words = lively(TiedOutput(DIM, WORDS, 3)), torch.randn(WORDS, DIM)
    states, target = torch.randn(2, 3, DIM), torch.tensor([[4, 9, 2], [12, 2, PAD]])
    with torch.no_grad():
        scores = layer.scores(states, words)
        hidden = reference.gelu(reference.linear(layer.transform[0], states[1, 2]))
        by_hand = words @ reference.layer_norm(layer.transform[2], hidden) + layer.bias
        torch.testing.assert_close(scores[1, 2], by_hand, rtol=1e-5, atol=1e-5)
        expected = label_smoothed_nll_loss(
            scores.log_softmax(-1).flatten(0, 1), target.flatten(), label_smoothing, ignore_index=PAD
        )
        found = layer.loss(states, words, target, PAD, label_smoothing)
    torch.testing.assert_close(found.loss, expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.nll_loss, expected[1], rtol=1e-5, atol=1e-5)


def test_the_start_is_that_of_bert():
    network = TransformerEncoder(
        PositionedEmbedding(nn.Embedding(500, 60, PAD), 512, 0.1), [EncoderLayer(60, 3, 110, 0.1, 0.1)]
    )
    init_transformer(network)
    for name, parameter in network.named_parameters():
        if "norm" in name:
            assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            assert 0.015 < parameter.std() < 0.025, name
    assert not network.embedding.words.weight[PAD].any()
    assert all(module.eps == 1e-12 for module in network.modules() if isinstance(module, nn.LayerNorm))


@torch.no_grad()
def test_words_that_follow_each_other_are_stored_in_place_and_those_of_a_branch_apart():
    first, second, third, other = torch.randn(4, 1, HEADS, 1, 2)
    both = SharedWords({}).append({"keys": first}).append({"keys": second})
    longer, branch = both.append({"keys": third}), both.append({"keys": other})
    assert longer.kept["keys"].data_ptr() == both.kept["keys"].data_ptr() != branch.kept["keys"].data_ptr()
    for stored, last in ((longer, third), (branch, other)):
        assert torch.equal(stored.kept["keys"], torch.cat([first, second, last], dim=2))
