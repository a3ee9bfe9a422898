"""Softmax cross entropy for given scores, and its gradient, which is written over the scores.

Label smoothing follows fairseq's ``label_smoothed_cross_entropy``: with V candidates and eps_i = eps / (V - 1), loss =
(1 - eps - eps_i) * nll - eps_i * sum_j log p_j, whose gradient with respect to score j is p_j - (1 - eps - eps_i) * [j
is the target] - eps_i.

Legend: ``n`` tokens, ``V`` candidates.
"""

import torch
from torch import Tensor

# Below this probability, -log(p) is computed from the scores, because p loses digits near the smallest float32 number.
TINY_PROBABILITY = 1e-30


def loss_of_scores(scores: Tensor, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the summed negative log-likelihood of scores (n, V) and targets (n,)."""
    lse = torch.logsumexp(scores, dim=1)
    nll = lse - scores.gather(1, target.unsqueeze(1)).squeeze(1)
    return smooth(nll, lse, scores.sum(dim=1) if eps else None, scores.size(1), eps), nll.sum()


def smooth(nll: Tensor, lse: Tensor, score_sum: Tensor | None, num_candidates: int, eps: float) -> Tensor:
    """Return the smoothed loss, summed over the tokens, where -sum_j log p_j = V * lse - sum_j score_j."""
    if score_sum is None:
        return nll.sum()
    eps_i = eps / (num_candidates - 1)
    return (1.0 - eps - eps_i) * nll.sum() + eps_i * (num_candidates * lse - score_sum).sum()


def softmax_gradient_(scores: Tensor, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Overwrite float32 scores (n, V) with the gradient of the loss. Return the same sums as ``loss_of_scores``."""
    num_candidates = scores.size(1)
    column = target.unsqueeze(1)
    target_score = scores.gather(1, column).squeeze(1)
    score_sum = scores.sum(dim=1) if eps else None
    # A GPU returns the position of the maximum at no extra cost. On a CPU, finding this position takes longer than
    # computing a second maximum below.
    row_max, place = scores.max(dim=1, keepdim=True) if scores.is_cuda else (scores.amax(dim=1, keepdim=True), None)
    torch.softmax(scores, dim=1, out=scores)
    target_prob = scores.gather(1, column).squeeze(1)
    nll, lse = -target_prob.log(), target_score
    tiny = target_prob <= TINY_PROBABILITY
    # The log-sum-exp is needed only for label smoothing and for tiny probabilities. On a GPU, it is always computed,
    # because a check for tiny probabilities would make the CPU wait for the GPU.
    if eps or place is not None or tiny.any():
        # The largest probability is exp(max - lse). It is never tiny, so it yields the log-sum-exp without a second
        # exponential.
        largest = scores.amax(dim=1, keepdim=True) if place is None else scores.gather(1, place)
        lse = (row_max - largest.log()).squeeze(1)
        nll = torch.where(tiny, lse - target_score, nll)
    eps_i = eps / (num_candidates - 1) if eps else 0.0
    scores.scatter_(1, column, (target_prob - (1.0 - eps - eps_i)).unsqueeze(1))
    if eps:
        scores.sub_(eps_i)
    return smooth(nll, lse, score_sum, num_candidates, eps), nll.sum()
