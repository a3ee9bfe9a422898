"""Define the training settings of every family as data.

Each family has one file here, with the same name as its file in ``wean_fairseq/models``.

``SETTINGS`` has the options that the paper or the release of each arch states. ``tests/integration/test_archs.py``
compares them with the registered options, and builds the archs for ``TASK`` with ``SLOTS`` slots for copied words.
``CASES`` lists the tensors that get dropout, the option that controls each dropout, and the initial distributions of
the weights. ``tests/unit/models/test_training_mode.py`` compares them with a model. Each file names the paper or
release that defines an initialisation. If neither mentions an initialisation, PyTorch's defaults are used.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

import scipy.stats
from torch import Tensor, nn

from tests.families import families
from tests.model_contract import build_model, task_inputs

ENCODER, DECODER = "encoder", "decoder"
SELF_ATTENTION, CROSS_ATTENTION = "self-attention", "cross-attention"
BETWEEN_LAYERS = "between layers of a fused RNN"


class Dropped(NamedTuple):
    """Description of tensors to which dropout is applied.

    Attributes:
        side: ``ENCODER`` or ``DECODER``.
        of: the operation that produced the tensors: a PyTorch function, ``recurrent`` for the output of any cell,
            ``BETWEEN_LAYERS``, ``SELF_ATTENTION`` or ``CROSS_ATTENTION``.
        width: units of each vector. For attention, it is the number of heads.
        a_word: number of vectors per word of the side. Parallel and stepwise computation have the same number.
        option: name of the option with the dropout rate.
    """

    side: str
    of: str
    width: int
    a_word: int = 1
    option: str = "dropout"


# The distribution of a parameter of a module. It is a frozen distribution of scipy.stats, or the value that all
# elements have. A distribution is frozen only once, because this takes longer than checking the parameters of a small
# model.
Start = Callable[[nn.Module, Tensor], Any]


@functools.cache
def uniform(bound: float) -> Start:
    """Return the uniform distribution on [-bound, bound] as a start."""
    start = scipy.stats.uniform(-bound, 2 * bound)
    return lambda module, parameter: start


@functools.cache
def normal(std: float) -> Start:
    """Return the distribution N(0, std)."""
    start = scipy.stats.norm(0, std)
    return lambda module, parameter: start


@functools.cache
def truncated_normal(std: float) -> Start:
    """Return N(0, std) without values beyond two standard deviations, which are drawn again."""
    start = scipy.stats.truncnorm(-2, 2, scale=std)
    return lambda module, parameter: start


def constant(value: float) -> Start:
    """Return a start with this value for all elements."""
    return lambda module, parameter: value


def glorot(module: nn.Module, parameter: Tensor) -> Any:
    """Return a uniform initialisation with the variance 2 / (fan in + fan out) (Glorot and Bengio, AISTATS 2010).

    A vector counts as a matrix of shape (1, n).
    """
    fans = sum(parameter.shape) if parameter.dim() == 2 else 1 + parameter.numel()
    return uniform((6 / fans) ** 0.5)(module, parameter)


def pytorch(module: nn.Module, parameter: Tensor) -> Any:
    """Return the start that PyTorch's documentation states for a layer."""
    if isinstance(module, nn.LSTM | nn.GRU | nn.LSTMCell | nn.GRUCell):
        return uniform(module.hidden_size**-0.5)(module, parameter)
    if isinstance(module, nn.Linear):
        return uniform(module.in_features**-0.5)(module, parameter)
    if isinstance(module, nn.LayerNorm):
        return 1.0 if parameter is module.weight else 0.0
    assert isinstance(module, nn.Embedding), f"PyTorch has no start for {type(module).__name__}"
    return normal(1.0)(module, parameter)


@dataclass(frozen=True)
class Case:
    """An arch with its expected dropout and initialisation.

    Args:
        arch: the registered name of the arch.
        options: small sizes that are all different. The test sets the dropout rates.
        dropped: every tensor to which dropout is applied in training.
        starts: initial distributions, by pattern of parameter names. The first match is used. Parameters without a
            match start as in ``pytorch``. Rows of padding are 0 and not compared.
        noise: functions that draw other random numbers in training.
        build: the function that builds the model.
        inputs: a function of model and batch, which returns the inputs of the task other than the sentences.
    """

    arch: str
    options: Mapping[str, Any]
    dropped: Sequence[Dropped]
    starts: Mapping[str, Start] = field(default_factory=dict)
    noise: frozenset[str] = frozenset()
    build: Callable[..., nn.Module] = build_model
    inputs: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]] = task_inputs


def declared() -> dict[str, ModuleType]:
    """Return the file of each registered family. A family without a file is an error."""
    return {family: importlib.import_module(f"tests.training.{family}") for family in families()}


def cases() -> dict[str, Case]:
    """Return the cases of all families by an identifier."""
    return {
        f"{family}-{number}-{case.arch}": case
        for family, file in declared().items()
        for number, case in enumerate(file.CASES)
    }
