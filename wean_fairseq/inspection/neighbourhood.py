"""The nearest neighbours of words in the embedding of a loaded model."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..evaluation.neighbours import PADDING_WORD, SPECIALS, nearest
from ..models.word_layers import num_base_words


class Neighbourhood:
    """Words and their embedding.

    Args:
        embedding: shape (words, width).
    """

    def __init__(self, words: list[str], embedding: Tensor) -> None:
        self._words = words
        self._embedding = torch.nn.functional.normalize(embedding.detach().float(), dim=1)
        self._rows = {word: row for row, word in enumerate(words)}

    def neighbours(self, word: str, number: int = 6) -> list[tuple[str, float]]:
        """The nearest words with their cosines, nearest first; none for a word that is not in the embedding."""
        if word not in self._rows:
            return []
        found = nearest(self._embedding, self._rows[word], number)
        return [(self._words[row], round(cosine, 3)) for row, cosine in found]


class Neighbourhoods(NamedTuple):
    """Those of the words that a model reads, and of those that it writes; nothing where it does not embed words."""

    source: Neighbourhood | None
    target: Neighbourhood | None


def neighbourhoods(model: Any, source: Any, target: Any) -> Neighbourhoods:
    """The neighbourhoods of a model by its dictionaries of the source and of the target."""
    tables = [_table(model.encoder, source), _table(model.decoder, target)]
    if source == target:  # a side without an embedding of its own has the other's words
        tables = [tables[0] or tables[1], tables[1] or tables[0]]
    first = None if tables[0] is None else _neighbourhood(tables[0], source)
    if source == target and tables[0] is not None and tables[1] is not None and tables[0].weight is tables[1].weight:
        return Neighbourhoods(first, first)
    return Neighbourhoods(first, None if tables[1] is None else _neighbourhood(tables[1], target))


def _table(part: nn.Module, dictionary: Any) -> nn.Embedding | None:
    """The widest embedding of the words of a dictionary in an encoder or decoder."""
    sizes = range(num_base_words(dictionary), len(dictionary) + 1)  # slots have no embedding, or a row each
    found = [table for table in part.modules() if isinstance(table, nn.Embedding) and table.num_embeddings in sizes]
    return max(found, key=lambda table: table.embedding_dim, default=None)


def _neighbourhood(table: nn.Embedding, dictionary: Any) -> Neighbourhood:
    words = dictionary.symbols[: num_base_words(dictionary)]
    rows = [row for row in range(SPECIALS, len(words)) if not words[row].startswith(PADDING_WORD)]
    return Neighbourhood([words[row] for row in rows], table.weight[rows])
