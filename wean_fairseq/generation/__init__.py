"""A trained model that reads and writes running text: what ``wean-generate``, ``wean-inspect`` and ``load`` share."""

from .. import register

register()

from .loading import load
from .model import TextModel
from .outputs import Generated, Output
