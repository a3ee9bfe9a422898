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
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from ..data import load_word_vectors
from ..errors import UserError
from ..modules import LossSums, MixtureLoss, QueryEmbedding
from .copying import State, follow_sentences

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


class TopicDecoder(FairseqIncrementalDecoder):
    """A decoder with an untied linear output layer; a family implements ``extract_features``.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        feature_dim: ``D``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, feature_dim: int) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.output = QueryEmbedding(
            "linear", feature_dim, embed_tokens.embedding_dim, len(dictionary), unk_index=dictionary.unk()
        )

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What words are scored from, (B, T, D), and ``{"attn": [weights (B, T, S) or None], ...}``."""
        raise NotImplementedError

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Scores of the next word at every step.

        Args:
            prev_output_tokens: shape (B, T); with ``incremental_state`` only the last step is computed.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            Logits (B, T, V), and what ``extract_features`` says beside the features.
        """
        features, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output.scores(features, self.embed_tokens.weight), extra

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Loss sums against ``target`` (B, T), without building the logits; a family adds its own losses here."""
        features, _ = self.extract_features(prev_output_tokens, encoder_out)
        return self.word_loss(features, target, label_smoothing)

    def word_loss(self, features: Tensor, target: Tensor, label_smoothing: float) -> LossSums:
        """Cross entropy of features (B, T, D) against ``target`` (B, T)."""
        return self.output.loss(features, self.embed_tokens.weight, target, self.padding_idx, label_smoothing)

    def max_positions(self) -> int:
        """No longest output; the task sets the limits."""
        return int(1e5)


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


class TopicModel(FairseqEncoderDecoderModel):
    """A ``TopicEncoder`` and a ``TopicDecoder``."""

    computes_loss = True  # see criterions/model_loss.py
    encoder: TopicEncoder
    decoder: TopicDecoder

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **task_inputs: Any,
    ) -> tuple[Tensor, dict[str, Any]] | LossSums | MixtureLoss:
        """Score every next word, or with ``target`` compute the loss without building the scores.

        Args:
            src_tokens: topic words, shape (B, S).
            src_lengths: shape (B,).
            prev_output_tokens: shape (B, T).
            target: shape (B, T).
            label_smoothing: used with ``target``.
            task_inputs: what else the task gives; the encoder takes what it needs of it.

        Returns:
            Logits (B, T, V) and ``{"attn": [weights (B, T, S) or None]}``; with ``target`` the summed losses.
        """
        encoder_out = self.encoder(src_tokens, src_lengths, **task_inputs)
        if target is None:
            return self.decoder(prev_output_tokens, encoder_out)
        return self.decoder.loss(prev_output_tokens, encoder_out, target, label_smoothing)


def with_auxiliary(sums: LossSums, name: str, auxiliary: Tensor, weight: float) -> MixtureLoss:
    """Add ``weight`` times an auxiliary loss, and log it under ``name``."""
    return MixtureLoss(sums.loss + weight * auxiliary, sums.nll_loss, {name: auxiliary.detach()})


def check_topic_config(cfg: TopicConfig) -> None:
    """Refuse options that no model can have.

    Raises:
        UserError: naming the option.
    """
    for name in ("embed_dim", "hidden_size"):
        if getattr(cfg, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, but is {getattr(cfg, name)}.")
    if cfg.init_range < 0:
        raise UserError(f"--init-range must be 0 (PyTorch's defaults) or more, but is {cfg.init_range}.")


def initialise(model: TopicModel, cfg: TopicConfig) -> None:
    """Start the weights as ``cfg`` says: uniform, the padding word 0, known words from their vectors."""
    if cfg.init_range:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -cfg.init_range, cfg.init_range)
    embed_tokens = model.decoder.embed_tokens
    with torch.no_grad():
        embed_tokens.weight[model.decoder.padding_idx].zero_()
        if cfg.topic_vectors:
            vectors, found = load_word_vectors(cfg.topic_vectors, model.decoder.dictionary, cfg.embed_dim)
            embed_tokens.weight[found] = vectors[found].to(embed_tokens.weight)
