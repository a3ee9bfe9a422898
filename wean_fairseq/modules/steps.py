"""One step of a decoder: the ``Memory`` that it reads, the ``State`` that it returns, and the ``Step`` itself.

The memory contains the source in the form that the steps read. It has one row per sentence, however many hypotheses
there are. The hypotheses of a sentence are next to each other and share its row, so the source need not be repeated for
a beam. The state has one row per hypothesis.

Legend: ``B`` sentences, ``N`` hypotheses (K of each sentence), ``T`` steps, ``S`` source length, ``D`` width of the
features.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from .copying import Copying
from .masking import masked_softmax


@dataclass(frozen=True)
class Rows:
    """Tensors with one row per sentence or hypothesis. A field may be ``None``."""

    row_axis: ClassVar[int] = 0  # the dimension that contains the rows

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """Select the rows with the indices ``rows`` (R,) from every tensor.

        If a field is itself of type ``Rows``, its ``select`` is called with all the arguments.
        """
        return self._change(
            lambda tensor: tensor.index_select(self.row_axis, rows), lambda inner: inner.select(rows, *more)
        )

    def contiguous(self) -> Self:
        """Store every tensor in contiguous memory, so that products of its slices need no copies."""
        return self._change(Tensor.contiguous, Rows.contiguous)

    def _change(self, change: Callable[[Tensor], Tensor], change_rows: Callable[["Rows"], "Rows"]) -> Self:
        def changed(value: Any) -> Any:
            if isinstance(value, Rows):
                return change_rows(value)
            if isinstance(value, dict):
                return {name: changed(member) for name, member in value.items()}
            if isinstance(value, tuple):
                return tuple(changed(member) for member in value)
            return change(value) if isinstance(value, Tensor) else value

        return type(self)(**{member.name: changed(getattr(self, member.name)) for member in fields(self)})


@dataclass(frozen=True)
class Memory(Rows):
    """The source tensors that every decoder step reads, each of shape (B, ...).

    A search calls ``select`` to keep only the rows of the remaining sentences.
    """


@dataclass(frozen=True)
class State(Rows):
    """State of a decoder after a step, which the next step reads. Its tensors have shape (N, ...).

    A search calls ``select`` with the indices (N',) of the remaining hypotheses, grouped by sentence. The second
    argument of ``select`` contains the indices (B',) of the remaining sentences, as for ``Memory``. If it is ``None``,
    all sentences keep their rows.
    """


@dataclass(frozen=True)
class LstmState(State):
    """Hidden states h and cell states c of an LSTM with L layers of width H, each of shape (L, N, H)."""

    row_axis: ClassVar[int] = 1

    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True)
class LstmStart(Memory):
    """Memory of a model whose steps use the source only through their initial LSTM state."""

    start: LstmState


@dataclass(frozen=True)
class Step:
    """The output of one or more decoder steps, before the output layer scores the words."""

    features: Tensor  # inputs of the output layer, which scores the words, (N, T, D)
    attention: Tensor | None  # weights of the source positions, (N, T, S). ``None`` for models without attention
    copying: Copying | None = None  # scores for copying source words. ``None`` for models that do not copy
    # further tensors by name, which a model family needs for display or for its loss
    extra: Mapping[str, Tensor] = field(default_factory=dict)


def fold_hypotheses(values: Tensor, sentences: int) -> Tensor:
    """Fold the hypotheses of a sentence into the time dimension: (N, T, ...) -> (B, K * T, ...)."""
    return values.reshape(sentences, -1, *values.shape[2:])


def repeat_for_hypotheses(values: Tensor, hypotheses: int) -> Tensor:
    """Repeat a small tensor for each hypothesis of each sentence: (B, ...) -> (N, ...)."""
    count = hypotheses // len(values)
    return values if count == 1 else values.repeat_interleave(count, dim=0)


def attention_weights(scores: Tensor, padding_mask: Tensor) -> Tensor:
    """Apply ``masked_softmax`` to one step of each hypothesis: scores (N, S), ``padding_mask`` (B, S) -> (N, S)."""
    return masked_softmax(fold_hypotheses(scores.unsqueeze(1), len(padding_mask)), padding_mask).flatten(0, 1)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return the weighted sum over the source in one step: weights (N, S), values (B, S, D) -> (N, D)."""
    return torch.bmm(fold_hypotheses(weights.unsqueeze(1), len(values)), values).flatten(0, 1)
