"""Importing this module patches fairseq and registers the plugin. See ``wean_fairseq.register``."""

from .host.patches import install
from .host.table import PATCHES

install(PATCHES)

from . import criterions, models, optim, tasks
from .evaluation import scorers
