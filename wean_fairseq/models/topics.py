"""What the recurrent models that write an essay from topic words share: options, forward, and where the topics are.

The source is a list of topic words and the end symbol (task ``topic_essay``); source and target share one dictionary.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` dictionary size, ``D`` width of the features.
"""

import logging
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from ..data import load_word_vectors
from ..modules import LossSums, MixtureLoss, QueryEmbedding
from .base import FeatureDecoder, LossModel, State, start_uniform
from .checks import check_at_least, check_init_range
from .copying import follow_sentences

logger = logging.getLogger(__name__)


@dataclass
class TopicConfig(FairseqDataclass):
    """The options that all of them have; the defaults are the sizes of MTA-LSTM (Feng et al., IJCAI 2018)."""

    embed_dim: int = field(default=300, metadata={"help": "width of the word embeddings, topics included"})
    hidden_size: int = field(default=800, metadata={"help": "units of every recurrent layer"})
    dropout: float = field(
        default=0.5, metadata={"help": "dropout on the words read and on the output of every layer (authors' code)"}
    )
    init_range: float = field(
        default=0.04, metadata={"help": "weights start uniform in [-x, x]; 0 = PyTorch's defaults"}
    )
    topic_vectors: Optional[str] = field(  # fairseq cannot read `str | None`
        default=None,
        metadata={"help": "file of word vectors (GloVe or word2vec text) that the word embeddings start from"},
    )


class TopicEncoder(FairseqEncoder):
    """An encoder whose outputs are (B, ...) each, with their ``sentence_numbers`` under ``sentence``."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.eos_idx = dictionary.eos()

    def reorder_encoder_out(self, encoder_out: dict[str, Tensor], new_order: Tensor) -> dict[str, Tensor]:
        """Pick sentences ``new_order`` (B',) of the batch, for beam search."""
        return follow_sentences(encoder_out, new_order)

    def max_positions(self) -> int:
        """No longest input; the task sets the limits."""
        return int(1e5)


class TopicDecoder(FeatureDecoder):
    """A decoder with an untied linear output layer; a family implements ``extract_features``.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        feature_dim: ``D``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, feature_dim: int) -> None:
        output = QueryEmbedding(
            "linear", feature_dim, embed_tokens.embedding_dim, len(dictionary), unk_index=dictionary.unk()
        )
        super().__init__(dictionary, embed_tokens, output)


class SteppingDecoder(TopicDecoder):
    """A ``TopicDecoder`` that keeps a memory of the source and the state of the last step in generation."""

    def resume(self, incremental_state: State | None) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The memory and the state that were kept; ``None`` at the first step, and in training."""
        if incremental_state is None:
            return None
        memory = self.get_incremental_state(incremental_state, "memory")
        state = self.get_incremental_state(incremental_state, "state")
        return None if memory is None or state is None else (memory, state)

    def keep(self, incremental_state: State | None, memory: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Keep the memory, with its ``sentence_numbers`` under ``sentence``, and the state: (B, ...) each."""
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "memory", memory)
            self.set_incremental_state(incremental_state, "state", state)

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let everything follow the hypotheses ``new_order`` (B',) that beam search kept."""
        kept = self.resume(incremental_state)
        if kept is not None:
            memory, state = kept
            moved = {name: value.index_select(0, new_order) for name, value in state.items()}
            self.keep(incremental_state, follow_sentences(memory, new_order), moved)


class TopicModel(LossModel):
    """A ``TopicEncoder`` and a ``TopicDecoder``."""

    encoder: TopicEncoder
    decoder: TopicDecoder


def with_auxiliary(sums: LossSums, name: str, auxiliary: Tensor, weight: float) -> MixtureLoss:
    """Add ``weight`` times an auxiliary loss, and log it under ``name``."""
    return MixtureLoss(sums.loss + weight * auxiliary, sums.nll_loss, {name: auxiliary.detach()})


def check_topic_config(cfg: TopicConfig) -> None:
    """Refuse options that no model can have.

    Raises:
        UserError: naming the option.
    """
    check_at_least(1, cfg, "embed_dim", "hidden_size")
    check_init_range(cfg)


def initialise(model: TopicModel, cfg: TopicConfig) -> None:
    """Start the weights as ``cfg`` says: uniform, the padding word 0, known words from their vectors."""
    start_uniform(model, cfg.init_range)
    start_from_vectors(model.decoder.embed_tokens, cfg.topic_vectors, model.decoder.dictionary)


@torch.no_grad()
def start_from_vectors(words: nn.Embedding, path: str | None, dictionary: Dictionary) -> None:
    """Let the words of ``dictionary`` that the file of vectors has start from there; nothing without a file.

    Raises:
        UserError: if the vectors cannot be used.
    """
    if path:
        vectors, found = load_word_vectors(path, dictionary, words.embedding_dim)
        words.weight[found] = vectors[found].to(words.weight)
