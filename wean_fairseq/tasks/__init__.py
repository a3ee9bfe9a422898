"""Tasks; importing one registers it."""

from . import paraphrase, topic_essay
