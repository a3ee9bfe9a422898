"""Archs: options of a registered model under a name of their own."""

from argparse import Namespace
from typing import Any

from fairseq.models import register_model_architecture


def register_preset(model: str, name: str, **values: Any) -> None:
    """Register the arch ``name`` of ``model``, whose defaults differ in ``values``; the command line still wins."""

    def apply(args: Namespace) -> None:
        for key, value in values.items():
            setattr(args, key, getattr(args, key, value))

    register_model_architecture(model, name)(apply)
