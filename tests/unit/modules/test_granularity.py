"""Test the masks of C-DNPG against the tables of their equations, and the attention against the naive loops."""

import pytest
import torch

from tests.reference import granularity as reference
from tests.reference.transformer import lively
from wean_fairseq.modules import GRANULARITY_MASKS, GranularCrossAttention, GranularSelfAttention, init_granularity
from wean_fairseq.modules.granularity import GranularityHead, granularity_mask, resonance, scope
from wean_fairseq.modules.transformer import MultiHeadAttention, causal_bias, padding_bias

DIM, HEADS = 6, 3
QUARTERS = [0.0, 0.25, 0.5, 0.75, 1.0]


def mask_of(kind: str, granularities: torch.Tensor, length: int | None = None) -> torch.Tensor:
    """Return M (T, T) of one sentence whose words have these granularities (T,)."""
    size = len(granularities)
    place = torch.arange(size)
    length = torch.tensor([length or size])
    column = granularities.view(1, 1, -1, 1)
    return granularity_mask(kind, column, column.transpose(2, 3), (place[:, None] - place).abs(), length)[0, 0]


def self_attention(kind: str = "product", **options) -> GranularSelfAttention:
    attention = lively(GranularSelfAttention(DIM, HEADS, 0.1, kind=kind, **options))
    with torch.no_grad():
        attention.granularity.weight.mul_(3.0)  # spreads the granularities over most of (0, 1)
    return attention


def with_granularity(attention, value: float):
    """Set the granularity z of every word to exactly ``value``, and return the attention.

    The bias is +-5,000 for 0 and 1, for which the logistic function is exactly 0 or 1.
    """
    with torch.no_grad():
        attention.granularity.weight.zero_()
        attention.granularity.bias.fill_(
            torch.logit(torch.tensor(value)).item() if 0 < value < 1 else 1e4 * value - 5e3
        )
    return attention


def attend(attention, states: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return attention(states, attention.project(states), bias).output


def test_resonance_is_that_of_the_table():
    """The expected values are the published formula, worked out by hand for z_i (rows) and z_j in quarters."""
    expected = [
        [1.0, 0.75, 0.5, 0.25, 0.0],
        [0.75, 0.625, 0.4375, 0.25, 0.25],
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [0.25, 0.375, 0.5625, 0.75, 0.75],
        [0.0, 0.25, 0.5, 0.75, 1.0],
    ]
    z = torch.tensor(QUARTERS)
    assert resonance(z[:, None], z[None, :]).tolist() == expected


def test_resonance_of_binary_granularities_is_equality():
    """For granularities of 0 and 1, eq. 6 must equal eq. 5."""
    z = torch.tensor([0.0, 1.0, 1.0, 0.0])
    assert torch.equal(resonance(z[:, None], z[None, :]), (z[:, None] == z).float())


def test_a_word_resonates_with_itself_at_least_half():
    """By eq. 6, C_ii is 1 - 2z + 2z^2 up to z = 1/2, and z above."""
    z = torch.linspace(0, 1, 101)
    expected = torch.where(z <= 0.5, 1 - 2 * z + 2 * z * z, z)
    found = resonance(z, z)
    torch.testing.assert_close(found, expected)
    assert found.min() >= 0.5


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (0.0, [1.0] * 20),
        (0.25, [1.0] * 10 + [18**0.75 - 8] + [0.0] * 9),  # 0.74 at distance 10
        (0.5, [1.0] * 6 + [18**0.5 - 4] + [0.0] * 13),  # 0.24 at distance 6
        (0.75, [1.0] * 4 + [18**0.25 - 2] + [0.0] * 15),  # 0.06 at distance 4
        (1.0, [1.0] * 3 + [0.0] * 17),
    ],
)
def test_scope_reaches_as_far_as_the_equation_says(z, expected):
    """The expected values are the closed form of eq. 8 with N = 20, by distance."""
    found = scope(torch.tensor(z), torch.arange(20), torch.tensor(20))
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)
    if z in (0.0, 1.0):
        assert found.tolist() == expected


@pytest.mark.parametrize("length", range(1, 13))
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_masks_equal_the_naive_loop_at_every_length(kind, length):
    z = torch.rand(length, generator=torch.Generator().manual_seed(length))
    found = mask_of(kind, z)
    for i in range(length):
        for j in range(length):
            expected = float(reference.mask(kind, list(z), i, j, length))
            assert found[i, j].item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_two_words_have_resonance_alone(kind):
    z = torch.tensor([0.9, 0.2])
    assert torch.equal(mask_of(kind, z), mask_of("resonance", z))
    longer = torch.tensor([0.9, 0.2, 0.4])
    assert torch.equal(mask_of(kind, longer), mask_of("resonance", longer)) is (kind in ("resonance", "product"))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_masks_lie_between_0_and_1_and_every_word_sees_itself(kind, length):
    z = torch.rand(200, 1, length, 1, generator=torch.Generator().manual_seed(1))
    z[:5] = torch.tensor(QUARTERS).view(5, 1, 1, 1)
    place = torch.arange(length)
    found = granularity_mask(kind, z, z.transpose(2, 3), (place[:, None] - place).abs(), torch.tensor([length]))
    assert found.min() >= 0 and found.max() <= 1
    assert found.diagonal(dim1=2, dim2=3).min() >= 0.5


def test_the_head_is_a_logistic_function_of_the_state_in_float32():
    head = lively(GranularityHead(DIM))
    states = torch.randn(2, 3, DIM)
    with torch.no_grad():
        found = head(states)
        assert found.shape == (2, 3, 1)
        torch.testing.assert_close(found[1, 2, 0], reference.granularity(head, states[1, 2]))
        assert head.half()(states.half()).dtype == torch.float32


def test_heads_start_near_one_half():
    head = GranularityHead(450)
    torch.manual_seed(0)
    init_granularity(head)
    assert 0.015 < head.weight.std() < 0.025
    assert not head.bias.any()
    z = head(torch.nn.functional.layer_norm(torch.randn(1000, 1, 450), (450,)))
    assert 0.45 < z.mean() < 0.55 and 0.05 < z.std() < 0.15


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_self_attention_is_the_naive_one(kind, normalize):
    """The expected weights are computed one by one per head and multiplied by M, with or without normalisation."""
    attention = self_attention(kind, normalize=normalize)
    settings = reference.Settings(kind, normalize)
    states = torch.randn(2, 7, DIM)
    with torch.no_grad():
        whole = attend(attention, states, None)
        causal = attend(attention, states, causal_bias(7, states))
        for row in range(2):
            for i in range(7):
                expected = reference.self_attend(attention, list(states[row]), i, 7, settings)
                torch.testing.assert_close(whole[row, i], expected, rtol=1e-4, atol=1e-5)
                prefix = list(states[row, : i + 1])
                expected = reference.self_attend(attention, prefix, i, i + 1, settings)
                torch.testing.assert_close(causal[row, i], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
def test_cross_attention_is_the_naive_one(normalize):
    attention = lively(GranularCrossAttention(DIM, HEADS, 0.1, normalize=normalize))
    states, source = torch.randn(2, 3, DIM), torch.randn(2, 5, DIM)
    with torch.no_grad():
        found = attention(states, attention.project(source), None, with_weights=True)
        for row in range(2):
            for i in range(3):
                settings = reference.Settings(normalize=normalize)
                expected = reference.cross_attend(attention, states[row, i], list(source[row]), settings)
                torch.testing.assert_close(found.output[row, i], expected, rtol=1e-4, atol=1e-5)
    sums = found.log_weights.exp().sum(-1)
    assert torch.allclose(sums, torch.ones(2, HEADS, 3)) is normalize


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_templates_alone_are_plain_attention(kind, normalize):
    """If z is 0 everywhere, the resonance C and the scope S are 1.

    The results are bitwise equal, because log 1 = 0 is added to the scores.
    """
    attention = with_granularity(self_attention(kind, normalize=normalize), 0.0)
    plain = MultiHeadAttention(DIM, HEADS, 0.1).eval()
    plain.load_state_dict(attention.state_dict(), strict=False)
    states = torch.randn(2, 9, DIM)
    hidden = torch.arange(9).expand(2, 9) >= 7
    with torch.no_grad():
        for bias in (padding_bias(torch.zeros_like(hidden)), causal_bias(9, states), padding_bias(hidden)):
            words = 7 if bias[..., -1].isinf().all() else 9
            memory = plain.project(states)
            expected = plain(states, memory, bias, with_weights=not normalize).output
            found = attend(attention, states, bias)
            assert torch.equal(found[:, :words], expected[:, :words])


@pytest.mark.parametrize("kind", ["scope", "product"])
def test_details_alone_see_two_words_on_either_side(kind):
    """If z is 1 everywhere, C is 1, and S is 1 up to distance 2 and 0 beyond.

    This equals plain attention in which all other words are masked.
    """
    attention = with_granularity(self_attention(kind), 1.0)
    plain = MultiHeadAttention(DIM, HEADS, 0.1).eval()
    plain.load_state_dict(attention.state_dict(), strict=False)
    states = torch.randn(2, 9, DIM)
    place = torch.arange(9)
    window = torch.zeros(9, 9).masked_fill((place[:, None] - place).abs() > 2, float("-inf"))
    torch.testing.assert_close(attend(attention, states, None), attend(plain, states, window))


@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_the_lengths_are_those_of_the_sentences(kind):
    """Padding on either side and a longer sentence in the same batch must not change the result."""
    attention = self_attention(kind)
    states = torch.randn(1, 6, DIM)
    expected = attend(attention, states, None)[0]
    for left, right in ((0, 4), (4, 0), (3, 5)):
        padded = torch.cat([torch.randn(1, left, DIM), states, torch.randn(1, right, DIM)], dim=1)
        padded = torch.cat([padded, torch.randn(1, 6 + left + right, DIM)])
        hidden = torch.ones(2, 6 + left + right, dtype=torch.bool)
        hidden[0, left : left + 6] = hidden[1] = False
        found = attend(attention, padded, padding_bias(hidden))[0, left : left + 6]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_length_that_is_given_is_the_length_of_every_sentence():
    attention = self_attention("scope", length=20)
    states = torch.randn(1, 7, DIM)
    for bias in (None, causal_bias(7, states)):
        found = attention.mask(states, attention.project(states), bias)[0, 0]
        z = attention.granularity(states)[0]
        place = torch.arange(7)
        expected = scope(z, (place[:, None] - place).abs(), torch.tensor(20))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_steps_equal_the_whole(kind, normalize):
    """Each step reads one more word, with its granularity."""
    attention = self_attention(kind, normalize=normalize)
    states = torch.randn(2, 8, DIM)
    whole = attend(attention, states, causal_bias(8, states))
    memory: dict[str, torch.Tensor] = {}
    for step in range(8):
        new = attention.project(states[:, step : step + 1])
        memory = {name: torch.cat([memory[name], kept], dim=2) if memory else kept for name, kept in new.items()}
        found = attention(states[:, step : step + 1], memory, None).output
        torch.testing.assert_close(found[:, 0], whole[:, step], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, None])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_nothing_is_ever_not_a_number(kind, normalize, value, dtype):
    """No value is NaN for equal or mixed granularities, every length from 1, and a row of padding alone."""
    attention = self_attention(kind, normalize=normalize)
    if value is None:
        with torch.no_grad():
            attention.granularity.weight.mul_(1e3)  # gives granularities of 0 and of 1
    else:
        with_granularity(attention, value)
    attention = attention.to(dtype)
    for length in (1, 2, 3, 4, 11):
        states = torch.randn(3, length, DIM, dtype=dtype)
        hidden = torch.zeros(3, length, dtype=torch.bool)
        hidden[1, 1:] = hidden[2] = True
        for bias in (padding_bias(hidden), causal_bias(length, states)):
            attention.zero_grad()
            output = attend(attention, states, bias)
            output.float().pow(2).mean().backward()
            assert torch.isfinite(output).all()
            assert all(torch.isfinite(p.grad).all() for p in attention.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_half_precision_is_close_to_float32(kind, dtype):
    """bfloat16 has 8 significant bits, so a few operations leave an error of about 2 %.

    The logarithm of the mask must not be computed in bfloat16, where it would be 0.
    """
    attention = self_attention(kind)
    states = torch.randn(2, 9, DIM).to(dtype)
    with torch.no_grad():
        expected = attend(attention, states.float(), None)
        found = attend(attention.to(dtype), states, None).float()
    assert (found - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", GRANULARITY_MASKS)
def test_gradients_reach_the_head_and_are_those_of_the_naive_loop(kind, normalize):
    attention = self_attention(kind, normalize=normalize)
    states = torch.randn(1, 6, DIM)
    target = torch.randn(6, DIM)
    parts = [attention.granularity.weight, attention.granularity.bias, attention.query_proj.weight]
    found = torch.autograd.grad((attend(attention, states, None)[0] * target).sum(), parts)
    settings = reference.Settings(kind, normalize)
    naive = [reference.self_attend(attention, list(states[0]), i, 6, settings) for i in range(6)]
    expected = torch.autograd.grad((torch.stack(naive) * target).sum(), parts)
    assert found[0].abs().max() > 0.01
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["scope", "product"])
def test_words_out_of_reach_keep_the_floor_of_the_release(kind):
    """The authors' code adds log(max(M, 1e-32)). With z = 1 the mask is 1 up to two words away, and 0 beyond."""
    attention = with_granularity(self_attention(kind), 1.0)
    states = torch.randn(2, 9, DIM, generator=torch.Generator().manual_seed(3))
    memory = attention.project(states)
    place = torch.arange(9)
    out_of_reach = (place[:, None] - place).abs() > 2
    scores = MultiHeadAttention.log_weights(attention, states, memory, None)
    expected = (scores + out_of_reach * -73.6827).log_softmax(dim=-1)  # -73.6827 is ln 1e-32
    found = attention(states, memory, None, with_weights=True).log_weights
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)
