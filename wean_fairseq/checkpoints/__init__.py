"""Checkpoints: written whole, read safely, resumed only if intact, averaged and exported."""

from .. import register

register()
