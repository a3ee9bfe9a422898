"""Models that the page can use, loaded once."""

from dataclasses import dataclass
from typing import Any

from ..generation import TextModel
from .neighbourhood import Neighbourhoods, neighbourhoods


@dataclass(frozen=True)
class System:
    """A model and its name on the page."""

    name: str
    model: TextModel
    near: Neighbourhoods

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


def system_of(name: str, model: TextModel) -> System:
    """A loaded model for the page."""
    near = neighbourhoods(model.model, model.task.source_dictionary, model.task.target_dictionary)
    return System(name, model, near)
