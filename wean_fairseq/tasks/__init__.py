"""Tasks; importing one registers it."""

from .. import register

register()

from . import paraphrase, topic_essay
