"""Beam search that samples candidates instead of ranking them, as the released code of C-DNPG does."""

from typing import Any

import torch
from fairseq.search import BeamSearch
from torch import Tensor

CONTINUATIONS = 50  # number of best words of each hypothesis from which the search samples


class BeamSampling(BeamSearch):
    """Sample candidates by their total score from the ``CONTINUATIONS`` best words of each hypothesis.

    The probability of a candidate is the softmax of the summed log-probabilities of the whole hypothesis. Candidates
    are drawn without replacement, from torch's random generator, which ``--seed`` sets.
    """

    def step(
        self, step: int, lprobs: Tensor, scores: Tensor | None, *_unused: Any, candidate_multiple: int = 2
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the candidates of a step, best first: sums, words and hypotheses, each of shape (B, candidates).

        Args:
            step: number of the step, from 0. At step 0, all hypotheses of a sentence are equal.
            lprobs: log-probabilities of the next word, (B, K, V).
            scores: sums of log-probabilities so far, (B, K, steps).
            candidate_multiple: number of candidates per hypothesis of the beam.
        """
        # Each hypothesis proposes its best words. At step 0 all hypotheses of a sentence are equal, so only the first
        # counts.
        beam = lprobs.size(1)
        if step == 0:
            totals = lprobs[:, :1]
        else:
            assert scores is not None
            totals = lprobs + scores[:, :, step - 1 : step]
        # this number excludes padding, which is always the worst word
        continuations = min(CONTINUATIONS, totals.size(2) - 1)
        best, words = totals.topk(continuations, dim=2)  # (B, K, continuations). At step 0, (B, 1, continuations)
        count = min(candidate_multiple * beam, best.size(1) * continuations)
        # The largest sums of logits and Gumbel noise are a sample without replacement from the softmax of the logits.
        noise = -torch.empty_like(best, dtype=torch.float).exponential_().log()
        drawn = (best.float() + noise).flatten(1).topk(count).indices  # (B, count)
        # fairseq expects candidates in the order of their sums.
        sums, order = best.flatten(1).gather(1, drawn).sort(dim=1, descending=True)
        places = drawn.gather(1, order)
        return sums, words.flatten(1).gather(1, places), places // continuations
