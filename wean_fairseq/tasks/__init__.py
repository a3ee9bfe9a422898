"""Tasks of the plugin. Importing a module registers its task."""

from .. import register

register()

from . import paraphrase, topic_essay
