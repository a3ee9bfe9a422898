"""Test that linear maps in a loop equal ``torch.nn.functional.linear``, including gradients, at every step."""

import gc
import weakref

import pytest
import torch
from torch.nn.functional import linear

from wean_fairseq.modules.looped_linear import LoopedLinear

N, I, O, STEPS = 3, 5, 7, 4  # noqa: E741 - rows, widths in and out


def walk(weight, bias, start, step):
    """Return a loss after a loop in which each step reads the previous output."""
    read, outputs = start, []
    for _ in range(STEPS):
        outputs.append(step(read, weight, bias))
        read = torch.tanh(outputs[-1][..., :I])
    return torch.stack(outputs).square().sum()


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("learnt", [True, False])
def test_outputs_and_gradients_are_those_of_linear(has_bias, learnt):
    torch.manual_seed(1)
    whole = torch.randn(O, I + 2, dtype=torch.float64, requires_grad=learnt)
    bias = torch.randn(O, dtype=torch.float64, requires_grad=learnt) if has_bias else None
    start = torch.randn(2, N, I, dtype=torch.float64, requires_grad=True)
    inputs = [one for one in (whole, bias, start) if one is not None and one.requires_grad]
    looped = LoopedLinear(whole[:, 2:], bias)
    found = walk(None, None, start, lambda read, *_: looped(read))
    expected = walk(whole[:, 2:], bias, start, linear)
    torch.testing.assert_close(found, expected)
    grads = (torch.autograd.grad(loss, inputs) for loss in (found, expected))
    for mine, other in zip(*grads, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_weight_for_each_sentence_has_the_gradients_of_bmm():
    torch.manual_seed(1)
    weight, start = (torch.randn(2, rows, I, dtype=torch.float64, requires_grad=True) for rows in (O, N))
    looped = LoopedLinear(weight)
    losses = [
        walk(None, None, start, step) for step in (lambda read, *_: looped(read), lambda read, *_: read @ weight.mT)
    ]
    torch.testing.assert_close(*losses)
    for mine, other in zip(*(torch.autograd.grad(loss, (weight, start)) for loss in losses), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_map_that_is_made_and_not_used_has_no_gradient():
    weight = torch.ones(O, I, requires_grad=True)
    used, unused = LoopedLinear(weight * 2), LoopedLinear(weight * 3)
    (used(torch.ones(N, I)).sum() + 0 * unused.weight.sum()).backward()
    assert torch.equal(weight.grad, torch.full((O, I), 2.0 * N))


def test_within_autocast_the_weight_is_cast_once_and_its_gradient_is_in_its_own_dtype():
    weight = torch.randn(O, I, requires_grad=True)
    values = torch.randn(N, I)
    with torch.autocast("cpu", torch.bfloat16):
        looped = LoopedLinear(weight)
        found = looped(values)
    assert found.dtype == looped.weight.dtype == torch.bfloat16
    found.sum().backward()
    assert weight.grad.dtype == torch.float32
    torch.testing.assert_close(weight.grad, values.sum(dim=0).expand(O, I), rtol=0.02, atol=0.02)


def test_without_gradients_nothing_is_kept():
    looped = LoopedLinear(torch.ones(O, I))
    looped(torch.ones(N, I, requires_grad=True)).sum().backward()
    assert not looped.inputs and not looped.grads


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_batch_is_gone_after_its_backward(has_bias):
    """The memory is freed without the garbage collector, which cannot follow cycles through autograd."""
    weight, bias = torch.ones(O, I, requires_grad=True), torch.ones(O, requires_grad=True) if has_bias else None
    gc.disable()
    try:
        looped = LoopedLinear(weight, bias)
        looped(torch.ones(N, I)).sum().backward()
        batch = weakref.ref(looped)
        cast = weakref.ref(looped.weight)
        del looped
        assert batch() is None
        assert cast() is None
    finally:
        gc.enable()
