"""Models for the page, loaded once, and the nearest neighbours of words in their embeddings."""

from typing import Any, NamedTuple

from torch import nn

from ..data.extended_vocabulary import num_base_words
from ..evaluation.neighbours import Neighbourhood, neighbourhood_of
from ..generation import TextModel


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


class Neighbourhoods(NamedTuple):
    """Nearest neighbours of the source words and of the target words. ``None`` for a side without embeddings."""

    source: Neighbourhood | None
    target: Neighbourhood | None


def neighbourhoods(model: Any, source: Any, target: Any) -> Neighbourhoods:
    """Return the neighbourhoods of a model, with its dictionaries of the source and of the target."""
    first, second = _table(model.encoder, source), _table(model.decoder, target)
    if source == target:  # a side without embeddings uses those of the other side
        first, second = first or second, second or first
    near = _neighbourhood(first, source)
    is_shared = source == target and first is not None and second is not None and first.weight is second.weight
    return Neighbourhoods(near, near if is_shared else _neighbourhood(second, target))


def _table(module: nn.Module, dictionary: Any) -> nn.Embedding | None:
    """Return the widest embedding of the words of a dictionary in an encoder or decoder."""
    sizes = range(num_base_words(dictionary), len(dictionary) + 1)  # slots have no embedding, or one row each
    tables = [table for table in module.modules() if isinstance(table, nn.Embedding) and table.num_embeddings in sizes]
    return max(tables, key=lambda table: table.embedding_dim, default=None)


def _neighbourhood(table: nn.Embedding | None, dictionary: Any) -> Neighbourhood | None:
    return None if table is None else neighbourhood_of(dictionary, table.weight)
