"""Criterions. Importing a module registers its criterion."""

from . import model_loss, policy_gradient, query_embedding
