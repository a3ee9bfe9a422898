"""Families and their archs: options of a registered model under a name of their own."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fairseq.models import register_model, register_model_architecture

from .base import LossModel

ModelT = TypeVar("ModelT", bound=type[LossModel])


def register_family(name: str, config: type, presets: Mapping[str, Any] | None = None) -> Callable[[ModelT], ModelT]:
    """Register a model under ``name``, which is an arch too, and its further archs.

    ``presets`` has the defaults in which each of these differs, by option; the command line still wins.
    """

    def register(model: ModelT) -> ModelT:
        register_model(name, dataclass=config)(model)
        model.family, model.options = name, config
        for arch, values in (presets or {}).items():
            register_model_architecture(name, arch)(partial(set_defaults, values))
        return model

    return register


def set_defaults(values: Mapping[str, Any], args: Namespace) -> None:
    """Set those options that the command line does not."""
    for key, value in values.items():
        setattr(args, key, getattr(args, key, value))
