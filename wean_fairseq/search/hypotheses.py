"""The hypotheses of a beam search as links to the step before: nothing is copied while they grow.

Legend: ``N`` hypotheses before a step, ``N'`` after it, ``S`` padded source length, ``T`` output length.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Finished(NamedTuple):
    """A hypothesis that ended."""

    step: int  # at which it ended, from 0
    row: int  # before that step
    total: float  # sum of log-probabilities
    score: float  # the same, normalised by the length


class Grown(NamedTuple):
    """A step: the hypotheses after it, and those that they continue."""

    words: Tensor  # (N',)
    totals: Tensor  # sums of log-probabilities, (N',)
    parents: Tensor  # rows before the step, (N',)


def trace(
    finished: list[Finished], steps: list[Grown], attentions: list[Tensor], end: int, device: torch.device
) -> list[dict[str, Any]]:
    """Finished hypotheses as fairseq gives them, in one sweep back over the steps.

    Args:
        finished: in any order.
        steps: from the first.
        attentions: of each step, (N, S); none where the model has none.
        end: the word that ended them.

    Returns:
        ``tokens`` (T,) with ``end``, ``score``, ``positional_scores`` (T,), ``attention`` (S, T) or empty,
        ``alignment`` empty, for each.
    """
    if not finished:
        return []
    order = sorted(range(len(finished)), key=lambda number: -finished[number].step)  # so that a step has the first
    ends = [finished[number].step for number in order]
    rows = torch.tensor([finished[number].row for number in order], device=device)
    last = torch.tensor([finished[number].total for number in order], device=device)
    tokens = torch.full((len(order), ends[0] + 1), end, device=device)
    totals = last.unsqueeze(1).repeat(1, ends[0] + 1)
    attention = None
    if attentions:
        attention = torch.empty(len(order), ends[0] + 1, attentions[0].size(1), device=device)
    longer = 0  # hypotheses that go on after the step
    for step in range(ends[0], -1, -1):
        if longer:
            grown, going = steps[step], rows[:longer]
            tokens[:longer, step], totals[:longer, step] = grown.words[going], grown.totals[going]
            rows[:longer] = grown.parents[going]
        while longer < len(order) and ends[longer] == step:
            longer += 1
        if attention is not None:
            attention[:longer, step] = attentions[step][rows[:longer]].float()
    totals[:, 1:] = totals[:, 1:] - totals[:, :-1]
    scores = torch.tensor([finished[number].score for number in order], device=device)
    result: list[dict[str, Any]] = [{} for _ in finished]
    for place, number in enumerate(order):
        length = ends[place] + 1
        result[number] = {
            "tokens": tokens[place, :length],
            "score": scores[place],
            "attention": torch.empty(0) if attention is None else attention[place, :length].t(),
            "alignment": torch.empty(0),
            "positional_scores": totals[place, :length],
        }
    return result
