"""REINFORCE for sentences whose beginning is given (Zhang and Lapata, EMNLP 2017; MIXER, ICLR 2016).

The first L words of a target are given and learnt by cross entropy, the others are drawn from the model and learnt by
the reward of the whole sentence; L falls from epoch to epoch.

Legend: ``B`` sentences, ``T`` words.
"""

import torch
from torch import Tensor


def given_words(epoch: int, first: int, fewer: int, every: int) -> int:
    """L of an epoch, counted from 1: ``first``, and ``fewer`` less after ``every`` epochs each; never below 0."""
    return max(0, first - fewer * ((epoch - 1) // every))


def policy_loss(lprobs: Tensor, rewards: Tensor, baseline: Tensor, given: Tensor, drawn: Tensor) -> Tensor:
    """-sum_(t <= L) log P(y_t) - sum_(t > L) (r - b_t) log P(y_t), whose gradient is that of E[r], sign changed.

    Args:
        lprobs: log P(y_t) of the words, (B, T).
        rewards: r of each sentence, (B,); no gradient goes there.
        baseline: b_t, (B, T) or (B, 1); likewise.
        given: ``True`` at words that were given, (B, T).
        drawn: ``True`` at words that were drawn, (B, T).
    """
    advantage = (rewards.unsqueeze(1) - baseline).detach().expand_as(lprobs)  # (B, T)
    weights = torch.where(drawn, advantage, given.to(advantage.dtype))
    return -(weights * lprobs.masked_fill(~(given | drawn), 0.0)).sum()


def mean_of_others(rewards: Tensor, counts: Tensor) -> Tensor:
    """A baseline that does not depend on the words that it is for: the mean reward of the others that count.

    Args:
        rewards: (B,).
        counts: ``True`` for sentences with a reward, (B,).

    Returns:
        b, (B,); 0 for a sentence that is alone.
    """
    kept = rewards * counts
    others = (counts.sum() - counts.long()).clamp(min=1)
    return (kept.sum() - kept) / others
