"""Optimisers; importing one registers it."""

from .. import register

register()

from . import adagrad_accumulator, adamw, fused_adam
