"""Find the nearest neighbours of words in a trained embedding.

The neighbours test WEAN's claim that its embeddings learn the meaning of words.
"""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..checkpoints.dictionaries import check_dictionary, load_dictionary, padding_words
from ..checkpoints.export import read_model
from ..checkpoints.reading import options_of
from ..data.extended_vocabulary import num_base_words
from ..errors import UserError
from .parameters import SPECIALS

if TYPE_CHECKING:
    from fairseq.data import Dictionary

EMBEDDING = "encoder.embed_tokens.weight"


class Neighbourhood:
    """The words of a dictionary, and the embedding in which their neighbours are searched.

    Args:
        words: words of the dictionary, one per row of the embedding.
        embedding: one row per word, shape (words, width).

    Attributes:
        words: the words.
        embedding: the rows of the words, scaled to length 1.
        rows: row number of each word.
    """

    def __init__(self, words: Sequence[str], embedding: Tensor) -> None:
        self.words = list(words)
        self.embedding = torch.nn.functional.normalize(embedding.detach().float(), dim=1)
        self.rows = {word: row for row, word in enumerate(self.words)}

    def nearest(self, word: str, number: int) -> list[tuple[str, float]]:
        """Return the ``number`` words that are most similar to ``word``, with their cosines in descending order.

        Raises:
            KeyError: if the word is unknown.
        """
        row = self.rows[word]
        cosines = self.embedding @ self.embedding[row]
        cosines[row] = -2.0
        values, rows = cosines.topk(min(number, len(self.words) - 1))
        return [(self.words[row], cosine) for row, cosine in zip(rows.tolist(), values.tolist(), strict=True)]

    def look_up(self, asked: Sequence[str], number: int) -> list[tuple[str, list[tuple[str, float]]]]:
        """Return each requested word with its nearest neighbours.

        Raises:
            UserError: if a word is not in the dictionary.
        """
        missing = [word for word in asked if word not in self.rows]
        if missing:
            raise UserError(f"the dictionary does not have {', '.join(map(repr, missing))}; ask for words it has.")
        return [(word, self.nearest(word, number)) for word in asked]

    def synonyms_found(self, sets: Sequence[set[str]], number: int) -> tuple[int, int]:
        """Count the words with a synonym among their ``number`` nearest neighbours, and all words with a synonym."""
        synonyms: dict[str, set[str]] = {}
        for synonym_set in sets:
            members = synonym_set & self.rows.keys()
            for word in members:
                synonyms.setdefault(word, set()).update(members - {word})
        asked = [word for word, others in synonyms.items() if others]
        hits = sum(any(near in synonyms[word] for near, _ in self.nearest(word, number)) for word in asked)
        return hits, len(asked)


def load_embedding(checkpoint: str, dictionary: str, name: str | None = EMBEDDING) -> Neighbourhood:
    """Load the words of a dictionary and their embedding in a checkpoint.

    Args:
        name: name of the matrix. None = the first matrix with one row per word, preferably from the encoder.

    Raises:
        UserError: if a file cannot be read, there is no such embedding, or the dictionary is not that of the embedding.
            If the checkpoint does not record its dictionaries, only the number of words is compared.
    """
    words = load_dictionary(dictionary)
    state = read_model(checkpoint)
    weights: dict[str, Tensor] = state["model"]
    name = _embedding_of(weights, len(words)) if name is None else name
    if name not in weights:
        matrices = [key for key in weights if "embed" in key]
        raise UserError(f"{checkpoint} has no {name!r}; it has {', '.join(matrices) or 'no embedding at all'}.")
    embedding = weights[name]
    if embedding.dim() != 2:
        raise UserError(f"{name!r} in {checkpoint} is not a matrix: name one with a row for each word.")
    if embedding.size(0) != len(words):
        raise UserError(
            f"{checkpoint} embeds {embedding.size(0) - SPECIALS} words but the dictionary has {len(words) - SPECIALS}; "
            "give the dictionary of that training."
        )
    recorded = (state.get("task_state") or {}).get("dictionaries") or {}
    if recorded:
        language, position = ("target_lang", -1) if name.startswith("decoder.") else ("source_lang", 0)
        side = options_of(state, "task").get(language) or list(recorded)[position]
        check_dictionary(recorded.get(side), words, checkpoint, dictionary)
    return neighbourhood_of(words, embedding)


def neighbourhood_of(dictionary: "Dictionary", embedding: Tensor) -> Neighbourhood:
    """Return the words of a dictionary (without padding entries) and their rows in an embedding."""
    padding = set(padding_words(dictionary))
    real = [row for row in range(SPECIALS, num_base_words(dictionary)) if dictionary[row] not in padding]
    return Neighbourhood([dictionary[row] for row in real], embedding[real])


def _embedding_of(weights: Mapping[str, Tensor], rows: int) -> str:
    for name in sorted(weights, key=lambda name: not name.startswith("encoder.")):
        if "embed" in name and weights[name].dim() == 2 and weights[name].size(0) == rows:
            return name
    raise UserError("no embedding in its checkpoint has a row for each word of the dictionary.")


def chance_baseline(words: Sequence[str], sets: Sequence[set[str]], number: int) -> tuple[int, int]:
    """Return the result of ``synonyms_found`` for a random embedding, as a baseline."""
    generator = torch.Generator().manual_seed(random.Random(1).getrandbits(32))
    return Neighbourhood(words, torch.randn(len(words), 64, generator=generator)).synonyms_found(sets, number)
