"""What every model that copies is made of: its options, its forward and its decoder's forward.

A family adds an encoder and a decoder that says, at each step, how probable it is to generate each word and to copy
from each source position (``modules/copying.py``). Slots, the ids from ``V`` on, never reach an embedding: they are
read as ``<unk>``, and no parameter's size depends on their number.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``K`` slots.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..modules import CopyDistribution, MixtureLoss, QueryEmbedding, base_ids, nothing_to_copy
from .base import LossModel, State

OUTPUT_LAYERS = ("linear", "query_embedding")


@dataclass
class CopyingConfig(FairseqDataclass):
    """The options that all copying families have."""

    output_layer: ChoiceEnum(OUTPUT_LAYERS) = field(  # type: ignore[valid-type]
        default="linear",
        metadata={
            "help": "how generated words are scored: an untied linear map, or by querying the word embeddings (WEAN)"
        },
    )
    query_score: ChoiceEnum(("dot", "general", "concat")) = field(  # type: ignore[valid-type]
        default="general",
        metadata={"help": "score of a query against a word embedding, with --output-layer query_embedding"},
    )


class UnscoredStep(NamedTuple):
    """The choices at every step before the words of the vocabulary are scored.

    Attributes:
        features: what words are scored from, (B, T, width).
        copy: scores of the source positions, (B, T, S); see ``shared_softmax``, and with a gate ``gated``.
        gate: logit of generating, (B, T); ``None`` where one softmax goes over words and positions.
        no_copy: where nothing may be copied, (B, S).
        extra: ``{"attn": [(B, T, S)], ...}``.
    """

    features: Tensor
    copy: Tensor
    gate: Tensor | None
    no_copy: Tensor
    extra: dict[str, Any]


class CopyingDecoder(FairseqIncrementalDecoder):
    """A decoder over ``V`` base words and ``K`` slots; a family implements ``distribution_and_extra``.

    ``copies`` is false where a family's baseline does not copy: then a slot counts as ``<unk>``.

    Args:
        dictionary: an ``ExtendedDictionary``, or any of fairseq's, which has no slots.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.unk_index = dictionary.unk()
        self.num_base = num_base_words(dictionary)
        self.num_slots = len(dictionary) - self.num_base

    copies: bool = True

    def distribution_and_extra(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[CopyDistribution, dict[str, Any]]:
        """The choices at every step, or with ``incremental_state`` at the last one, and ``{"attn": [(B, T, S)]}``."""
        raise NotImplementedError

    def distribution(self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor]) -> CopyDistribution:
        """The choices at every step of ``prev_output_tokens`` (B, T)."""
        return self.distribution_and_extra(prev_output_tokens, encoder_out)[0]

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Log-probabilities of the next word.

        Args:
            prev_output_tokens: shape (B, T), slots included; with ``incremental_state`` only the last step is computed.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            Log-probabilities (B, T, V + K), and ``{"attn": [weights (B, T, S)], ...}``.
        """
        distribution, extra = self.distribution_and_extra(prev_output_tokens, encoder_out, incremental_state)
        return distribution.log_probs(self.num_slots), extra

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T); a family with auxiliary losses adds them here."""
        distribution, _ = self.distribution_and_extra(prev_output_tokens, encoder_out)
        return distribution.loss(self.known_targets(target), self.padding_idx, label_smoothing)

    def known_targets(self, target: Tensor) -> Tensor:
        """Targets of any shape as this decoder can write them."""
        return target if self.copies else base_ids(target, self.num_base, self.unk_index)

    def max_positions(self) -> int:
        """A recurrent decoder has no longest output; the task sets the limits."""
        return int(1e5)


class CopyingModel(LossModel):
    """An encoder and a ``CopyingDecoder``; ``src_tokens``, ``prev_output_tokens`` and ``target`` may hold slots."""

    copies_words = True  # the task gives the dictionary slots
    decoder: CopyingDecoder

    def get_targets(self, sample: dict[str, Any], net_output: Any) -> Tensor:
        """Targets (B, T) for fairseq's own criterions."""
        return self.decoder.known_targets(sample["target"])


def num_base_words(dictionary: Dictionary) -> int:
    """``V``: the size of the dictionary without slots."""
    return int(getattr(dictionary, "first_slot", len(dictionary)))


def no_copy_mask(src_tokens: Tensor, dictionary: Dictionary) -> Tensor:
    """``True`` at padding and sentence boundaries, which are never copied: (B, S) -> (B, S)."""
    return nothing_to_copy(src_tokens, (dictionary.pad(), dictionary.bos(), dictionary.eos()))


def build_output_layer(cfg: CopyingConfig, query_dim: int, embed_dim: int, dictionary: Dictionary) -> QueryEmbedding:
    """The layer that scores generated words, as ``cfg`` says.

    Raises:
        ValueError: if the score does not go with the widths.
    """
    queries = str(cfg.output_layer) == "query_embedding"
    return QueryEmbedding(
        str(cfg.query_score) if queries else "linear",
        query_dim,
        embed_dim,
        num_base_words(dictionary),
        unk_index=dictionary.unk(),
    )


def sentence_numbers(src_tokens: Tensor) -> Tensor:
    """Which sentence of the batch each row of source tensors belongs to, for ``follow_sentences``: (B,)."""
    return torch.arange(src_tokens.size(0), device=src_tokens.device)


def follow_sentences(tensors: dict[str, Tensor], new_order: Tensor) -> dict[str, Tensor]:
    """Pick rows ``new_order`` (B',) of tensors that depend on the source alone, without copying where nothing moves.

    Beam search reorders after every step, mostly hypotheses of the same sentence, for which these rows are equal.

    Args:
        tensors: (B, ...) each, and their ``sentence_numbers`` under ``sentence``; empty ones are left out of it.
        new_order: rows of the result.
    """
    numbers = tensors["sentence"]
    if torch.equal(numbers.index_select(0, new_order), numbers):
        return tensors
    return {name: value.index_select(0, new_order) if value.numel() else value for name, value in tensors.items()}


def embedding(dictionary: Dictionary, width: int) -> nn.Embedding:
    """An embedding of the base words; slots are read as ``<unk>``."""
    return nn.Embedding(num_base_words(dictionary), width, dictionary.pad())
