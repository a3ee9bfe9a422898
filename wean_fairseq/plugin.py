"""Patch fairseq and register the plugin on import. See ``wean_fairseq.register``."""

from .host.patches import install
from .host.table import PATCHES

install(PATCHES)

from . import criterions, models, optim, tasks
from .evaluation import scorers
