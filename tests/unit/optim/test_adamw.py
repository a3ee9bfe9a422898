"""Test ``adamw``: the update of the paper, the decayed parameters, and the state restored from a checkpoint."""

import math
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from wean_fairseq.errors import UserError
from wean_fairseq.optim.adamw import AdamW, AdamWConfig


def make(params: list[torch.nn.Parameter], **values: Any) -> AdamW:
    return AdamW(OmegaConf.structured(AdamWConfig(lr=[0.1], **values)), params)


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.full((2, 3), 2.0)), torch.nn.Parameter(torch.full((3,), 2.0))]


def step(optimizer: AdamW, params: list[torch.nn.Parameter], gradient: float) -> None:
    for parameter in params:
        parameter.grad = torch.full_like(parameter, gradient)
    optimizer.step()


def test_two_updates_are_those_of_the_closed_form():
    """The expected values are computed by hand with algorithm 2 of Loshchilov and Hutter, for gradients 0.5 and -1."""
    params = parameters()
    optimizer = make(params, weight_decay=0.01)
    expected = {}
    for decay in (0.01, 0.0):
        value, mean, square = 2.0, 0.0, 0.0
        for count, gradient in enumerate((0.5, -1.0), start=1):
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            value -= 0.1 * decay * value
            value -= 0.1 * (mean / (1 - 0.9**count)) / (math.sqrt(square / (1 - 0.999**count)) + 1e-8)
        expected[decay] = value
    for gradient in (0.5, -1.0):
        step(optimizer, params, gradient)
    torch.testing.assert_close(params[0].detach(), torch.full((2, 3), expected[0.01]))
    torch.testing.assert_close(params[1].detach(), torch.full((3,), expected[0.0]))  # a bias does not decay


@pytest.mark.parametrize("kept", [slice(0, 1), slice(1, 2)])
def test_a_model_may_have_matrices_or_vectors_alone(kept):
    params = parameters()[kept]
    before = params[0].clone()
    step(make(params), params, 1.0)
    assert not torch.equal(params[0], before)


def test_a_checkpoint_brings_the_state_and_the_command_line_the_settings():
    first, second = parameters(), parameters()
    optimizer, resumed = make(first, weight_decay=0.5), make(second, weight_decay=0.25)
    step(optimizer, first, 1.0)
    resumed.load_state_dict(optimizer.state_dict(), {"lr": 0.03})
    assert [group["weight_decay"] for group in resumed.param_groups] == [0.25, 0.0]
    assert [group["lr"] for group in resumed.param_groups] == [0.03, 0.03]
    assert resumed.optimizer.state[second[0]]["step"] == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beta2": 1.0}, r"--beta2 must be at least 0 and below 1, but is 1\.0\."),
        ({"weight_decay": -0.1}, r"--weight-decay must be 0 or more, but is -0\.1\."),
    ],
)
def test_options_out_of_range(values, message):
    with pytest.raises(UserError, match=message):
        make(parameters(), **values)
