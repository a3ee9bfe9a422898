"""The word scores of DNPG's fast search: the scores of both levels, mixed at every step.

Legend: ``N`` hypotheses, ``M`` words.
"""

import torch
from torch import Tensor

from ...modules import LevelOutputs
from ..base import BuildScores, WordScores


class LevelScores:
    """``WordScores`` of two levels. ``compute`` writes the mixture into the scores of the phrase level."""

    def __init__(self, outputs: LevelOutputs, build: BuildScores) -> None:
        self._outputs = outputs
        self._phrase: WordScores
        self._phrase, self._sentence = map(build, outputs.outputs, outputs.embeddings)
        self.fits, self.get, self.put = self._phrase.fits, self._phrase.get, self._phrase.put
        self.best, self.mix = self._phrase.best, self._phrase.mix

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Score all words from features (N, D_0 + D_1 + 2). Return the log of the summed exponentials, (N,)."""
        assert temperature == 1.0  # the scores are normalised, so searches with a temperature use fairseq's loop
        (phrase, sentence), weights = self._outputs.split(features)
        log_sums = torch.stack([self._phrase.compute(phrase), self._sentence.compute(sentence)], dim=1)
        weight, sentence_weight = (weights - log_sums).unbind(dim=1)
        self._phrase.mix(weight, self._sentence, sentence_weight)
        return torch.logsumexp(weights, dim=1)
