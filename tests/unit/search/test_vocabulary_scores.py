"""Compare scores in chunks and blocks with all scores at once, followed by log_softmax and topk."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.processors import needs_int8
from wean_fairseq.modules import QueryEmbedding
from wean_fairseq.modules.additive_scores import LARGEST_PART
from wean_fairseq.search import packed_linear, vocabulary_scores
from wean_fairseq.search.packed_linear import Int8Linear, PackedLinear, int8_is_exact
from wean_fairseq.search.vocabulary_scores import BF16, INT8, VocabularyScores, WholeScores

SENTENCES, BEAM, DIM = 3, 4, 6
ROWS = SENTENCES * BEAM


def build(vocabulary: int, score: str = "general", **options):
    torch.manual_seed(3)
    output = QueryEmbedding(score, DIM, DIM, vocabulary, unk_index=3, **options)
    return output, torch.randn(vocabulary, DIM), torch.randn(ROWS, DIM)


@pytest.fixture(params=[64, 700, 10**6, None], ids=["a block", "blocks", "one chunk", "whole"])
def scores_class(request, monkeypatch):
    """Return the class of scores with chunks of one block, of several blocks, of all blocks, and as on a GPU."""
    if request.param is None:
        return WholeScores
    monkeypatch.setattr(vocabulary_scores, "CPU_CHUNK", request.param)
    return VocabularyScores


@pytest.mark.parametrize("vocabulary", [20, 64, 65, 300])
@pytest.mark.parametrize("score", ["dot", "general", "concat", "linear"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@torch.no_grad()
def test_scores_their_sum_and_the_best_are_those_of_the_plain_form(scores_class, vocabulary, score, temperature):
    output, embeddings, features = build(vocabulary, score)
    scores = scores_class(output, embeddings, vocabulary, ROWS)
    expected = output.scores(features, embeddings) / temperature
    log_sum = scores.compute(features, temperature)
    torch.testing.assert_close(log_sum, expected.logsumexp(dim=1))
    torch.testing.assert_close(scores.get(torch.arange(vocabulary).expand(ROWS, -1)), expected)
    sums = torch.randn(ROWS)
    totals = (expected.log_softmax(dim=1) + sums.unsqueeze(1)).view(SENTENCES, -1)
    values, places = totals.topk(8)
    best, words, beams = scores.best(log_sum, sums, SENTENCES, 8)
    torch.testing.assert_close(best, values)
    assert torch.equal(words, places % vocabulary) and torch.equal(beams, places // vocabulary)


@torch.no_grad()
def test_two_scores_are_mixed_as_the_plain_forms_are(scores_class):
    """The oracle is logaddexp of all weighted scores.

    The second step reuses the memory of the first step, so the test runs both.
    """
    first, first_words, _ = build(300)
    second, second_words, _ = build(300)
    scores, others = scores_class(first, first_words, 300, ROWS), scores_class(second, second_words, 300, ROWS)
    for _ in range(2):
        features, weights = torch.randn(2, ROWS, DIM), torch.rand(2, ROWS).log()
        expected = torch.logaddexp(
            first.scores(features[0], first_words) + weights[0].unsqueeze(1),
            second.scores(features[1], second_words) + weights[1].unsqueeze(1),
        )
        scores.compute(features[0])
        others.compute(features[1])
        scores.mix(weights[0], others, weights[1])
        torch.testing.assert_close(scores.get(torch.arange(300).expand(ROWS, -1)), expected)
        best, words, _ = scores.best(torch.zeros(ROWS), None, ROWS, 1)
        torch.testing.assert_close(best, expected.amax(dim=1, keepdim=True))
        assert torch.equal(words, expected.argmax(dim=1, keepdim=True))


@torch.no_grad()
def test_scores_fit_later_searches_that_need_no_more():
    """Scores can be used again for no more rows and for the same words, factors and inference mode."""
    output, embeddings, _ = build(64)
    scores = vocabulary_scores.build_scores(output, embeddings, num_words=64, max_rows=ROWS)
    assert [scores.fits(64, rows, "exact") for rows in (ROWS - 1, ROWS, ROWS + 1)] == [True, True, False]
    assert not scores.fits(65, ROWS, "exact") and not scores.fits(64, ROWS, BF16)
    with torch.inference_mode():
        assert not scores.fits(64, ROWS, "exact")


@pytest.mark.parametrize(
    ("device", "rows", "kind"),
    [("cpu", 1, VocabularyScores), ("meta", 2**21, WholeScores), ("meta", 2**21 + 1, VocabularyScores)],
)
def test_a_gpu_gets_whole_scores_up_to_512_mib(device, rows, kind):
    output, embeddings, _ = build(64)
    scores = vocabulary_scores.build_scores(output, embeddings.to(device), num_words=64, max_rows=rows)
    assert type(scores) is kind


class CountedExponentials(TorchDispatchMode):
    """Counts the numbers whose exponential is computed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket is torch.ops.aten.exp_:
            self.count += args[0].numel()
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_what_concat_needs_of_the_words_is_computed_once_a_search(scores_class):
    """exp(2b) of every word is computed once, and exp(2a) of the hypotheses in every step and chunk."""
    output, embeddings, features = build(300, "concat")
    scores = scores_class(output, embeddings, 300, ROWS)
    chunks = sum(number * scores.width < 300 for number in range(scores.num_chunks))
    with CountedExponentials() as made:
        for step in range(4):
            scores.compute(features + step)
    assert made.count == 300 * DIM + 4 * chunks * ROWS * DIM


@torch.no_grad()
def test_concat_with_hypotheses_that_leave_the_range_and_come_back(scores_class):
    output, embeddings, features = build(300, "concat")
    scores = scores_class(output, embeddings, 300, ROWS)
    for factor in (1.0, 1000.0, 1.0):
        query = features.clone()
        query[0] *= factor  # large queries, so that the scores are computed in the other form
        assert (output.score.query_proj(query).abs().max() > LARGEST_PART) == (factor > 1.0)
        log_sum = scores.compute(query)
        expected = torch.tanh(output.score.query_proj(query).unsqueeze(1) + output.score.embed_proj(embeddings))
        expected = expected @ output.score.vector  # this is eq. 5 without changes
        torch.testing.assert_close(log_sum, expected.logsumexp(dim=1))
        torch.testing.assert_close(scores.get(torch.arange(300).expand(ROWS, -1)), expected)


@torch.no_grad()
def test_fewer_rows_than_there_may_be_and_no_sums(scores_class):
    output, embeddings, features = build(300)
    scores = scores_class(output, embeddings, 300, ROWS)
    scores.compute(features)  # this call leaves values in the buffer
    log_sum = scores.compute(features[:2])
    values, places = output.scores(features[:2], embeddings).log_softmax(dim=1).topk(8)
    best, words, beams = scores.best(log_sum, None, 2, 8)
    torch.testing.assert_close(best, values)
    assert torch.equal(words, places) and not beams.any()


@torch.no_grad()
def test_words_that_are_no_candidates_are_neither_computed_nor_found(scores_class, monkeypatch):
    monkeypatch.setattr(packed_linear, "pack", lambda weight, rows: None)  # unpacked weights can be counted
    output, embeddings, features = build(300, num_candidates=70)
    scores = scores_class(output, embeddings, 300, ROWS)
    log_sum = scores.compute(features)
    expected = output.scores(features, embeddings)  # the scores are -inf outside the candidates
    torch.testing.assert_close(log_sum, expected.logsumexp(dim=1))
    torch.testing.assert_close(scores.get(torch.arange(300).expand(ROWS, -1)), expected)
    best, words, _ = scores.best(log_sum, None, ROWS, 40)
    assert words.max() < 70 and torch.isfinite(best).all()
    assert sum(len(product.weight) for product in scores._products) == 70


@torch.no_grad()
def test_scores_that_are_replaced_are_found(scores_class):
    """Scores are raised, lowered and forbidden, even for words without a score, and twice for the same word."""
    output, embeddings, features = build(200)
    scores = scores_class(output, embeddings, 203, ROWS)
    log_sum = scores.compute(features)
    expected = torch.cat([output.scores(features, embeddings), torch.full((ROWS, 3), float("-inf"))], dim=1)
    top = expected.argmax(dim=1, keepdim=True)
    for words, value in ((top, float("-inf")), (torch.tensor([[201, 5, 5, 130]]).expand(ROWS, 4), 9.0)):
        scores.put(words, torch.full(words.shape, value))
        expected = expected.scatter(1, words, value)
    torch.testing.assert_close(scores.get(torch.arange(203).expand(ROWS, -1)), expected)
    values, _ = (expected - log_sum.unsqueeze(1)).topk(8)
    best, words, _ = scores.best(log_sum, None, ROWS, 8)
    torch.testing.assert_close(best, values)
    torch.testing.assert_close(expected.gather(1, words) - log_sum.unsqueeze(1), values)


@torch.no_grad()
def test_a_row_without_numbers_is_never_chosen(scores_class):
    output, embeddings, features = build(300)
    features[1] = float("nan")
    scores = scores_class(output, embeddings, 300, ROWS)
    log_sum = scores.compute(features)
    best, _, beams = scores.best(log_sum, torch.zeros(ROWS), SENTENCES, 8)
    assert torch.isfinite(best).all()
    assert not beams[0].eq(1).any()


@torch.no_grad()
def test_bfloat16_is_for_the_product_alone(scores_class):
    """The factors and the product are rounded to bfloat16, and everything afterwards is computed in float32."""
    output, embeddings, features = build(300)
    scores = scores_class(output, embeddings, 300, ROWS, BF16)
    log_sum = scores.compute(features)
    query = output.score(features, embeddings).query
    expected = (query.bfloat16() @ embeddings.bfloat16().t()).float()
    torch.testing.assert_close(log_sum, expected.logsumexp(dim=1))
    torch.testing.assert_close(scores.get(torch.arange(300).expand(ROWS, -1)), expected)


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("packs", [False, True])
@torch.no_grad()
def test_a_packed_product_is_a_product(rows, bias, packs, monkeypatch):
    torch.manual_seed(1)
    weight, shift, inputs = torch.randn(33, DIM), torch.randn(33) if bias else None, torch.randn(rows, DIM)
    if not packs:
        monkeypatch.setattr(packed_linear, "pack", lambda weight, rows: None)
    product = PackedLinear(weight, shift, 16)
    torch.testing.assert_close(product(inputs), torch.nn.functional.linear(inputs, weight, shift))


def off_by_rounding(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the bound of ``Int8Linear``, from (x + dx)(w + dw) - x w with |dx| <= s/2 and |dw| <= t/2."""
    of_inputs, of_weight = (rows.abs().amax(dim=1, keepdim=True) / 127 for rows in (inputs, weight))
    half = inputs.abs().sum(dim=1, keepdim=True) * of_weight.t() + of_inputs * weight.abs().sum(dim=1)
    return half / 2 + inputs.size(1) * of_inputs * of_weight.t() / 4


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_a_product_of_integers_is_as_near_as_its_steps_allow(rows, bias):
    needs_int8()
    torch.manual_seed(1)
    weight, shift, inputs = torch.randn(330, 70), torch.randn(330) if bias else None, torch.randn(rows, 70)
    inputs[0] *= 1000.0  # each row has its own rounding step
    weight[5] = 0.0
    off = (Int8Linear(weight, shift, 16)(inputs) - torch.nn.functional.linear(inputs, weight, shift)).abs()
    assert (off <= off_by_rounding(inputs, weight) * 1.0001 + 1e-5).all()
    assert off.max() > 1e-3


@torch.no_grad()
def test_a_product_of_integers_does_not_depend_on_the_other_rows():
    needs_int8()
    torch.manual_seed(1)
    product, inputs = Int8Linear(torch.randn(330, 70), None, 16), torch.randn(40, 70)
    both = torch.cat([inputs, 1000.0 * inputs])
    assert torch.equal(product(both)[:40], product(inputs))


@torch.no_grad()
def test_int8_is_for_the_product_alone(scores_class):
    """The expected values come from ``Int8Linear`` for all words, and all later operations in float32."""
    needs_int8()
    output, embeddings, features = build(300)
    scores = scores_class(output, embeddings, 300, ROWS, INT8)
    log_sum = scores.compute(features)
    expected = Int8Linear(embeddings, None, ROWS)(output.score(features, embeddings).query)
    torch.testing.assert_close(log_sum, expected.logsumexp(dim=1))
    torch.testing.assert_close(scores.get(torch.arange(300).expand(ROWS, -1)), expected)


@pytest.mark.parametrize(("product", "exact"), [(2.0**15, False), (64 * 127**2, True)])
def test_products_that_overflow_are_noticed(product, exact, monkeypatch):
    """Some processors add two products of bytes in 16 bits, which may overflow.

    The exact result is the sum of 64 products with 127.
    """
    monkeypatch.setattr(Int8Linear, "__init__", lambda self, *_: None)
    monkeypatch.setattr(Int8Linear, "__call__", lambda self, inputs: torch.full((len(inputs), 33), float(product)))
    assert int8_is_exact.__wrapped__() == exact
