"""Store the hypotheses of a beam search as links to the previous step, so that no tensor is copied to extend them.

Legend: ``N`` hypotheses before a step, ``N'`` after it, ``S`` padded source length, ``T`` output length.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Finished(NamedTuple):
    """A finished hypothesis."""

    step: int  # step at which it ended, from 0
    row: int  # row of the hypothesis before that step
    total: float  # sum of its log-probabilities
    score: float  # total, normalised by the length


class Grown(NamedTuple):
    """One step: its hypotheses, and the hypotheses of the previous step that they extend."""

    words: Tensor  # (N',)
    totals: Tensor  # sums of log-probabilities, (N',)
    parents: Tensor  # rows of the extended hypotheses, (N',)


def trace(
    finished: list[Finished], steps: list[Grown], tensors: list[dict[str, Tensor]], end: int, device: torch.device
) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
    """Build the dictionaries that fairseq returns for finished hypotheses, in one backward pass over the steps.

    Args:
        finished: finished hypotheses, in any order.
        steps: all steps in order.
        tensors: tensors of each step by name, (N, ...), including ``attention`` (N, S) if the model has attention.
        end: the end symbol.

    Returns:
        For each hypothesis, two dictionaries. The first contains ``tokens`` (T,) with ``end``, ``score``,
        ``positional_scores`` (T,), ``attention`` (S, T) or empty, and an empty ``alignment``. The second contains the
        other tensors of its steps by name, (T, ...).
    """
    if not finished:
        return []
    # sort from longest to shortest, so that the active hypotheses of every step come first
    order = sorted(range(len(finished)), key=lambda number: -finished[number].step)
    ends = [finished[number].step for number in order]
    rows = torch.tensor([finished[number].row for number in order], device=device)
    last = torch.tensor([finished[number].total for number in order], device=device)
    tokens = torch.full((len(order), ends[0] + 1), end, device=device)
    totals = last.unsqueeze(1).repeat(1, ends[0] + 1)
    traced = {
        name: torch.empty(len(order), ends[0] + 1, *tensor.shape[1:], device=device)
        for name, tensor in tensors[0].items()
    }
    active = 0  # number of hypotheses that continue after the step
    # Walk backwards from the last step. The active hypotheses follow the links to their parents, and hypotheses that
    # end at a step become active there. Therefore each token is read exactly once, from the step that wrote it.
    for step in range(ends[0], -1, -1):
        if active:
            grown, active_rows = steps[step], rows[:active]
            tokens[:active, step], totals[:active, step] = grown.words[active_rows], grown.totals[active_rows]
            rows[:active] = grown.parents[active_rows]
        while active < len(order) and ends[active] == step:
            active += 1
        for name, tensor in traced.items():
            tensor[:active, step] = tensors[step][name][rows[:active]].float()
    # Differences of the stored sums are the log-probabilities of the single tokens.
    totals[:, 1:] = totals[:, 1:] - totals[:, :-1]
    scores = torch.tensor([finished[number].score for number in order], device=device)
    # Return the results in the order of ``finished``.
    result: list[tuple[dict[str, Any], dict[str, Tensor]]] = [({}, {}) for _ in finished]
    for place, number in enumerate(order):
        length = ends[place] + 1
        of_steps = {name: tensor[place, :length] for name, tensor in traced.items()}
        attention = of_steps.pop("attention", None)
        hypothesis = {
            "tokens": tokens[place, :length],
            "score": scores[place],
            "attention": torch.empty(0) if attention is None else attention.t(),
            "alignment": torch.empty(0),
            "positional_scores": totals[place, :length],
        }
        result[number] = hypothesis, of_steps
    return result
