"""Tasks; importing one registers it."""

from . import paraphrase, topic_essay

__all__ = ["paraphrase", "topic_essay"]
