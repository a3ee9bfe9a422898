"""The words of both levels of DNPG as one distribution (Li et al., ACL 2019, section 2.3).

P(y_t) = P(z_t = 0) P_0(y_t) + P(z_t = 1) P_1(y_t). Only the phrase level copies, so of P_0 this is the part g P_gen.

Legend: ``D_0``, ``D_1`` widths of the phrase and the sentence level, ``V`` base vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .copying import log_add
from .query_embedding import OutputLayer


class LevelOutputs:
    """P(z = 0) g P_gen(y) + P(z = 1) P_1(y), from the output layers of both levels.

    Its features are the states of both levels and two log-weights, (N, D_0 + D_1 + 2); its scores log-probabilities.

    Args:
        outputs: of the phrase level and of the sentence level.
        embeddings: (V, D_0) and (V, D_1).
    """

    def __init__(self, outputs: Sequence[OutputLayer], embeddings: Sequence[Tensor]) -> None:
        self.outputs = outputs
        self.embeddings = embeddings
        self.num_candidates = outputs[0].num_candidates

    def scores(self, features: Tensor, _embeddings: Tensor) -> Tensor:
        """Log-probabilities of the words, (..., V), float32."""
        states, weights = self.split(features)
        log_probs = [
            torch.log_softmax(output.scores(of, words).float(), dim=-1)
            for output, of, words in zip(self.outputs, states, self.embeddings, strict=True)
        ]
        return mix_levels(log_probs, weights)

    parts = scores  # where all words are scored at once

    def split(self, features: Tensor) -> tuple[list[Tensor], Tensor]:
        """The states of each level, (..., D_0) and (..., D_1), and the log-weights, (..., 2)."""
        *states, weights = torch.split(features, [*(words.size(1) for words in self.embeddings), 2], dim=-1)
        return [of.to(words.dtype) for of, words in zip(states, self.embeddings, strict=True)], weights

    @property
    def by_product(self) -> bool:
        """See ``OutputLayer``, of both levels."""
        return all(output.by_product for output in self.outputs)

    def level_parts(self, features: Tensor) -> tuple[list[Any], Tensor]:
        """The parts of each level's scores, see ``OutputLayer.parts``, and the log-weights, (..., 2)."""
        states, weights = self.split(features)
        levels = zip(self.outputs, states, self.embeddings, strict=True)
        return [output.parts(of, words) for output, of, words in levels], weights


def mix_levels(log_probs: Sequence[Tensor], weights: Tensor) -> Tensor:
    """The log of both levels' probabilities (..., M), weighed by exp(``weights``), (..., 2)."""
    return log_add(*(one + weights[..., level, None] for level, one in enumerate(log_probs)))
