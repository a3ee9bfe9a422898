"""Common parts of all models that copy: the source, the decoder and the targets.

A family adds an encoder, and a decoder whose steps score the copying of each source position (``modules/copying.py``).
Ids from ``V`` on are slots. An embedding never gets a slot, because slots are read as ``<unk>``. No parameter's size
depends on the number of slots.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``K`` slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..capabilities import Capabilities
from ..data.extended_vocabulary import num_base_words
from ..modules import (
    CopyDistribution,
    LossSums,
    Memory,
    Step,
    repeat_for_hypotheses,
)
from ..modules.chunked_loss import Readings, TokenLoss, product_token_loss, read_scores
from ..modules.copying import (
    NEVER,
    Copying,
    CopyMixture,
    log_add,
    mix,
    mixture_sums,
    scatter_logsumexp,
    word_numbers,
    words_to_read,
)
from ..modules.query_embedding import Product
from .base import LossModel, StateT, StepDecoder, WordScores


@dataclass(frozen=True)
class CopyMemory(Memory):
    """A source with words that can be copied."""

    source: Tensor  # ids including slots, (B, S)
    no_copy: Tensor  # True at positions that must not be copied, (B, S)

    @cached_property
    def word_numbers(self) -> Tensor:
        """For each position, the number of its word among the distinct source words, (B, S)."""
        return word_numbers(self.source)


CopyMemoryT = TypeVar("CopyMemoryT", bound=CopyMemory)


class CopyingDecoder(StepDecoder[CopyMemoryT, StateT]):
    """A decoder over ``V`` base words and ``K`` slots. Its steps also score the copying of words.

    ``copies`` is false for a family's baseline, which does not copy. The baseline treats slots as ``<unk>``. fairseq's
    own dictionaries have no slots.
    """

    copies: bool = True

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.unk_index = dictionary.unk()
        self.num_base = num_base_words(dictionary)
        self.num_slots = len(dictionary) - self.num_base

    def mixture(self, step: Step, log_sum: Tensor, no_copy: Tensor) -> CopyMixture:
        """Return the mixture of generating and copying.

        ``log_sum`` (N, T) is the log of the summed exponentials of the word scores, and ``no_copy`` has shape (N, S).
        """
        assert step.copying is not None
        return mix(step.copying, log_sum, no_copy)

    def choices(self, step: Step, memory: CopyMemoryT) -> CopyDistribution:
        """Return the probabilities of generating each word and of copying each position, for every step."""
        scores = super().scores(step, memory).float()
        log_sum = torch.logsumexp(scores, dim=-1)
        if self.copies:
            mixture = self.mixture(step, log_sum, memory.no_copy)
        else:
            mixture = CopyMixture(log_sum, scores.new_full((*log_sum.shape, memory.source.size(1)), NEVER))
        return CopyDistribution(scores - mixture.normaliser.unsqueeze(-1), mixture.copy, memory.source)

    def scores(self, step: Step, memory: CopyMemoryT) -> Tensor:
        """Return the log-probabilities of all words and slots, (B, T, V + K)."""
        if self.copies:
            return self.choices(step, memory).log_probs(self.num_slots)
        log_probs = torch.log_softmax(super().scores(step, memory).float(), dim=-1)
        return nn.functional.pad(log_probs, (0, self.num_slots), value=NEVER)

    def finish(self, step: Step, memory: CopyMemoryT, scores: WordScores, log_sum: Tensor) -> Tensor:
        """See ``StepDecoder``. Copying changes only the scores of words in the source."""
        if not self.copies:
            return log_sum
        source, copied, mixture = self._copied(step, memory, log_sum)
        scores.put(source, log_add(scores.get(source), copied + mixture.normaliser))
        return mixture.normaliser.squeeze(1)

    def trace(self, step: Step, memory: CopyMemoryT, scores: WordScores, log_sum: Tensor) -> dict[str, Tensor]:
        """See ``StepDecoder``. The tensors have one column per source position, (N, S).

        ``copied`` is the probability that the written word was copied. ``copied_from`` is the probability of each
        position, given that the word was copied.
        """
        traced = super().trace(step, memory, scores, log_sum)
        if not self.copies:
            return traced
        source, copied, mixture = self._copied(step, memory, log_sum)
        written = log_add(scores.get(source) - mixture.normaliser, copied)
        share, place = (copied - written).exp(), (mixture.copy.squeeze(1) - copied).exp()
        return traced | {"copied": share.nan_to_num(0.0), "copied_from": place.nan_to_num(0.0)}

    def _copied(self, step: Step, memory: CopyMemoryT, log_sum: Tensor) -> tuple[Tensor, Tensor, CopyMixture]:
        """Return the source words and the log-probabilities of copying them, each (N, S), and the mixture of one step.

        A word of the source can be generated, or copied from any of its positions. The probability that it is copied is
        the sum over these positions.
        """
        source, no_copy, number = (
            repeat_for_hypotheses(tensor, len(log_sum))
            for tensor in (memory.source, memory.no_copy, memory.word_numbers)
        )
        mixture = self.mixture(step, log_sum.unsqueeze(1), no_copy)
        copied = scatter_logsumexp(mixture.copy, number, source.size(1)).squeeze(1).gather(1, number)
        return source, copied, mixture

    def step_loss(self, step: Step, memory: CopyMemoryT, target: Tensor, label_smoothing: float) -> LossSums:
        """See ``StepDecoder``. Targets (B, T) may be slots."""
        if not self.copies:
            return super().step_loss(step, memory, target, label_smoothing)
        assert step.copying is not None
        # First, padding is removed. From here on, each token is treated as a hypothesis with one step.
        rows, columns = target.ne(self.padding_idx).nonzero(as_tuple=True)  # positions of the tokens, (N,)
        features, token_targets, source = step.features[rows, columns], target[rows, columns], memory.source[rows]
        copying = [tensor[rows, columns].unsqueeze(1) for tensor in step.copying if tensor is not None]  # (N, 1, ...)
        inputs = (token_targets, source, memory.no_copy[rows], *copying)

        # The mixture needs only the scores of each token's target and source words, so ``_token_loss`` need not compute
        # the scores of all words.
        def sums_of(readings: Readings, target: Tensor, source: Tensor, no_copy: Tensor, *copying: Tensor) -> Tensor:
            token_step = replace(step, copying=Copying(copying[0], copying[1] if len(copying) > 1 else None))
            mixture = self.mixture(token_step, readings.log_sum.unsqueeze(1), no_copy)
            return mixture_sums(
                mixture, readings.picked, readings.total, target, source, self.num_base, label_smoothing
            )

        words = words_to_read(token_targets, source, self.num_base)
        loss, nll, copied = self._token_loss(features, words, sums_of, inputs, totals=label_smoothing > 0)
        # The loss is cloned, because fairseq changes it in place for an empty batch, which is not allowed for a view.
        return LossSums(loss.clone(), nll.detach(), {"copied": copied.detach()})

    def _token_loss(
        self, features: Tensor, words: Tensor, loss_of: TokenLoss, inputs: Sequence[Tensor], *, totals: bool
    ) -> Tensor:
        """Compute a token loss like ``product_token_loss`` from features (N, D), but for any output layer."""
        parts = self.output.parts(features, self.word_embeddings)
        if not isinstance(parts, Product):
            return self._whole_token_loss(features, words, loss_of, inputs, totals=totals)
        size = self.output.chunk_size
        return product_token_loss([parts], words, loss_of, inputs, chunk_size=size, totals=totals)

    def _whole_token_loss(
        self, features: Tensor, words: Tensor, loss_of: TokenLoss, inputs: Sequence[Tensor], *, totals: bool
    ) -> Tensor:
        """Return the same loss as ``_token_loss``, but with the scores of all words in memory at the same time."""
        scores = self.output.scores(features, self.word_embeddings).float()
        return loss_of(read_scores(scores, words, totals), *inputs)

    def known_targets(self, target: Tensor) -> Tensor:
        return target if self.copies else super().known_targets(target)


class CopyingModel(LossModel):
    """A model with a decoder that copies. An option can turn it into a baseline without copying."""

    capabilities = Capabilities(copies=True, normalises=True)

    def __init__(self, encoder: Any, decoder: StepDecoder[Any, Any]) -> None:
        super().__init__(encoder, decoder)
        copies = isinstance(decoder, CopyingDecoder) and decoder.copies
        self.capabilities = replace(self.capabilities, copies=copies, normalises=copies)


def no_copy_mask(src_tokens: Tensor, dictionary: Dictionary) -> Tensor:
    """Return a mask (B, S) that is ``True`` at padding and sentence boundaries, which are never copied."""
    return src_tokens.eq(dictionary.pad()) | src_tokens.eq(dictionary.bos()) | src_tokens.eq(dictionary.eos())
