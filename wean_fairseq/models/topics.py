"""Common parts of the recurrent models that write an essay from topic words: options, decoder and initialisation.

The source is a list of topic words followed by the end symbol (task ``topic_essay``). Source and target share one
dictionary.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` dictionary size, ``D`` width of the features.
"""

import logging
from dataclasses import dataclass
from typing import Optional

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from torch import nn

from ..fields import option
from ..modules import QueryEmbedding
from .base import LossModel, MemoryT, StateT, StepDecoder, init_uniform_
from .word_layers import start_from_vectors

logger = logging.getLogger(__name__)


@dataclass
class TopicConfig(FairseqDataclass):
    """Options that these models share. The defaults are the sizes of MTA-LSTM (Feng et al., IJCAI 2018)."""

    embed_dim: int = option(300, "width of the word embeddings, including those of topics", least=1)
    hidden_size: int = option(800, "units of every recurrent layer", least=1)
    dropout: float = option(0.5, "dropout on the input words and on the output of every layer (authors' code)")
    init_range: float = option(0.04, "initialise weights uniformly in [-x, x]; 0 = PyTorch's defaults", least=0)
    topic_vectors: Optional[str] = option(  # fairseq cannot read `str | None`
        None, "file of initial word vectors (GloVe or word2vec text) for the word embeddings", reads_file=True
    )


class TopicDecoder(StepDecoder[MemoryT, StateT]):
    """A decoder with an untied linear output layer, which reads features of width ``D``."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, feature_dim: int) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.output = QueryEmbedding(
            "linear", feature_dim, embed_tokens.embedding_dim, len(dictionary), unk_index=dictionary.unk()
        )


def initialise(model: LossModel, cfg: TopicConfig) -> None:
    """Initialise the weights uniformly and padding with 0.

    Words in the optional file are initialised with its vectors.
    """
    init_uniform_(model, cfg.init_range)
    start_from_vectors(model.decoder.embed_tokens, cfg.topic_vectors, model.decoder.dictionary)
