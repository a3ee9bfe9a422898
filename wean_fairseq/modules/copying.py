"""Combine generating and copying in one distribution, for CopyNet, Pointer-generator and Transformer+Copy.

At each step, a copy model computes the log-probabilities of generating each word of the base vocabulary and of copying
from each source position. Together, the probabilities of a step sum to 1. A word's probability is the sum over all ways
to write it (Gu et al., ACL 2016, eqs. 4 to 8; See et al., ACL 2017, eq. 9). Ids from ``V`` on are slots. The k-th
distinct word of a source sentence that is not in the base vocabulary has id ``V + k`` in that sentence. All values are
float32 logarithms, so that a word that is very unlikely to be copied still gets a gradient.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``K`` slots, ``A`` heads, ``N``
hypotheses.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

NEVER = float("-inf")


class CopyDistribution(NamedTuple):
    """Log-probabilities of the choices at each step, in float32.

    The probabilities of generating and copying sum to 1.
    """

    generate: Tensor  # log-probabilities of generating each base word, (B, T, V)
    copy: Tensor  # log-probabilities of copying each position, (B, T, S). -inf where copying is not allowed
    source: Tensor  # ids of the source words, including slots, (B, S)

    def log_probs(self, num_slots: int) -> Tensor:
        """Return the log-probabilities of all words, (B, T, V + K).

        Slots that do not occur in the sentence get -inf.
        """
        base = self.generate.size(-1)
        copied = scatter_logsumexp(self.copy, self.source, base + num_slots)
        return torch.cat([log_add(self.generate, copied[..., :base]), copied[..., base:]], dim=-1)


class Copying(NamedTuple):
    """Scores of copying at each step."""

    scores: Tensor  # scores of source positions, (N, T, S). With a gate, they are log-weights up to a constant per step
    gate: Tensor | None  # logit of generating, (N, T). ``None`` if one softmax covers words and positions


class CopyMixture(NamedTuple):
    """The common normaliser of words and copies, and the probabilities of copying."""

    normaliser: Tensor  # subtracted from the scores of words to get the log-probabilities of generating them, (N, T)
    copy: Tensor  # log-probabilities of copying each position, float32, (N, T, S). -inf where copying is not allowed


def mix(copying: Copying, log_sum: Tensor, no_copy: Tensor) -> CopyMixture:
    """Combine generating and copying without reading the scores of individual words.

    With a gate g, p = g P_generate + (1 - g) P_copy (See et al., eq. 9; DNPG, eq. 8). Without a gate, one softmax
    covers V words and S positions (CopyNet, eqs. 4 to 8, with a sum over positions).

    Args:
        copying: the ``Copying`` of N hypotheses.
        log_sum: log of the summed exponentials of the scores of all words, float32, (N, T).
        no_copy: ``True`` at positions that must not be copied (padding, sentence boundaries), (N, S). If all positions
            are masked, words are only generated.
    """
    hidden = no_copy.unsqueeze(1)  # (N, 1, S)
    copy = copying.scores.float().masked_fill(hidden, NEVER)
    # Without a gate, words and positions share one normaliser, log(exp(words) + exp(copies)).
    if copying.gate is None:
        normaliser = log_add(log_sum, logsumexp(copy))
        return CopyMixture(normaliser, copy - normaliser.unsqueeze(-1))
    # With a gate, each of the two softmaxes is normalised separately and weighted by the gate. If no position can be
    # copied, the factor of the gate is 1. The masked softmax, which would be NaN, is then computed over zeros and
    # discarded.
    gate = copying.gate.float()
    only_generates = no_copy.all(dim=-1, keepdim=True)  # (N, 1)
    normaliser = log_sum - nn.functional.logsigmoid(gate).masked_fill(only_generates, 0.0)
    weights = torch.log_softmax(copy.masked_fill(only_generates.unsqueeze(-1), 0.0), dim=-1)
    copy = weights + nn.functional.logsigmoid(-gate).unsqueeze(-1)
    return CopyMixture(normaliser, copy.masked_fill(hidden, NEVER))


def words_to_read(target: Tensor, source: Tensor, num_base: int) -> Tensor:
    """Return the word ids that ``mixture_sums`` needs: targets (N,), sources (N, S) -> (N, 1 + S). Slots become 0."""
    return base_ids(torch.cat([target.unsqueeze(1), source], dim=1), num_base, 0)


def mixture_sums(
    mixture: CopyMixture,
    scores: Tensor,
    total: Tensor | None,
    target: Tensor,
    source: Tensor,
    num_base: int,
    smoothing: float,
) -> Tensor:
    """Return the summed losses of tokens and the values to log. Each token is one hypothesis with one step.

    A word outside the base vocabulary can only be copied (CopyNet, eq. 7). A base word of the source can be generated
    or copied.

    Args:
        mixture: mixture of one step, (N, 1, ...).
        scores: scores of ``words_to_read``, (N, 1 + S).
        total: the sum of the scores of all base words, (N,). It is read only with ``smoothing``.
        target: targets including slots, (N,).
        source: source words including slots, (N, S).
        num_base: ``V``.
        smoothing: probability mass that is spread evenly over the other words of the base vocabulary. Slots get no
            mass, because they represent different words in each sentence.

    Returns:
        Sums over the tokens: the loss, the negative log-likelihood, and the expected copied words, (3,).
    """
    # A target's probability is the probability of generating it plus the probabilities of copying it from each of its
    # positions.
    copy = mixture.copy.squeeze(1)  # (N, S)
    generate = scores - mixture.normaliser  # (N, 1 + S)
    copied = logsumexp(copy.masked_fill(source.ne(target.unsqueeze(1)), NEVER))
    log_probs = log_add(generate[:, 0].masked_fill(target >= num_base, NEVER), copied)
    nll = -log_probs.sum()
    loss = nll
    if smoothing:
        assert total is not None
        # The smoothed loss needs the sum of log P over all base words. Most words can only be generated, so their sum
        # follows from ``total`` and the normaliser. Words of the source can also be copied. ``more`` adds the
        # difference that this makes.
        each = smoothing / (num_base - 1)
        # Each distinct source word is counted once, for all of its positions.
        same = source.unsqueeze(1).eq(source.unsqueeze(2))  # (N, S, S)
        once = ~same.tril(-1).any(dim=2) & (source < num_base)
        ways = logsumexp(copy.unsqueeze(1).masked_fill(~same, NEVER))  # (N, S)
        more = (log_add(generate[:, 1:], ways) - generate[:, 1:]).masked_fill(~once, 0.0)
        everything = total.sum() - num_base * mixture.normaliser.sum() + more.sum()
        loss = (1 - smoothing - each) * nll - each * everything
    return torch.stack([loss, nll, (copied - log_probs).exp().sum()])


def word_numbers(source: Tensor) -> Tensor:
    """Return numbers (B, S), counted from 0, that identify the distinct words in each row of the source (B, S)."""
    words, order = source.sort(dim=1)
    number = nn.functional.pad(words.diff(dim=1).ne(0).cumsum(dim=1), (1, 0))
    return torch.empty_like(number).scatter_(1, order, number)


class CopyGate(nn.Linear):
    """rho_t = sigmoid(w [o_t; c_t; e(y_{t-1})] + b), the probability of copying (DNPG, Li et al. 2019, eq. 8).

    The states o_t, the contexts c_t and the embedding of the previous word have the same width.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(3 * dim, 1)

    def generating(self, states: Tensor, context: Tensor, previous_words: Tensor) -> Tensor:
        """Return the gate's logit (B, T) for generating instead of copying. All inputs are (B, T, dim)."""
        copying: Tensor = self(torch.cat([states, context, previous_words], dim=-1))  # (B, T, 1)
        return -copying.squeeze(-1)  # because 1 - sigmoid(x) = sigmoid(-x)


def mean_over_heads(log_weights: Tensor) -> Tensor:
    """Return the log of the attention averaged over heads: log-weights (B, A, T, S) -> (B, T, S)."""
    heads = log_weights.size(1)
    return logsumexp(log_weights.float().movedim(1, -1)) - math.log(heads)


def base_ids(tokens: Tensor, num_base: int, unk_index: int) -> Tensor:
    """Replace slots by ``unk_index`` in ids of any shape, for the embedding lookup."""
    return tokens.masked_fill(tokens >= num_base, unk_index)


def log_add(first: Tensor, second: Tensor) -> Tensor:
    """Compute ``torch.logaddexp`` with gradient 0 instead of NaN where both are -inf."""
    if not torch.is_grad_enabled():
        return torch.logaddexp(first, second)
    return logsumexp(torch.stack([first, second], dim=-1))


def logsumexp(values: Tensor) -> Tensor:
    """Compute ``torch.logsumexp`` over the last dimension with gradient 0 instead of NaN where all are -inf."""
    top = values.detach().amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == NEVER, 0.0)
    return _log((values - top).exp().sum(dim=-1)) + top.squeeze(-1)


def scatter_logsumexp(values: Tensor, index: Tensor, width: int) -> Tensor:
    """Return the log of the summed exponentials of all positions with the same index.

    Args:
        values: values of the positions, (B, T, S).
        index: index of each position, in [0, ``width``), (B, S).

    Returns:
        Shape (B, T, ``width``). -inf where no position has the index.
    """
    # log sum exp(x) = m + log sum exp(x - m), where m is the maximum of each index instead of the whole row. With a
    # common maximum, the sum of an unlikely word would underflow to 0 and its gradient would vanish. An index without a
    # position has m = -inf. It is replaced by 0, because -inf - -inf is NaN.
    where = index.unsqueeze(1).expand_as(values)
    empty = values.new_full((*values.shape[:2], width), NEVER)
    # the maximum of each index, so that no sum underflows
    top = empty.scatter_reduce(-1, where, values.detach(), "amax")
    top = top.masked_fill(top == NEVER, 0.0)
    sums = torch.zeros_like(empty).scatter_add(-1, where, (values - top.gather(-1, where)).exp())
    return _log(sums) + top


def _log(values: Tensor) -> Tensor:
    """Return the log of values that are at least 0. The log of 0 is -inf with gradient 0."""
    tiny = torch.finfo(values.dtype).tiny
    return values.clamp_min(tiny).log().masked_fill(values == 0, NEVER)
