"""The words of both levels of DNPG as one distribution (Li et al., ACL 2019, section 2.3).

P(y_t) = P(z_t = 0) P_0(y_t) + P(z_t = 1) P_1(y_t). Only the phrase level copies, so of P_0 this is the part g P_gen.

Legend: ``D_0``, ``D_1`` widths of the phrase and the sentence level, ``V`` base vocabulary.
"""

from collections.abc import Sequence

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
        widths = [embeddings.size(1) for embeddings in self.embeddings]
        *states, weights = torch.split(features, [*widths, 2], dim=-1)
        log_probs = [
            torch.log_softmax(output.scores(of.to(words.dtype), words).float(), dim=-1) + weights[..., level, None]
            for level, (output, of, words) in enumerate(zip(self.outputs, states, self.embeddings, strict=True))
        ]
        return log_add(*log_probs)

    parts = scores  # a search takes them as they are
