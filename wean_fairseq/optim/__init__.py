"""Optimisers; importing one registers it."""

from . import adagrad_accumulator, adamw

__all__ = ["adagrad_accumulator", "adamw"]
