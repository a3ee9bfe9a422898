"""One step of a decoder: the ``Memory`` that it reads, the ``State`` that it leaves, and the ``Step`` itself.

The memory is the source as steps see it. It has one row a sentence, however many hypotheses of the sentence there are:
these lie side by side and share what they read, so that nothing of the source is repeated for a beam. The state has a
row for each hypothesis.

Legend: ``B`` sentences, ``N`` hypotheses: K of each sentence, ``T`` steps, ``S`` source length, ``D`` width of the
features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from .copying import Copying
from .masking import masked_softmax


@dataclass(frozen=True)
class Rows:
    """Tensors with a row for each sentence or hypothesis; a field may be ``None``."""

    row_axis: ClassVar[int] = 0  # where the rows of the tensors are

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """The rows (R,) of every tensor; a part that has rows of its own gets all the arguments."""
        return type(self)(
            **{one.name: self._select_value(getattr(self, one.name), rows, *more) for one in fields(self)}
        )

    def _select_value(self, value: Any, rows: Tensor, *more: Tensor | None) -> Any:
        if isinstance(value, Rows):
            return value.select(rows, *more)
        if isinstance(value, dict):
            return {name: self._select_value(part, rows, *more) for name, part in value.items()}
        if isinstance(value, tuple):
            return tuple(self._select_value(part, rows, *more) for part in value)
        return value.index_select(self.row_axis, rows) if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class Memory(Rows):
    """The source as every step sees it: (B, ...) each; a search selects the sentences that it goes on with."""


@dataclass(frozen=True)
class State(Rows):
    """State after a step, which the next one reads: (N, ...) each.

    A search selects the hypotheses (N',) that it goes on with, those of a sentence side by side, and as a second
    argument the sentences (B',) that they belong to, as of ``Memory``; ``None`` = all of them, in place.
    """


@dataclass(frozen=True)
class LstmState(State):
    """h and c of every layer: (L, N, H) each."""

    row_axis: ClassVar[int] = 1

    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True)
class LstmStart(Memory):
    """A source of which steps know the first state."""

    start: LstmState


@dataclass(frozen=True)
class Step:
    """The result of steps before the words of the vocabulary are scored."""

    features: Tensor  # inputs of the output layer, which scores the words, (N, T, D)
    attention: Tensor | None  # weights of the source positions, (N, T, S); ``None`` where there is no attention
    copying: Copying | None = None  # scores of copying; ``None`` where nothing is copied
    extra: Mapping[str, Tensor] = field(default_factory=dict)  # tensors for a family's display or loss, by name


def fold_hypotheses(values: Tensor, sentences: int) -> Tensor:
    """Let the hypotheses of a sentence read side by side: (N, T, ...) -> (B, K * T, ...)."""
    return values.reshape(sentences, -1, *values.shape[2:])


def repeat_for_hypotheses(values: Tensor, hypotheses: int) -> Tensor:
    """Repeat something small for the hypotheses of each sentence: (B, ...) -> (N, ...)."""
    count = hypotheses // len(values)
    return values if count == 1 else values.repeat_interleave(count, dim=0)


def attention_weights(scores: Tensor, padding_mask: Tensor) -> Tensor:
    """``masked_softmax`` for one step of each hypothesis: scores (N, S), ``padding_mask`` (B, S) -> (N, S)."""
    return masked_softmax(fold_hypotheses(scores.unsqueeze(1), len(padding_mask)), padding_mask).flatten(0, 1)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """The sum over the source for one step of each hypothesis: weights (N, S), values (B, S, D) -> (N, D)."""
    return torch.bmm(fold_hypotheses(weights.unsqueeze(1), len(values)), values).flatten(0, 1)
