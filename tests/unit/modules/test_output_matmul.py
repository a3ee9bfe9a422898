"""Test the matrix products of the output layer: exact results on every path, and the error bounds in bfloat16."""

import contextlib

import pytest
import torch
from fairseq.tasks.translation import TranslationTask

from tests.simulated_gpu import SimulatedGpu
from wean_fairseq.modules import output_matmul, product_cross_entropy
from wean_fairseq.modules.softmax_gradient import softmax_gradient_
from wean_fairseq.tasks.guarded import GuardedConfig, GuardedTask

N, V, D = 19, 203, 33
U = 2.0**-8  # unit roundoff of bfloat16


def inputs(scale=1.0):
    generator = torch.Generator().manual_seed(2)
    query, weight = (scale * torch.randn(rows, D, generator=generator) for rows in (N, V))
    return query, weight, torch.randn(V, generator=generator), torch.randint(0, V, (N,), generator=generator)


def loss_and_gradients(query, weight, bias, target, *options):
    leaves = [tensor.clone().requires_grad_() for tensor in (query, weight, bias)]
    sums = product_cross_entropy(*leaves, target, 0.0, *options)
    sums.loss.backward()
    return sums.nll_loss.detach(), [leaf.grad for leaf in leaves]


def exact(query, weight, bias, target):
    """Return the scores (N, V), the nll (N,) and the gradient of the scores (N, V), in float64."""
    scores = query.double() @ weight.double().t() + bias.double()
    nll = torch.nn.functional.cross_entropy(scores, target, reduction="none")
    return scores, nll, torch.softmax(scores, dim=1) - torch.nn.functional.one_hot(target, V)


def score_errors(query, weight, bias, scores, rounding=3.1 * U):
    """Return the error bound (N,) of ``bf16_products``, plus the error of a float32 bias, for each token."""
    delta = rounding * (query.abs() @ weight.abs().t()) + 1e-6 * (scores.abs() + bias.abs())
    return delta.amax(dim=1)


def gradient_bounds(query, weight, bias, target, rounding=3.1 * U, lost=0.0, of_bias=0.0):
    """Return the expected gradients and the largest error of each number.

    Each probability p has an error factor of at most exp(2 delta). The factors and the product have the relative error
    ``rounding``. The gradient of each score has the additional absolute error ``lost``. ``of_bias`` is the rounding of
    the terms whose sum is the gradient of the bias.
    """
    scores, _, upstream = exact(query, weight, bias, target)
    one_hot = torch.nn.functional.one_hot(target, V).double()
    factor = torch.expm1(2.0 * score_errors(query, weight, bias, scores, rounding)).double().unsqueeze(1)
    off = (upstream + one_hot) * factor + lost  # error of the gradient of the scores, (N, V)
    reached = upstream.abs() + off
    query, weight = query.double(), weight.double()
    bounds = (
        off @ weight.abs() + rounding * (reached @ weight.abs()),
        off.t() @ query.abs() + rounding * (reached.t() @ query.abs()),
        off.sum(dim=0) + of_bias * reached.sum(dim=0) + 1e-5,
    )
    return (upstream @ weight, upstream.t() @ query, upstream.sum(dim=0)), bounds


# --- choice of the library --------------------------------------------------------------------------------------------


@pytest.fixture
def asked_anew():
    output_matmul.onednn_is_exact.cache_clear()
    yield
    output_matmul.onednn_is_exact.cache_clear()


@pytest.mark.parametrize("bits", [8, 11])  # number of significant bits of bfloat16 and TF32
@pytest.mark.parametrize("layout", ["scores", "gradient of queries", "gradient of rows"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.usefixtures("asked_anew")
def test_rounded_factors_are_found_out(monkeypatch, bits, layout, side):
    """Replace the library by one that rounds one factor of one of the three products.

    The memory layout of the factors tells which product is computed.
    """
    monkeypatch.setattr(output_matmul, "_PROBE_SIZES", (16, 32, 64))
    rounded_layout = {"scores": (False, True), "gradient of queries": (False, False), "gradient of rows": (True, False)}

    def product(*factors):
        factors = list(factors)
        if tuple(factor.stride(0) == 1 for factor in factors) == rounded_layout[layout]:
            factors[side] = cut(factors[side], bits)
        return factors[0] @ factors[1]

    monkeypatch.setattr(output_matmul, "_float_product", product)
    assert output_matmul.onednn_is_exact() is False


@pytest.mark.usefixtures("asked_anew")
def test_sums_in_any_order_are_found_exact(monkeypatch):
    """Test that the sums of the check are exact in float32 in any order, for example backwards or in two halves."""

    def product(left, right):
        left, right, half = left.flip(1), right.flip(0), len(right) // 2
        return left[:, half:] @ right[half:] + left[:, :half] @ right[:half]

    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(output_matmul, "_onednn", contextlib.nullcontext())
    monkeypatch.setattr(output_matmul, "_float_product", product)
    assert output_matmul.onednn_is_exact()


@pytest.mark.usefixtures("asked_anew")
def test_neither_autocast_nor_the_default_device_changes_the_answer():
    expected = output_matmul.onednn_is_exact()
    output_matmul.onednn_is_exact.cache_clear()
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        assert output_matmul.onednn_is_exact() == expected


@pytest.mark.usefixtures("asked_anew")
def test_without_onednn_nothing_changes(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    before = torch.backends.mkldnn.matmul.fp32_precision
    with output_matmul.exact_products(torch.device("cpu")):
        assert torch.backends.mkldnn.matmul.fp32_precision == before


def cut(integers, bits):
    """Round integers down to their first ``bits`` binary digits."""
    unit = 2.0 ** (integers.clamp(min=1).log2().floor() - bits + 1).clamp(min=0)
    return torch.div(integers, unit, rounding_mode="floor") * unit


@pytest.mark.parametrize("answer", [False, True])
def test_the_setting_of_the_process_is_put_back(monkeypatch, answer):
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    monkeypatch.setattr(output_matmul, "onednn_is_exact", lambda: answer)
    with output_matmul.exact_products(torch.device("cpu")):
        assert settings.fp32_precision == ("bf16" if answer else before)
    with pytest.raises(ZeroDivisionError), output_matmul.exact_products(torch.device("cpu")):
        raise ZeroDivisionError
    with output_matmul.exact_products(torch.device("cuda")):
        assert settings.fp32_precision == before
    assert settings.fp32_precision == before


def test_a_setting_that_other_code_changes_meanwhile_is_kept(monkeypatch):
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    monkeypatch.setattr(output_matmul, "onednn_is_exact", lambda: True)
    try:
        with output_matmul.exact_products(torch.device("cpu")):
            settings.fp32_precision = "ieee"
        assert settings.fp32_precision == "ieee"
        with output_matmul.exact_products(torch.device("cpu")):  # this context must restore "ieee"
            assert settings.fp32_precision == "bf16"
        assert settings.fp32_precision == "ieee"
    finally:
        settings.fp32_precision = before


def test_threads_that_overlap_leave_the_setting_as_it_was(monkeypatch):
    """The context that is entered first exits first, so the second must not restore the setting that it found."""
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    monkeypatch.setattr(output_matmul, "onednn_is_exact", lambda: True)
    first, second = (output_matmul.exact_products(torch.device("cpu")) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings.fp32_precision == "bf16"  # the second context is still active
    second.__exit__(None, None, None)
    assert settings.fp32_precision == before


@pytest.mark.parametrize("chunk_size", [None, 5])
def test_exact_products_are_float32_to_the_last_digits(chunk_size):
    """The size is large enough for the fast paths of the libraries.

    The expected values are computed in float64, and the tolerance is the project's usual one.
    """
    generator = torch.Generator().manual_seed(1)
    query, weight = (torch.randn(rows, 128, generator=generator) for rows in (48, 700))
    target = torch.randint(0, 700, (48,), generator=generator)
    leaves = [query.clone().requires_grad_(), weight.clone().requires_grad_()]
    sums = product_cross_entropy(*leaves, None, target, 0.0, chunk_size)
    sums.loss.backward()
    doubles = [query.double().requires_grad_(), weight.double().requires_grad_()]
    loss = torch.nn.functional.cross_entropy(doubles[0] @ doubles[1].t(), target, reduction="sum")
    loss.backward()
    torch.testing.assert_close(sums.loss.double(), loss, rtol=1e-6, atol=0.0)
    for leaf, double in zip(leaves, doubles, strict=True):
        torch.testing.assert_close(leaf.grad.double(), double.grad, rtol=1e-5, atol=1e-5)


def test_no_tokens_give_no_gradient():
    query, weight, bias, target = inputs()
    nll, gradients = loss_and_gradients(query[:0], weight, bias, target[:0])
    assert nll == 0.0
    assert not any(gradient.any() for gradient in gradients)


# --- bfloat16 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_values_in_bfloat16_keep_their_bound(scale, chunk_size):
    """The bound |nll - exact| <= 2 max(delta) holds for every token, and the error shows that bfloat16 was used."""
    query, weight, bias, target = inputs(scale)
    scores, nll, _ = exact(query, weight, bias, target)
    bound = 2.0 * score_errors(query, weight, bias, scores)
    with output_matmul.bf16_products():
        rows = [product_cross_entropy(query[i : i + 1], weight, bias, target[i : i + 1]).nll_loss for i in range(N)]
        together = product_cross_entropy(query, weight, bias, target, 0.0, chunk_size).nll_loss
    errors = (torch.stack(rows).double() - nll).abs()
    assert (errors <= bound).all()
    assert errors.max() > 1e-5
    torch.testing.assert_close(together, torch.stack(rows).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_gradients_in_bfloat16_keep_their_bound(scale):
    """The rounding of both factors and of the product add up to an error of 3.1 u."""
    query, weight, bias, target = inputs(scale)
    expected, bounds = gradient_bounds(query, weight, bias, target)
    with output_matmul.bf16_products():
        _, gradients = loss_and_gradients(query, weight, bias, target, 4)
    for gradient, value, bound in zip(gradients, expected, bounds, strict=True):
        assert gradient.dtype == torch.float32
        assert ((gradient.double() - value).abs() <= bound).all()
        # this bound was observed, and the other bounds are for the worst case
        assert (gradient.double() - value).norm() <= 0.02 * value.norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_all_three_products_have_factors_of_16_bits_and_sums_in_float32_on_a_gpu(dtype):
    """A simulated GPU records the dtypes of the three products."""
    query, weight, bias, target = inputs()
    leaves = [tensor.to(dtype).requires_grad_() for tensor in (query, weight, bias)]
    found = []

    class Products(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if getattr(func, "__name__", "") in ("mm", "addmm", "addmm_", "matmul", "__matmul__"):
                factors = {argument.dtype for argument in args if isinstance(argument, torch.Tensor)}
                found.append((factors, (kwargs or {}).get("out_dtype")))
            return func(*args, **(kwargs or {}))

    with SimulatedGpu(), Products():
        product_cross_entropy(*leaves, target)
    assert found == [({dtype}, None), *[({dtype}, torch.float32)] * 2]


def test_bfloat16_is_on_inside_and_off_outside():
    arguments = inputs()
    before, _ = loss_and_gradients(*arguments)
    with output_matmul.bf16_products():
        inside, _ = loss_and_gradients(*arguments)
        with output_matmul.bf16_products(False):
            within, _ = loss_and_gradients(*arguments)
    after, _ = loss_and_gradients(*arguments)
    assert before == after == within != inside


# --- float16, and the kernel ----------------------------------------------------------------------------------------

LOST = 2.0**-40  # half of the smallest number of float16, divided by the loss scale 2^15


def check_half_precision(scale, dtype, rounding, of_bias=0.0, device="cpu"):
    """Check the loss and the gradients for inputs in ``dtype``, where each score and its gradient are rounded once."""
    *parts, target = inputs(scale)
    parts = [part.to(dtype) for part in parts]
    exact_parts = [part.float() for part in parts]
    expected, bounds = gradient_bounds(*exact_parts, target, rounding, LOST, of_bias)
    products = output_matmul.OutputProducts(*(part.to(device) for part in parts), [True] * 3, 4)
    nll = torch.zeros(())
    for start in range(0, N, 4):
        rows = slice(start, start + 4)
        scores = products.scores(rows)
        nll += softmax_gradient_(scores, target[rows].to(device), 0.0)[1].cpu()
        products.add_gradients(rows, scores)
    scores, exact_nll, _ = exact(*exact_parts, target)
    off = 2.0 * score_errors(*exact_parts, scores, rounding).sum() + 1e-6 * exact_nll.sum()
    assert (nll - exact_nll.sum()).abs() <= off
    for gradient, value, bound in zip(products.gradients(), expected, bounds, strict=True):
        assert gradient.dtype == torch.float32
        assert ((gradient.cpu().double() - value).abs() <= bound).all()


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_values_and_gradients_in_float16_keep_their_bound(scale):
    """The bound is the unit roundoff 2^-11, with a small margin for sums in float32."""
    check_half_precision(scale, torch.float16, 1.1 * 2.0**-11)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ["train_step", "valid_step"])
def test_whole_steps_of_a_task_are_computed_by_onednn_where_it_is_exact(monkeypatch, name, exact):
    """The backward pass is part of fairseq's ``train_step``."""
    found = []

    def step(task, sample):
        found.append(torch.backends.mkldnn.matmul.fp32_precision)
        return torch.tensor(1.0), 1, {}

    monkeypatch.setattr(TranslationTask, name, step)
    monkeypatch.setattr(output_matmul, "onednn_is_exact", lambda: exact)
    task = GuardedTask.__new__(GuardedTask)
    task.cfg, task._update = GuardedConfig(), None
    before = torch.backends.mkldnn.matmul.fp32_precision
    getattr(task, name)({"ntokens": 1})
    assert found == ["bf16" if exact else before]
    assert torch.backends.mkldnn.matmul.fp32_precision == before
