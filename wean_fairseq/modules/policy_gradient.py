"""REINFORCE for sentences whose beginning is given (Zhang and Lapata, EMNLP 2017; MIXER, ICLR 2016).

The first L words of a target are given, and trained by cross entropy. The remaining words are sampled from the model,
and trained by the reward of the whole sentence. L decreases over the epochs.

Legend: ``B`` sentences, ``T`` words.
"""

import torch
from torch import Tensor


def given_words(epoch: int, first: int, fewer: int, every: int) -> int:
    """Return L of an epoch (counted from 1): ``first``, minus ``fewer`` after every ``every`` epochs, at least 0."""
    return max(0, first - fewer * ((epoch - 1) // every))


def policy_loss(lprobs: Tensor, rewards: Tensor, baseline: Tensor, given: Tensor, drawn: Tensor) -> Tensor:
    """Return -sum_(t <= L) log P(y_t) - sum_(t > L) (r - b_t) log P(y_t), whose gradient is the gradient of -E[r].

    Args:
        lprobs: log P(y_t) of the words, (B, T).
        rewards: r of each sentence, (B,), without gradient.
        baseline: b_t, (B, T) or (B, 1), without gradient.
        given: ``True`` at given words, (B, T).
        drawn: ``True`` at sampled words, (B, T).
    """
    advantage = (rewards.unsqueeze(1) - baseline).detach().expand_as(lprobs)  # (B, T)
    weights = torch.where(drawn, advantage, given.to(advantage.dtype))
    return -(weights * lprobs.masked_fill(~(given | drawn), 0.0)).sum()


def mean_of_others(rewards: Tensor, counts: Tensor) -> Tensor:
    """Return the mean reward of the other valid sentences. This baseline does not depend on the sentence's own words.

    Args:
        rewards: (B,).
        counts: ``True`` for sentences with a reward, (B,).

    Returns:
        The baselines b, (B,). A baseline is 0 if there is no other valid sentence.
    """
    valid_rewards = rewards * counts
    others = (counts.sum() - counts.long()).clamp(min=1)
    return (valid_rewards.sum() - valid_rewards) / others
