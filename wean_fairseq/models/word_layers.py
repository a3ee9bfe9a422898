"""The layers over the base words: the embedding that reads them and the output layer that scores them.

Slots, the ids from ``V`` on, never reach an embedding. They are read as ``<unk>``, and no parameter's size depends on
their number.

Legend: ``V`` base vocabulary.
"""

from dataclasses import dataclass

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import nn

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
        "general", "score of a query against a word embedding, with --output-layer query_embedding"
    )


def num_base_words(dictionary: Dictionary) -> int:
    """``V``: the size of the dictionary without slots."""
    return int(getattr(dictionary, "first_slot", len(dictionary)))


def build_output_layer(
    cfg: OutputLayerConfig, query_dim: int, embed_dim: int, dictionary: Dictionary
) -> QueryEmbedding:
    """The layer that scores generated words. Raises ``ValueError`` if the score does not match the widths."""
    is_query_embedding = str(cfg.output_layer) == "query_embedding"
    return QueryEmbedding(
        str(cfg.query_score) if is_query_embedding else "linear",
        query_dim,
        embed_dim,
        num_base_words(dictionary),
        unk_index=dictionary.unk(),
    )


def word_embedding(dictionary: Dictionary, width: int) -> nn.Embedding:
    """An embedding of the base words. Slots are read as ``<unk>``."""
    return nn.Embedding(num_base_words(dictionary), width, dictionary.pad())


def required_word(dictionary: Dictionary, word: str, needed: str, advice: str) -> int:
    """The id of a word that a model requires.

    Args:
        needed: beginning of the error message: which model needs which word.
        advice: how to get it.

    Raises:
        UserError: if the dictionary does not have it.
    """
    index = int(dictionary.index(word))
    if index < dictionary.nspecial:
        raise UserError(f"{needed} {word!r} in its dictionary, which does not have it: {advice}")
    return index
