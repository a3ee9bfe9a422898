"""Criterions; importing one registers it."""

from .. import register

register()

from . import model_loss, policy_gradient, query_embedding
