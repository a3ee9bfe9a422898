"""Adaptations of fairseq, torch and Hydra. ``table`` lists the patches and their reasons."""

from .. import register

register()
