"""Tasks. Importing a module registers its task."""

from . import paraphrase, topic_essay
