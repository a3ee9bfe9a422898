"""The word scores of DNPG's fast search: those of both levels, mixed at every step.

Legend: ``N`` hypotheses, ``M`` words.
"""

import torch
from torch import Tensor

from ...modules import LevelOutputs
from ..base import BuildScores, WordScores


class LevelScores:
    """``WordScores`` of two levels: after ``compute`` those of the phrase level are those of the mixture."""

    def __init__(self, outputs: LevelOutputs, build: BuildScores) -> None:
        self._outputs = outputs
        self._phrase: WordScores
        self._phrase, self._sentence = map(build, outputs.outputs, outputs.embeddings)
        self.fits, self.get, self.put = self._phrase.fits, self._phrase.get, self._phrase.put
        self.best, self.mix = self._phrase.best, self._phrase.mix

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Score all words from features (N, D_0 + D_1 + 2); returns the log of the summed exponentials, (N,)."""
        assert temperature == 1.0  # the scores are normalised: fairseq's loop searches with a temperature
        (phrase, sentence), weights = self._outputs.split(features)
        log_sums = torch.stack([self._phrase.compute(phrase), self._sentence.compute(sentence)], dim=1)
        weight, sentence_weight = (weights - log_sums).unbind(dim=1)
        self._phrase.mix(weight, self._sentence, sentence_weight)
        return torch.logsumexp(weights, dim=1)
