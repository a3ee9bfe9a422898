"""Test every family in training mode: which tensors have dropout, deterministic evaluation, and initial weights.

The expected values are in the tables of ``tests/training``. The tests observe PyTorch's own functions and do not depend
on the implementation of a family.
"""

import math
import re
from argparse import Namespace
from collections import Counter, defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
import scipy.stats
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests import training
from tests.families import families
from tests.model_contract import EOS, collate
from tests.training import BETWEEN_LAYERS, CROSS_ATTENTION, DECODER, ENCODER, SELF_ATTENTION, Case, Dropped
from wean_fairseq.modules import dropout

RATES = {"dropout": 0.25, "attention_dropout": 0.125}
TOPICS = [4, 7, 9, 14, 5]  # the words of each source
# The targets have fewer words than the sources, even with the end symbol, to distinguish the two kinds of attention.
WORDS = 3
SEEDS = 16  # number of models whose weights are tested together

# These functions return the same numbers in another shape, so the name of the original function is kept.
RESHAPING = """
    squeeze unsqueeze view reshape flatten unflatten transpose permute unbind stack split chunk __getitem__ index_select
    to float contiguous expand view_as type_as select movedim
""".split()
RECURRENT = ("mul", "lstm", "gru", "lstm_cell", "gru_cell", "_pad_packed_sequence")
DRAWING = re.compile(r"bernoulli|rand|exponential_|normal_|uniform_|multinomial|poisson|cauchy_|geometric_")

CASES = training.cases()
SETTINGS = {arch: settings for file in training.declared().values() for arch, settings in file.SETTINGS.items()}


class Watch(TorchFunctionMode):
    """Counts the numbers in tensors with dropout, and records all other functions that draw random numbers.

    Args:
        model: the model to observe, with an encoder and a decoder.
        steps: number of words of each source and of each target.
    """

    def __init__(self, model: nn.Module, steps: dict[str, int]) -> None:
        super().__init__()
        self.side = DECODER
        self.steps = steps
        self.dropped: Counter[tuple[str, str, int, float]] = Counter()
        self.drawn: set[str] = set()
        self.made_by: dict[int, str] = {}
        self.kept: list[Any] = []  # keeps tensors alive, so that no other tensor gets the same id
        model.encoder.register_forward_pre_hook(lambda *_: setattr(self, "side", ENCODER))
        model.encoder.register_forward_hook(lambda *_: setattr(self, "side", DECODER))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if "dropout" in name:
            self._dropout(args, kwargs)
        elif name == "scaled_dot_product_attention" and kwargs.get("dropout_p"):
            query, keys = args[:2]
            self._attention(query.size(1), query.size(2), keys.size(2), kwargs["dropout_p"])
        elif name in ("lstm", "gru"):
            self._rnn(args, result[0])
        elif DRAWING.search(name):
            self.drawn.add(name)
        self._remember(name, args, result)
        return result

    def _dropout(self, args: Any, kwargs: Any) -> None:
        given = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
        tensor, rate = given["input"], given.get("p", 0.5)
        if not rate or not given.get("training", True) or not tensor.any():
            return  # dropout has no effect on zeros, such as the first fed state
        made_by = self.made_by[id(tensor)]
        if made_by in ("exp", "softmax"):
            self._attention(*tensor.shape[1:], rate)
        else:
            of = "recurrent" if made_by in RECURRENT else made_by
            self.dropped[self.side, of, tensor.size(-1), rate] += tensor.numel()

    def _attention(self, heads: int, queries: int, keys: int, rate: float) -> None:
        of = CROSS_ATTENTION if self.side == DECODER and keys > self.steps[DECODER] else SELF_ATTENTION
        batch = 3
        self.dropped[self.side, of, heads, rate] += batch * heads * queries

    def _rnn(self, args: Any, output: Tensor) -> None:
        _, layers, rate, training_mode, *_ = (value for value in args if isinstance(value, bool | int | float))
        if rate and training_mode and layers > 1:
            self.dropped[self.side, BETWEEN_LAYERS, output.size(-1), rate] += (layers - 1) * output.numel()

    def _remember(self, name: str, args: Any, result: Any) -> None:
        self.kept.append((args, result))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                given = args[0] if args else None
                first = given[0] if isinstance(given, tuple | list) and given else given
                reshaped = name in RESHAPING and id(first) in self.made_by
                self.made_by[id(tensor)] = self.made_by[id(first)] if reshaped else name

    def found(self, rates: dict[str, float]) -> set[Dropped]:
        """Return the tensors with dropout in the format of the tables in ``tests/training``."""
        options = {rate: option for option, rate in rates.items()}
        return {
            Dropped(side, of, width, math.ceil(numbers / (3 * self.steps[side] * width)), options[rate])
            for (side, of, width, rate), numbers in self.dropped.items()
        }


@pytest.fixture(autouse=True)
def watched_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the package's dropout, which cannot be observed, by PyTorch's.

    The rates in ``RATES`` are multiples of 1 / DROP_LEVELS, so the package does not round them.
    """
    stand_in = lambda values, dropped: nn.functional.dropout(values, dropped / dropout.DROP_LEVELS)  # noqa: E731
    monkeypatch.setattr(dropout._Dropout, "apply", stand_in)


def make_batch() -> dict[str, Tensor]:
    """Return three sentences of equal length, so that there is no padding."""
    sources = [torch.tensor([(word + row) % 7 + 12 for word in TOPICS] + [EOS]) for row in range(3)]
    return collate(sources, [torch.tensor([12 + row, 4, 5 + row, EOS]) for row in range(3)])


def watched(case: Case, *, train: bool) -> Watch:
    """Run a model once on a batch with its loss, in evaluation also without a loss, and return its observer."""
    model = case.build(case.arch, **{**case.options, **RATES}).train(train)
    batch = make_batch()
    more = case.inputs(model, batch)
    watch = Watch(model, {ENCODER: len(TOPICS) + 1, DECODER: WORDS + 1})
    torch.manual_seed(1)
    with watch:
        model(**batch, **more)
        if not train:
            model(**{name: value for name, value in batch.items() if name != "target"}, **more)
    return watch


def test_every_family_is_declared_and_nothing_else() -> None:
    files = {file.stem for file in Path(training.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(families())


@pytest.mark.parametrize("arch", SETTINGS)
def test_the_options_of_an_arch_are_those_of_its_paper(arch: str) -> None:
    """All numbers and switches that are not in the tables of ``tests/training`` must be 0 or off."""
    args = Namespace()
    ARCH_CONFIG_REGISTRY[arch](args)
    config = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]]
    options = {field.name: getattr(config.from_namespace(args), field.name) for field in fields(config)}
    assert {name: options[name] for name in SETTINGS[arch]} == SETTINGS[arch]
    others = {name: value for name, value in options.items() if isinstance(value, bool | int | float)}
    assert not {name for name, value in others.items() if value and name not in SETTINGS[arch]}


@pytest.mark.parametrize("family", families())
def test_options_that_may_be_0_say_so(family: str) -> None:
    """Options for weights may be 0. Sizes may be 0 only if the help text explains the value 0 or if 0 is the default.

    All other sizes are at least 1.
    """
    for option in fields(MODEL_DATACLASS_REGISTRY[family]):
        if option.type is int and option.name.endswith(("_dim", "_size", "_layers", "_heads")):
            assert "least" in option.metadata, option.name  # otherwise 0 gives a traceback or an empty model
        if "least" in option.metadata:
            may_be_0 = option.type is not int or option.default == 0 or "; 0 = " in option.metadata["help"]
            assert option.metadata["least"] == (0 if may_be_0 else 1), option.name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_training_drops_what_is_declared(case: Case) -> None:
    watch = watched(case, train=True)
    assert watch.found(RATES) == set(case.dropped)
    assert watch.drawn == case.noise


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_evaluation_draws_nothing(case: Case) -> None:
    watch = watched(case, train=False)
    assert not watch.dropped
    assert not watch.drawn


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_weights_start_from_the_declared_distribution(case: Case) -> None:
    """If each initial weight is put through its distribution function, the results are uniform in [0, 1]."""
    uniform: dict[str, list[np.ndarray]] = defaultdict(list)
    for seed in range(SEEDS):
        model = case.build(case.arch, seed=seed, **case.options)
        for name, parameter in model.named_parameters():
            module = model.get_submodule(name.rpartition(".")[0])
            pattern = next((one for one in case.starts if re.fullmatch(one, name)), "PyTorch's start")
            start = case.starts.get(pattern, training.pytorch)(module, parameter)
            if start is not None:
                uniform[pattern] += _through_distribution(start, name, _without_padding(module, parameter))
    assert uniform
    for pattern, parts in uniform.items():
        numbers = np.concatenate(parts) if parts else np.linspace(0, 1, 100)
        assert scipy.stats.kstest(numbers, "uniform").pvalue > 1e-4, pattern


def _without_padding(module: nn.Module, parameter: Tensor) -> Tensor:
    if not isinstance(module, nn.Embedding) or module.padding_idx is None or parameter is not module.weight:
        return parameter.detach()
    assert not parameter[module.padding_idx].any()
    others = torch.arange(len(parameter)) != module.padding_idx
    return parameter.detach()[others]


def _through_distribution(start: Any, name: str, values: Tensor) -> list[np.ndarray]:
    if isinstance(start, float):
        assert (values == start).all(), name
        return []
    numbers = values.flatten().double().numpy()
    low, high = start.support()
    assert low <= numbers.min() * (1 - 1e-6), name  # up to rounding to float32
    assert numbers.max() * (1 - 1e-6) <= high, name
    return [start.cdf(numbers)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_families_with_further_losses_declare_them(case: Case) -> None:
    """The criterions of fairseq would omit such losses. ``copied`` is only a statistic of the words and not a loss."""
    model, batch = case.build(case.arch, **case.options), make_batch()
    logged = model(**batch, **case.inputs(model, batch)).logged.keys() - {"copied"}
    assert model.capabilities.adds_losses or not logged


@pytest.mark.parametrize("family", families())
def test_options_that_name_a_file_are_those_of_the_start_of_a_training(family: str) -> None:
    texts = (option for option in fields(MODEL_DATACLASS_REGISTRY[family]) if option.type == Optional[str])
    assert all(option.metadata["reads_file"] for option in texts if option.name != "_name")
