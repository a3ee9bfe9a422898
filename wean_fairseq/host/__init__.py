"""Adaptations of fairseq, torch and Hydra. ``table`` lists all patches with their reasons."""

from .. import register

register()
