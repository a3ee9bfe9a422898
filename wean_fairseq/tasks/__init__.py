"""Tasks; importing one registers it."""

from . import paraphrase

__all__ = ["paraphrase"]
