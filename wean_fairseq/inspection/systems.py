"""Models that the page can use, loaded once."""

from typing import Any

from ..generation import TextModel
from .neighbourhood import neighbourhoods


class System:
    """A loaded model, its name on the page, and the neighbours of its words."""

    def __init__(self, name: str, model: TextModel) -> None:
        self.name = name
        self.model = model
        self.near = neighbourhoods(model.model, model.task.source_dictionary, model.task.target_dictionary)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "arch": self.model.arch,
            "topics": self.model.reads_topics,
            "needs_length": self.model.needs_length,
            "beam": self.model.beam,
            "copies": self.model.copies,
            "granularity": self.model.has_granularity,
            "text": self.model.text.settings.describe(),
            "example": self.model.text.example,
        }
