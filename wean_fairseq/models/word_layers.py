"""The layers over the base words: an embedding that reads words, and an output layer that scores words.

Slots are the ids from ``V`` on. They never reach an embedding and are read as ``<unk>``. No parameter's size depends on
the number of slots.

Legend: ``V`` base vocabulary.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import nn

from ..data.extended_vocabulary import num_base_words
from ..data.word_vectors import load_word_vectors
from ..errors import UserError
from ..fields import option
from ..modules import QueryEmbedding

OUTPUT_LAYERS = ("linear", "query_embedding")


@dataclass
class OutputLayerConfig(FairseqDataclass):
    """Options of the layer that scores generated words."""

    output_layer: ChoiceEnum(OUTPUT_LAYERS) = option(  # type: ignore[valid-type]
        "linear",
        "score of generated words: linear = an untied linear map; query_embedding = query the word embeddings (WEAN)",
    )
    query_score: ChoiceEnum(("dot", "general", "concat")) = option(  # type: ignore[valid-type]
        "general",
        "score of a query against a word embedding, with --output-layer query_embedding",
        needs={"output_layer": ("query_embedding",)},
    )


@dataclass
class WordVectorsConfig(FairseqDataclass):
    """The option of families whose word embeddings can start from vectors that were trained elsewhere."""

    embedding_file: Optional[str] = option(  # fairseq cannot read `str | None`
        None,
        "text file (word2vec, GloVe or fastText, plain or .gz) with initial word embeddings of width --embed-dim",
        reads_file=True,
    )


def build_output_layer(
    cfg: OutputLayerConfig, query_dim: int, embed_dim: int, dictionary: Dictionary
) -> QueryEmbedding:
    """Return the layer that scores generated words.

    Raise ``ValueError`` if the score function does not match the widths.
    """
    is_query_embedding = str(cfg.output_layer) == "query_embedding"
    return QueryEmbedding(
        str(cfg.query_score) if is_query_embedding else "linear",
        query_dim,
        embed_dim,
        num_base_words(dictionary),
        unk_index=dictionary.unk(),
    )


def word_embedding(dictionary: Dictionary, width: int) -> nn.Embedding:
    """Return an embedding of the base words. Slots are read as ``<unk>``."""
    return nn.Embedding(num_base_words(dictionary), width, dictionary.pad())


@torch.no_grad()
def start_from_vectors(words: nn.Embedding, path: str | None, dictionary: Dictionary) -> None:
    """Copy the vectors of a file, if one is given, into the embeddings of its words. Other words keep their embeddings.

    Raises:
        UserError: if the file cannot be used (see ``load_word_vectors``).
    """
    if path:
        vectors, has_vector = load_word_vectors(path, dictionary, words.embedding_dim)
        has_vector = has_vector[: words.num_embeddings]  # slots have no embedding
        words.weight[has_vector] = vectors[: words.num_embeddings][has_vector].to(words.weight)


def required_word(dictionary: Dictionary, word: str, needed: str, advice: str) -> int:
    """Return the id of a word that a model requires.

    Args:
        needed: start of the error message, which says which model needs which word.
        advice: end of the error message, which says how to get the word.

    Raises:
        UserError: if the dictionary does not contain the word.
    """
    index = int(dictionary.index(word))
    if index < dictionary.nspecial:
        raise UserError(f"{needed} {word!r} in its dictionary, which does not have it: {advice}")
    return index
