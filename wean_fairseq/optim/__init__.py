"""Optimisers; importing one registers it."""

from . import adagrad_accumulator, adamw, fused_adam
