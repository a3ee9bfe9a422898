"""Optimisers. Importing a module registers its optimiser."""

from .. import register

register()

from . import adagrad_accumulator, adamw, fused_adam
