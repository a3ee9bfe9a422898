"""One step of the recurrent decoders, whose words can be scored apart from the rest of the step.

Legend: ``N`` hypotheses, ``S`` source length, ``T`` words written so far, ``D`` width of the features.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from ..models.base import FeatureDecoder, State
from ..models.copying import UnscoredStep
from ..models.copynet import CopyNetDecoder
from ..models.pointer_generator import PointerGeneratorDecoder
from ..models.ppg import PpgDecoder
from ..models.wean_lstm import WeanLstmDecoder
from ..modules import QueryEmbedding
from ..modules.copying import NEVER, log_add, logsumexp, scatter_logsumexp
from .vocabulary_scores import VocabularyScores


class Step(NamedTuple):
    """What a decoder says about the next word.

    Attributes:
        features: what words are scored from, (N, D).
        attention: weights of the source positions, (N, S); ``None`` = none.
        rest: what ``finish`` needs.
    """

    features: Tensor
    attention: Tensor | None
    rest: Any = None


class DecoderSteps:
    """Steps of a decoder with ``extract_features``; one object serves one search.

    Attributes:
        decoder: of the model.
        output: scores words from the features.
        shares_source: takes encoder outputs with one row a sentence.
        reads_history: needs all words written so far, not the last one alone.
        normalises: gives log-probabilities, which no temperature can be applied to before they are summed.
    """

    shares_source = False
    reads_history = False
    normalises = False

    def __init__(self, decoder: Any, output: QueryEmbedding) -> None:
        self.decoder = decoder
        self.output = output

    def run(self, words: Tensor, encoder_out: dict[str, Tensor], state: State) -> Step:
        """The next step after words (N, T), or (N, 1) where no history is read."""
        features, extra = self.decoder.extract_features(words, encoder_out, state)
        return Step(features[:, -1], _last(extra["attn"][0]))

    def finish(self, step: Step, scores: VocabularyScores, log_sum: Tensor, encoder_out: dict[str, Tensor]) -> Tensor:
        """Change scores that do not depend on the features alone.

        Args:
            step: from ``run``.
            scores: of all words.
            log_sum: log of the summed exponentials of the scores, (N,).
            encoder_out: as for ``run``.

        Returns:
            What to take from the scores for log-probabilities, (N,).
        """
        return log_sum


class _SharedSourceSteps(DecoderSteps):
    shares_source = True


class _PpgSteps(DecoderSteps):
    """In the last chunk, the symbols that end a chunk and an essay change places; see ``PpgDecoder``."""

    reads_history = True

    def run(self, words: Tensor, encoder_out: dict[str, Tensor], state: State) -> Step:
        features, extra = self.decoder.extract_features(words, encoder_out, state)
        return Step(features[:, -1], _last(extra["attn"][0]), extra["last_chunk"][:, -1:])

    def finish(self, step: Step, scores: VocabularyScores, log_sum: Tensor, encoder_out: dict[str, Tensor]) -> Tensor:
        ends = torch.tensor([self.decoder.chunk_index, self.decoder.eos_idx], device=log_sum.device)
        words = ends.expand(len(log_sum), 2)
        before = scores.get(words)
        scores.put(words, torch.where(step.rest, before.flip(1), before))
        return log_sum


class _CopyingSteps(DecoderSteps):
    """Adds to the scores of the source's words what copying adds, as ``shared_softmax`` and ``gated`` do."""

    normalises = True

    def __init__(self, decoder: Any, output: QueryEmbedding) -> None:
        super().__init__(decoder, output)
        self._source: Tensor | None = None
        self._number: Tensor | None = None

    def run(self, words: Tensor, encoder_out: dict[str, Tensor], state: State) -> Step:
        unscored = self.decoder.unscored(words, encoder_out, state)
        return Step(unscored.features[:, -1], _last(unscored.extra["attn"][0]), unscored)

    def finish(self, step: Step, scores: VocabularyScores, log_sum: Tensor, encoder_out: dict[str, Tensor]) -> Tensor:
        if not self.decoder.copies:
            return log_sum
        copied, normaliser = _mix(step.rest, log_sum)
        source = encoder_out["src_tokens"]
        number = self._word_numbers(source)
        # A word's score is that of all its ways: it is generated, or copied from any place where it stands.
        of_word = scatter_logsumexp(copied.unsqueeze(1), number, source.size(1)).squeeze(1).gather(1, number)
        scores.put(source, log_add(scores.get(source), of_word))
        return normaliser

    def _word_numbers(self, source: Tensor) -> Tensor:
        """Numbers from 0 that tell the words of each row of the source (N, S) apart: (N, S)."""
        if self._number is None or self._source is not source:
            words, order = source.sort(dim=1)
            number = pad(words.diff(dim=1).ne(0).cumsum(dim=1), (1, 0))
            self._number = torch.empty_like(number).scatter_(1, order, number)
            self._source = source
        return self._number


def steps_of(model: torch.nn.Module) -> DecoderSteps | None:
    """The steps of a model's decoder; ``None`` where its words cannot be scored apart.

    Of the decoders with a ``forward`` of their own it knows these alone: a subclass may score words in another way.
    """
    decoder = getattr(model, "decoder", None)
    if type(decoder) is WeanLstmDecoder:
        return _SharedSourceSteps(decoder, decoder.query_embedding)
    if type(decoder) is CopyNetDecoder:
        return _CopyingSteps(decoder, decoder.query_embedding)
    if type(decoder) is PointerGeneratorDecoder:
        return _CopyingSteps(decoder, decoder.output)
    if type(decoder) is PpgDecoder:
        return _PpgSteps(decoder, decoder.output)
    if isinstance(decoder, FeatureDecoder) and type(decoder).forward is FeatureDecoder.forward:
        return DecoderSteps(decoder, decoder.output)
    return None


def _mix(step: UnscoredStep, log_sum: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of copying each position, comparable with those of the words, and the normaliser of both.

    Args:
        step: of N hypotheses.
        log_sum: of the words' scores, (N,).

    Returns:
        Shapes (N, S), -inf where nothing may be copied, and (N,).
    """
    copy = step.copy[:, -1].float()
    if step.gate is None:
        copy = copy.masked_fill(step.no_copy, NEVER)
        return copy, log_add(log_sum, logsumexp(copy))
    gate = step.gate[:, -1].float()
    nothing = step.no_copy.all(dim=-1)
    normaliser = log_sum - logsigmoid(gate).masked_fill(nothing, 0.0)
    copy = copy.masked_fill(step.no_copy, NEVER).masked_fill(nothing.unsqueeze(1), 0.0)
    log_weights = torch.log_softmax(copy, dim=-1) + (logsigmoid(-gate) + normaliser).unsqueeze(1)
    return log_weights.masked_fill(step.no_copy, NEVER), normaliser


def _last(attention: Tensor | None) -> Tensor | None:
    """The last step of attention (N, T, S): (N, S)."""
    return None if attention is None else attention[:, -1]
