"""Criterions; importing one registers it."""

from . import query_embedding

__all__ = ["query_embedding"]
