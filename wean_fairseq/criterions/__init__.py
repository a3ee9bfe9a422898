"""Criterions; importing one registers it."""

from . import model_loss, query_embedding
