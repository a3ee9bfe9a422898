"""Training settings of every family as data: one file per family, named as in ``wean_fairseq/models``.

``SETTINGS`` has the options of each arch that its paper or release states; ``tests/integration/test_archs.py`` compares
them and builds the archs for ``TASK`` with ``SLOTS`` slots for copied words. ``CASES`` lists the tensors that are
dropped, the option that controls each, and the initial distributions of the weights;
``tests/unit/models/test_training_mode.py`` observes a model and compares. Each file names the paper or release that
defines an initialisation. PyTorch's defaults are used where neither mentions one.
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
    """Tensors to which dropout is applied.

    Attributes:
        side: ``ENCODER`` or ``DECODER``.
        of: the operation that produced them: a PyTorch function, ``recurrent`` for the output of any cell,
            ``BETWEEN_LAYERS``, ``SELF_ATTENTION`` or ``CROSS_ATTENTION``.
        width: units of each vector; for attention the number of heads.
        a_word: number of vectors per word of the side, for parallel and stepwise computation alike.
        option: name of the option with the dropout rate.
    """

    side: str
    of: str
    width: int
    a_word: int = 1
    option: str = "dropout"


# The distribution of a parameter of a module: a frozen one of scipy.stats, or the one value of all numbers. Freezing
# takes longer than looking at the numbers of a small model, so it is done once.
Start = Callable[[nn.Module, Tensor], Any]


@functools.cache
def uniform(bound: float) -> Start:
    """Return a start that is uniform in [-bound, bound]."""
    start = scipy.stats.uniform(-bound, 2 * bound)
    return lambda module, parameter: start


@functools.cache
def normal(std: float) -> Start:
    """Return the distribution N(0, std)."""
    start = scipy.stats.norm(0, std)
    return lambda module, parameter: start


@functools.cache
def truncated_normal(std: float) -> Start:
    """Return N(0, std), with numbers beyond two standard deviations drawn again."""
    start = scipy.stats.truncnorm(-2, 2, scale=std)
    return lambda module, parameter: start


def constant(value: float) -> Start:
    """Return a start with one value."""
    return lambda module, parameter: value


def glorot(module: nn.Module, parameter: Tensor) -> Any:
    """Return a uniform initialisation with the variance 2 / (fan in + fan out) (Glorot and Bengio, AISTATS 2010).

    A vector is (1, n).
    """
    fans = sum(parameter.shape) if parameter.dim() == 2 else 1 + parameter.numel()
    return uniform((6 / fans) ** 0.5)(module, parameter)


def pytorch(module: nn.Module, parameter: Tensor) -> Any:
    """Return the start of a layer by the documentation of PyTorch."""
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
        arch: its registered name.
        options: small sizes, all different; the test sets the dropout rates.
        dropped: every tensor to which dropout is applied in training.
        starts: initial distributions by pattern of parameter names. The first match counts; parameters without a match
            start as in ``pytorch``. Rows of padding are 0 and ignored.
        noise: functions that draw further random numbers in training.
        build: builds the model.
        inputs: returns the inputs other than the sentences that the task would give, from model and batch.
    """

    arch: str
    options: Mapping[str, Any]
    dropped: Sequence[Dropped]
    starts: Mapping[str, Start] = field(default_factory=dict)
    noise: frozenset[str] = frozenset()
    build: Callable[..., nn.Module] = build_model
    inputs: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]] = task_inputs


def declared() -> dict[str, ModuleType]:
    """Return the file of each registered family. A family without one is an error that says so."""
    return {family: importlib.import_module(f"tests.training.{family}") for family in families()}


def cases() -> dict[str, Case]:
    """Return the cases of all families by an id."""
    return {
        f"{family}-{number}-{case.arch}": case
        for family, file in declared().items()
        for number, case in enumerate(file.CASES)
    }
