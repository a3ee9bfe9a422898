"""Criterions of the models. Importing a module registers its criterion."""

from .. import register

register()

from . import model_loss, policy_gradient, query_embedding
