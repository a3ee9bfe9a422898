"""Test scores and loss of the output layer against the naive loops of ``tests/reference/query_scores.py``."""

import pytest
import torch

from tests.reference import query_scores as reference
from wean_fairseq.modules import QUERY_SCORES, QueryEmbedding, chunked_loss
from wean_fairseq.modules.chunked_loss import chunk_rows

UNK, PAD = 3, 1
N, D, E, V = 11, 5, 7, 23  # odd and different sizes, so that a transposed dimension causes an error


def make_layer(kind, **options):
    width = D if kind == "dot" else E
    torch.manual_seed(7)
    layer = QueryEmbedding(kind, D, width, V, unk_index=UNK, **options)
    query = torch.randn(N, D, requires_grad=True)
    embeddings = torch.randn(V, width, requires_grad=True)
    target = torch.randint(UNK + 1, V, (N,))
    return layer, query, embeddings, target


def gradients(layer, *inputs):
    grads = {f"input {i}": tensor.grad for i, tensor in enumerate(inputs)}
    grads.update({name: parameter.grad for name, parameter in layer.named_parameters()})
    for tensor in (*inputs, *layer.parameters()):
        tensor.grad = None
    return grads


@pytest.mark.parametrize(("kind", "bias"), [*((kind, False) for kind in QUERY_SCORES), ("general", True)])
def test_scores_equal_the_naive_loops(kind, bias):
    layer, query, embeddings, _ = make_layer(kind, bias=bias)
    expected = reference.scores(kind, query, embeddings, dict(layer.named_parameters()))
    torch.testing.assert_close(layer.scores(query, embeddings), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk_size", [None, 1, 4, 100])
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_chunked_loss_and_gradients_equal_the_materialised_form(kind, eps, chunk_size):
    layer, query, embeddings, target = make_layer(kind, chunk_size=chunk_size)
    upstream = 0.37  # upstream gradient, such as a loss scale

    logits = reference.scores(kind, query, embeddings, dict(layer.named_parameters()))
    loss, nll = reference.losses(logits, target, eps)
    (loss * upstream).backward()
    expected = gradients(layer, query, embeddings)

    sums = layer.loss(query, embeddings, target, PAD, label_smoothing=eps)
    (sums.loss * upstream).backward()
    torch.testing.assert_close(sums.loss, loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.nll_loss, nll, rtol=1e-5, atol=1e-5)
    for name, grad in gradients(layer, query, embeddings).items():
        if expected[name] is None:
            assert grad is None, name
        else:
            torch.testing.assert_close(grad, expected[name], rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_autograd_through_scores_gives_the_same_gradients_as_the_loss(kind):
    layer, query, embeddings, target = make_layer(kind)
    torch.nn.functional.cross_entropy(layer.scores(query, embeddings), target, reduction="sum").backward()
    expected = gradients(layer, query, embeddings)
    layer.loss(query, embeddings, target, PAD).loss.backward()
    for name, grad in gradients(layer, query, embeddings).items():
        if grad is not None:
            torch.testing.assert_close(grad, expected[name], rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_padding_counts_for_nothing(kind):
    layer, query, embeddings, target = make_layer(kind)
    padded = torch.cat([target, torch.full((3,), PAD)])
    longer = torch.cat([query, torch.randn(3, D)])
    alone = layer.loss(query, embeddings, target, PAD)
    together = layer.loss(longer.view(2, 7, D), embeddings, padded.view(2, 7), PAD)
    torch.testing.assert_close(together, alone)


def test_only_padding_gives_zero_and_no_gradient():
    layer, query, embeddings, target = make_layer("general")
    sums = layer.loss(query, embeddings, torch.full_like(target, PAD), PAD)
    sums.loss.backward()
    assert sums.loss.item() == 0.0
    assert not query.grad.any()
    assert not embeddings.grad.any()


def test_uniform_scores_cost_the_logarithm_of_the_number_of_candidates():
    layer, query, _, target = make_layer("general")  # the embeddings are equal, so p = 1 / V for every word
    sums = layer.loss(query, torch.ones(V, E), target, PAD)
    torch.testing.assert_close(sums.nll_loss, torch.tensor(N * float(torch.tensor(float(V)).log())))


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_certain_and_hopeless_targets_stay_exact(scale):
    """The two candidates have the scores s and -s, so nll is log(1 + exp(-2 s)), plus 2 s for the wrong candidate."""
    layer = QueryEmbedding("dot", 1, 1, 5, unk_index=UNK)
    embeddings = torch.tensor([[-1e9], [-1e9], [-1e9], [1.0], [-1.0]])
    query = torch.tensor([[scale]], requires_grad=True)
    tail = torch.log1p(torch.exp(torch.tensor(-2.0 * scale)))
    right = layer.loss(query, embeddings, torch.tensor([3]), PAD).nll_loss
    wrong = layer.loss(query, embeddings, torch.tensor([4]), PAD).nll_loss
    torch.testing.assert_close(right, tail)
    torch.testing.assert_close(wrong, 2.0 * scale + tail)


@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_fewer_candidates_are_a_prefix_of_the_dictionary(kind):
    layer, query, embeddings, target = make_layer(kind, num_candidates=9)
    scores = layer.scores(query, embeddings)
    full = reference.scores(kind, query, embeddings, dict(layer.named_parameters()))
    torch.testing.assert_close(scores[:, :9], full[:, :9], rtol=1e-5, atol=1e-5)
    assert torch.isneginf(scores[:, 9:]).all()
    as_unk = torch.where(target < 9, target, torch.tensor(UNK))
    assert (as_unk == UNK).any()  # the test needs a target that is scored as <unk>
    expected, _ = reference.losses(full[:, :9], as_unk, 0.0)
    torch.testing.assert_close(layer.loss(query, embeddings, target, PAD).loss, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["dot", "general", "concat"])
def test_detached_embeddings_get_no_gradient_but_the_query_does(kind):
    layer, query, embeddings, target = make_layer(kind, detach=True)
    layer.loss(query, embeddings, target, PAD).loss.backward()
    assert embeddings.grad is None
    assert query.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_half_precision_stays_close_and_keeps_small_gradients(kind, dtype):
    layer, query, embeddings, target = make_layer(kind)
    layer.loss(query, embeddings, target, PAD).loss.backward()
    expected = gradients(layer, query, embeddings)
    half_query = query.detach().to(dtype).requires_grad_()
    half_embeddings = embeddings.detach().to(dtype).requires_grad_()
    scale = 128.0  # a loss scale as in training with fp16
    (layer.to(dtype).loss(half_query, half_embeddings, target, PAD).loss * scale).backward()
    tolerance = 0.02 if dtype == torch.float16 else 0.1
    for name, grad in gradients(layer, half_query, half_embeddings).items():
        if grad is not None:
            assert grad.dtype == dtype
            error = (grad.float() / scale - expected[name]).norm() / expected[name].norm().clamp(min=1e-6)
            assert error < tolerance, name


def test_fp16_gradients_below_its_smallest_number_survive_the_loss_scale():
    """A probability p of 2e-9 is 0 in fp16, but with a loss scale of 2^15 its gradient p q is not."""
    layer = QueryEmbedding("dot", 1, 1, 5, unk_index=UNK)
    rows = [[-100.0], [-100.0], [-100.0], [1.0], [-1.0]]
    embeddings = torch.tensor(rows, dtype=torch.float16, requires_grad=True)
    query = torch.tensor([[10.0]], dtype=torch.float16, requires_grad=True)
    (layer.loss(query, embeddings, torch.tensor([3]), PAD).loss * 2.0**15).backward()
    closed_form = torch.sigmoid(torch.tensor(-20.0)) * 10.0 * 2.0**15
    torch.testing.assert_close(embeddings.grad[4, 0].float(), closed_form, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_chunk_holds_no_more_scores_than_asked_for(device):
    """Tokens are spread evenly over chunks of at most 3 x 2^22 scores on a CPU, 2^27 on a GPU, or of 64 tokens."""
    sizes = ((1344, 50_000, None), (65, 250_000, None), (5000, 4_000, None), (100, 50, 33), (0, 50, None))
    found = [chunk_rows(rows, candidates, asked, torch.device(device)) for rows, candidates, asked in sizes]
    assert found == ([224, 33, 2500, 25, 1] if device == "cpu" else [1344, 65, 5000, 25, 1])


@pytest.mark.parametrize("wants_grad", [False, True])
@pytest.mark.parametrize("kind", QUERY_SCORES)
def test_the_whole_matrix_of_scores_never_exists(kind, wants_grad, monkeypatch):
    seen = []
    for name in ("loss_of_scores", "softmax_gradient_"):
        original = getattr(chunked_loss, name)
        monkeypatch.setattr(
            chunked_loss, name, lambda scores, *rest, f=original: (seen.append(scores.shape), f(scores, *rest))[1]
        )
    layer, query, embeddings, target = make_layer(kind, chunk_size=4)
    with torch.set_grad_enabled(wants_grad):
        layer.loss(query, embeddings, target, PAD)
    assert sum(rows for rows, _ in seen) == N
    assert max(rows for rows, _ in seen) <= 4


def test_a_second_backward_is_refused():
    layer, query, embeddings, target = make_layer("general")
    loss = layer.loss(query, embeddings, target, PAD).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        loss.backward()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("dot", D, E, V), {}, "score 'dot' needs queries as wide as the embeddings, but they are 5 and 7 wide"),
        (("concat", D, E, V), {"bias": True}, "`bias` belongs to the score 'general', but the score is 'concat'"),
    ],
)
def test_contradictions_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        QueryEmbedding(*arguments, unk_index=UNK, **options)


@pytest.mark.parametrize(
    ("kind", "width", "words", "expected"),
    [
        # In Table 5 of the paper, Seq2seq has 12.80 M and 2.05 M parameters in its output layer. WEAN has 0.13 M and
        # 0.52 M, which is 2 d^2 + d for concat.
        ("linear", 256, 50_000, 12_800_000 + 50_000),  # the paper does not count the bias
        ("linear", 512, 4_000, 2_048_000 + 4_000),
        ("concat", 256, 50_000, 131_328),
        ("concat", 512, 4_000, 524_800),
        ("general", 256, 50_000, 65_536),
        ("general", 512, 4_000, 262_144),
        ("dot", 256, 50_000, 0),
    ],
)
def test_output_layer_parameters_of_table_5(kind, width, words, expected):
    layer = QueryEmbedding(kind, width, width, words, unk_index=UNK)
    assert sum(parameter.numel() for parameter in layer.parameters()) == expected
