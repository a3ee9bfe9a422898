"""Check the types of a checkpoint's members and options. All code that reads a checkpoint relies on these types."""

import math
from argparse import Namespace
from dataclasses import is_dataclass
from types import NoneType
from typing import Any

import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from ..storage.files import is_utf8

DEEPEST_CONTENT = 50  # maximum depth of nested containers
OTHERS = "any other"  # key for all members of a dictionary whose names are not fixed
_MOST_SHARED = 2  # maximum ratio of the bytes of all distinct tensors in a storage to the bytes of the storage
_NUMBER = (int, float)
_COUNT = range(2**62)
_LARGEST_NUMBER = 10**300  # larger whole numbers cannot become floats


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1


_SCORE = (NoneType, *_NUMBER, _is_scalar)  # of a validation
_NUMBERS_OF_STATE = ("step", "RMS")  # entries of an optimiser's state that are not as large as the parameter
_MAY_BE_NEGATIVE = ("decay_rate",)  # of adafactor
_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8}
_DTYPES |= {torch.int8, torch.int16, torch.int32, torch.int64}
_PATIENCE = {"best?": _SCORE, "num_runs?": _COUNT}
_DICTIONARY = {"size": int, "words": str, "sorted": str}
# Members that fairseq-train and the tasks of this package write. A dictionary describes a dictionary with these members
# ("?" = optional). A list describes a non-empty list of such values. A tuple is a choice between types, a range
# contains the permitted whole numbers, and a function returns True for the permitted values.
_CHECKPOINT = {
    "model": {OTHERS: Tensor},
    "args?": (NoneType, Namespace),
    "cfg?": (
        NoneType,
        {"_name?": (NoneType, str), "generation?": (Namespace, dict), OTHERS: (NoneType, Namespace, dict)},
    ),
    "criterion?": (NoneType, dict),
    "optimizer_history?": [
        {
            "criterion_name?": str,
            "optimizer_name?": str,
            "lr_scheduler_state?": {"best?": _SCORE, "lr?": _NUMBER, "last_epoch?": _COUNT},
            "num_updates?": _COUNT,
        }
    ],
    "last_optimizer_state?": (NoneType, dict),
    "task_state?": (
        NoneType,
        {"dictionaries?": (NoneType, {OTHERS: _DICTIONARY}), "trained_on?": (NoneType, str)},
    ),
    "extra_state?": (
        NoneType,
        {
            "train_iterator?": (
                NoneType,
                {
                    "version?": int,
                    "epoch": range(2**31),
                    "iterations_in_epoch?": _COUNT,
                    "made_of?": {OTHERS: (int, str)},
                },
            ),
            "previous_training_time?": (*_NUMBER, _is_scalar),  # sum over the training processes
            "val_loss?": _SCORE,
            "best?": _SCORE,
            "average_of?": list,
            "ParaphraseTask?": {"patience?": _PATIENCE},
            "TopicEssayTask?": {"patience?": _PATIENCE},
        },
    ),
}


def odd_value(content: Any) -> str | None:
    """Return the place of a tensor that fairseq does not write or of too deeply nested values, or ``None``.

    fairseq writes dense tensors in ordinary memory. Most operations fail on other tensors (meta, sparse, quantised). A
    file can also give a tensor attributes that replace its methods, or create large views from a storage of a few
    bytes.
    """
    # storage -> number of bytes of the distinct tensors in it Tied tensors count once
    views: dict[int, dict[Any, int]] = {}
    waiting: list[tuple[Any, str, int]] = [(content, "content", 0)]
    seen: set[int] = set()
    while waiting:
        value, place, depth = waiting.pop()
        if isinstance(value, Tensor):
            if not _is_plain(value):
                return place
            storage = value.untyped_storage()
            sizes = views.setdefault(storage._cdata, {})
            sizes[value.storage_offset(), value.shape, value.stride()] = value.numel() * value.element_size()
            if sum(sizes.values()) > _MOST_SHARED * storage.nbytes():
                return place
        elif isinstance(value, dict | list | tuple | set | Namespace) and id(value) not in seen:
            if depth == DEEPEST_CONTENT:
                return place
            seen.add(id(value))
            inside = vars(value) if isinstance(value, Namespace) else value
            parts = dict.items(inside) if isinstance(inside, dict) else enumerate(inside)
            waiting += [(part, f"{place}.{name}".removeprefix("content."), depth + 1) for name, part in parts]
    return None


def _is_plain(tensor: Tensor) -> bool:
    """Return True if a tensor is dense, is in ordinary memory, and has no additional attributes.

    Attributes are checked first, because they can replace the methods that the other checks call.
    """
    if type(tensor) not in (Tensor, Parameter) or vars(tensor) or tensor.is_nested or tensor.dtype not in _DTYPES:
        return False
    return tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized


def wrong_member(content: Any) -> str | None:
    """Return the first member whose form differs from the members that fairseq-train writes, or ``None``.

    The member is described by its place, such as "extra_state.best".
    """
    wrong = _wrong(content, _CHECKPOINT, "")
    return wrong or next(
        (f"model.{name}" for name, tensor in content["model"].items() if _is_no_weight(name, tensor)), None
    )


def _is_no_weight(name: str, tensor: Tensor) -> bool:
    """Return True if a weight or bias contains integers instead of floating-point numbers."""
    return name.rpartition(".")[2].startswith(("weight", "bias")) and not tensor.is_floating_point()


def _wrong(value: Any, expected: Any, place: str) -> str | None:
    """Return the place of the first value with a wrong type in ``value``, or ``None``."""
    if isinstance(expected, tuple):
        found = [_wrong(value, choice, place) for choice in expected]
        return None if None in found else found[-1]
    if isinstance(expected, list):
        fits = isinstance(value, list) and len(value) > 0
        parts = [(item, expected[0], f"{place}[{number}]") for number, item in enumerate(value)] if fits else []
    elif isinstance(expected, dict):
        fits = isinstance(value, dict) and all(isinstance(name, str) and is_utf8(name) for name in value)
        # A file may set attributes of an OrderedDict that replace its methods. torch itself sets only this attribute.
        fits = fits and getattr(value, "__dict__", {}).keys() <= {"_metadata"}
        parts = _members(value, expected, place) if fits else []
    elif isinstance(expected, range):
        fits, parts = type(value) is int and value in expected, []
    elif not isinstance(expected, type):
        fits, parts = expected(value), []
    else:
        fits, parts = isinstance(value, expected) and (type(value) is not bool or expected is object), []
        fits = fits and (type(value) is not int or abs(value) < _LARGEST_NUMBER)
    if not fits:
        return place
    return next((wrong for part in parts if (wrong := _wrong(*part)) is not None), None)


def _members(content: dict[str, Any], expected: dict[str, Any], place: str) -> list[tuple[Any, Any, str]]:
    """Return the value of each member of a dictionary, with its expected type and its place."""
    fixed = {name.removesuffix("?"): kind for name, kind in expected.items() if name != OTHERS}
    required = {name for name in expected if not name.endswith("?") and name != OTHERS}
    return [
        (content.get(name), fixed.get(name, expected.get(OTHERS, object)), f"{place}.{name}".lstrip("."))
        for name in content.keys() | required
    ]


def wrong_option(cfg: dict[str, Any]) -> str | None:
    """Return the first option of a configuration with the wrong type, such as "model.dropout", or ``None``.

    The section of an old arch is a ``Namespace``, so the types of its options are unknown.
    """
    for section, options in cfg.items():
        if not isinstance(options, dict):
            continue
        if not isinstance(options.get("_name"), str | None):
            return f"{section}._name"
        for side in ("source_lang", "target_lang") if section == "task" else ():
            if "/" in str(options.get(side)):  # the language becomes a part of file names
                return f"task.{side}"
        kinds = _kinds(section, options.get("_name"))
        for name in sorted(options.keys() & kinds.keys()):
            try:
                kinds[name] = options[name]
            except OmegaConfBaseException:
                return f"{section}.{name}"
            # OmegaConf would accept "yes" as a boolean and "5" as a number, but the code that reads the options would
            # get the text.
            if isinstance(options[name], str) and isinstance(kinds[name], bool | int | float):
                return f"{section}.{name}"
    return None


def _kinds(section: str, name: str | None) -> DictConfig:
    """Return a container for the options of a section that accepts only values of the right types.

    The container is empty if the types are unknown.
    """
    named = {"model": MODEL_DATACLASS_REGISTRY, "task": TASK_DATACLASS_REGISTRY}
    named |= {registry: found["dataclass_registry"] for registry, found in REGISTRIES.items()}
    if section in named:
        kind = named[section].get(name)
    else:
        kind = getattr(FairseqConfig.__dataclass_fields__.get(section), "type", None)
    options: DictConfig = OmegaConf.structured(kind) if is_dataclass(kind) else OmegaConf.create()
    return options


def without_state(optimizer: Optimizer, model: Module) -> list[str]:
    """Return the names of the trained parameters that a loaded optimiser state lacks, or none if it is empty."""
    state = getattr(optimizer, "state", {})
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    named = model.named_parameters() if state else ()
    return [name for name, parameter in named if id(parameter) in trained and not state.get(parameter)]


def wrong_in_optimizer(optimizer: Optimizer) -> str | None:
    """Return the first part of a loaded optimiser state that makes the next step fail, or ``None``.

    Options must have the types of their defaults and be in their ranges. If several parameters have an entry of the
    same name in the state, its type must be the same for all of them. A tensor must have the shape of its parameter: a
    fused optimiser would read and write outside of a smaller one.
    """
    for inner in _inner(optimizer):
        if (wrong := wrong_in_optimizer(inner)) is not None:
            return wrong
    for group in optimizer.param_groups:
        # an optimiser that combines several optimisers has no defaults
        for name, default in getattr(optimizer, "defaults", {}).items():
            # Newer versions of PyTorch have boolean options that are missing in the checkpoints of older versions.
            if not _alike(group.get(name, default if isinstance(default, bool) else None), default):
                return str(name)
            if not _is_in_range(name, group.get(name)):
                return str(name)
    kinds: dict[str, type] = {}
    names: set[frozenset[str]] = set()
    for parameter, entries in getattr(optimizer, "state", {}).items():
        # torch keeps the number of a parameter that is not in the list of a group
        if not isinstance(parameter, Tensor) or not isinstance(entries, dict):
            return "state"
        names.add(frozenset(entries))
        for name, value in entries.items():
            if kinds.setdefault(name, type(value)) is not type(value) or not _fits(parameter, name, value):
                return str(name)
    lacking = (more - fewer for more in names for fewer in names if fewer < more and fewer)
    return next((str(min(missing)) for missing in lacking), None)


def _inner(optimizer: Any) -> list[Optimizer]:
    """Return the optimisers that fairseq's composite optimiser combines."""
    return [inner.optimizer for inner in getattr(optimizer, "optimizers", {}).values()]


def _is_in_range(name: str, value: Any) -> bool:
    """Return True if all numbers of an option are finite and 0 or more, and betas are below 1."""
    if isinstance(value, list | tuple):
        return all(_is_in_range(name, number) for number in value)
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        return True
    most = 1 if name.startswith("beta") else math.inf
    return math.isfinite(value) and (name in _MAY_BE_NEGATIVE or 0 <= float(value) < most)


def _fits(parameter: Tensor, name: str, value: Any) -> bool:
    """Return True if an entry of the state has the shape of its parameter, or is a number that is possible."""
    if name in _NUMBERS_OF_STATE:
        return not isinstance(value, int | float | Tensor) or (
            (not isinstance(value, Tensor) or value.numel() == 1) and 0 <= float(value) < math.inf
        )
    if not isinstance(value, Tensor):
        return True
    shape = parameter.shape  # adafactor stores the means of rows and columns
    return value.shape in ((shape[:-1], shape[:-2] + shape[-1:]) if name.endswith(("_row", "_col")) else (shape,))


def align_state(optimizer: Optimizer) -> None:
    """Store the tensors of a loaded state in the memory layout of their parameters, as fused optimisers expect."""
    for inner in _inner(optimizer):
        align_state(inner)
    for parameter, entries in getattr(optimizer, "state", {}).items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                entries[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _alike(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, list | tuple):
        fits = isinstance(value, list | tuple) and len(value) == len(default)
        return fits and all(map(_alike, value, default))
    if type(default) in _NUMBER:
        return type(value) in _NUMBER or (isinstance(value, Tensor) and value.numel() == 1)
    return isinstance(value, type(default))
