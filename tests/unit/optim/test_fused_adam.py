"""Compare ``fused_adam`` with fairseq's own ``adam`` after each update."""

import copy
from typing import Any

import pytest
import torch
from fairseq.optim.adam import Adam
from omegaconf import OmegaConf

from wean_fairseq.errors import UserError
from wean_fairseq.optim.fused_adam import FusedAdam, FusedAdamConfig

SHAPES = ((5, 3), (7,), (2, 3, 4))


def make(params: list[torch.nn.Parameter], **values: Any) -> FusedAdam:
    return FusedAdam(OmegaConf.structured(FusedAdamConfig(lr=[0.1], **values)), params)


def parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def train(optimizer: Any, params: list[torch.nn.Parameter], steps: range, scale: float) -> None:
    """Run updates with gradients that depend on the step. In step 2 the second parameter has no gradient."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for parameter in params:
            parameter.grad = scale * torch.randn(parameter.shape, generator=generator)
        if step == 2:
            params[1].grad = None
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (1 + step)
        optimizer.step()


# If epsilon is large or similar to the gradients, adding it in the wrong place changes the first digits.
@pytest.mark.parametrize(("scale", "eps"), [(1.0, 1e-8), (1e-8, 1e-8), (1.0, 0.1)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_updates_are_fairseqs(scale: float, eps: float, decay: float) -> None:
    """The oracle is ``fairseq.optim.adam.Adam``, which does not count updates in which a parameter had no gradient."""
    ours, theirs = parameters(), parameters()
    optimizer = make(ours, adam_eps=eps, adam_betas="(0.8, 0.98)", weight_decay=decay)
    peer = Adam(theirs, lr=0.1, betas=(0.8, 0.98), eps=eps, weight_decay=decay)
    train(optimizer, ours, range(5), scale)
    train(peer, theirs, range(5), scale)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)
    assert [optimizer.optimizer.state[p]["step"] for p in ours] == [5, 4, 5] == [peer.state[p]["step"] for p in theirs]


def test_goes_on_from_its_checkpoint() -> None:
    whole, first, second = parameters(), parameters(), parameters()
    train(make(whole), whole, range(4), 1.0)
    before, after = make(first), make(second)
    train(before, first, range(3), 1.0)
    with torch.no_grad():
        for source, target in zip(first, second, strict=True):
            target.copy_(source)
    after.load_state_dict(before.state_dict())
    train(after, second, range(3, 4), 1.0)
    torch.testing.assert_close(second, whole, rtol=0.0, atol=0.0)


def test_goes_on_from_the_state_of_fairseqs_adam() -> None:
    """The expected values come from ``fairseq.optim.adam.Adam``, which resumes from the same state."""
    theirs = parameters()
    peer = Adam(theirs, lr=0.1)
    train(peer, theirs, range(3), 1.0)
    ours = [torch.nn.Parameter(parameter.detach().clone()) for parameter in theirs]
    optimizer = make(ours)
    optimizer.load_state_dict(copy.deepcopy(peer.state_dict()))
    train(optimizer, ours, range(3, 5), 1.0)
    train(peer, theirs, range(3, 5), 1.0)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("layout", ["transposed", "expanded"])
def test_gradients_of_any_layout_in_memory(layout: str) -> None:
    """The expected values come from fairseq's ``adam`` with contiguous gradients."""
    ours, theirs = (torch.nn.Parameter(torch.ones(5, 3)) for _ in range(2))
    numbers = torch.arange(1.0, 16.0).view(3, 5).t() - 8.0 if layout == "transposed" else torch.arange(-1.0, 2.0)
    ours.grad = numbers.expand(5, 3)
    theirs.grad = ours.grad.contiguous()
    make([ours]).step()
    Adam([theirs], lr=0.1).step()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_training_in_half_precision_keeps_its_numbers_in_float32() -> None:
    """--memory-efficient-fp16 would keep them in half precision, so this optimiser must not support it."""
    assert not make(parameters()).supports_memory_efficient_fp16


def test_defaults_are_fairseqs() -> None:
    optimizer = make(parameters())
    assert optimizer.optimizer_config == {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    assert optimizer.supports_flat_params


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"adam_betas": "(0.9, 1.0)"}, r"--adam-betas must be two numbers .* but is '\(0\.9, 1\.0\)'"),
        ({"adam_betas": "0.9"}, "--adam-betas must be two numbers"),
        ({"adam_betas": "open('x')"}, "--adam-betas must be two numbers"),
        ({"adam_eps": -1.0}, r"--adam-eps must be 0 or more, but is -1\.0\."),
    ],
)
def test_options_out_of_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(parameters(), **values)
