"""Use a trained model that reads untokenised text, in ``wean-generate``, ``wean-inspect`` and ``load``."""

from .. import register

register()

from .loading import load
from .model import TextModel
from .outputs import Generated, Output
