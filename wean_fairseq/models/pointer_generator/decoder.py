"""The decoder of Pointer-generator (See et al., ACL 2017, sections 2.1 to 2.3).

The attention of a step goes into the input of the next, so training runs step by step as generation does; what does not
depend on the steps before (the keys, the embedded words, everything from the gate to the vocabulary) is computed for
all steps at once.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``E`` embedding
width, ``H`` hidden width, ``A`` attention width.
"""

import logging
from dataclasses import dataclass
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import (
    AdditiveAttention,
    Copying,
    MixtureLoss,
    QueryEmbedding,
    State,
    Step,
    attention_weights,
    base_ids,
    coverage_loss,
    weighted_sum,
)
from ...modules.gates import LoopedCell
from ...modules.looped_linear import LoopedLinear
from ..base import add_auxiliary
from ..copying import CopyingDecoder, CopyMemory

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PointerMemory(CopyMemory):
    """The source as every step sees it; ``no_copy`` is not attended to either."""

    states: Tensor  # (B, S, 2H)
    keys: Tensor  # of the attention, (B, S, A)
    start_hidden: Tensor  # (B, H)
    start_cell: Tensor  # (B, H)


@dataclass(frozen=True)
class PointerState(State):
    """State after a step, which the next one reads."""

    hidden: Tensor  # h_t, (N, H)
    cell: Tensor  # c_t, (N, H)
    context: Tensor  # h*_t, (N, 2H)
    coverage: Tensor  # of eq. 10: the attention of all steps so far, (N, S), float32


class _Recurrence(NamedTuple):
    """One step of the recurrence; stacked over the steps, every shape has a T after the N."""

    hidden: Tensor  # h_t, (N, H)
    cell: Tensor  # c_t, (N, H)
    context: Tensor  # h*_t, (N, 2H)
    merged: Tensor  # x_t, (N, E)
    scores: Tensor  # e_t of eq. 1 and 11, (N, S)
    weights: Tensor  # a_t of eq. 2, (N, S), float32
    coverage: Tensor  # of eq. 10: the attention of all steps before this one, (N, S), float32


class _Maps(NamedTuple):
    """The linear maps of a step."""

    context: LoopedLinear  # W_x of h*_{t-1}
    cell: LoopedCell
    query: LoopedLinear  # W_s


class PointerGeneratorDecoder(CopyingDecoder[PointerMemory, PointerState]):
    """LSTM with attention, and a gate between generating a word and copying what is attended to.

    Args:
        embed_tokens: the shared embedding of the base words, (V, E).
        hidden_size: ``H``.
        attention: from the state [c_t; h_t] to the encoder outputs.
        output: V' of eq. 4, or the query of the word embeddings.
        coverage_weight: lambda of eq. 13; only counts where the attention has coverage.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        hidden_size: int,
        attention: AdditiveAttention,
        output: QueryEmbedding,
        coverage_weight: float,
    ) -> None:
        super().__init__(dictionary)
        width = embed_tokens.embedding_dim
        self.embed_tokens = embed_tokens
        self.merge = nn.Linear(width + 2 * hidden_size, width)  # W_x, b of the release: of the word and h*_{t-1}
        self.cell = nn.LSTMCell(width, hidden_size)
        self.attention = attention
        self.combine = nn.Linear(3 * hidden_size, hidden_size)  # V, b of eq. 4
        self.gate = nn.Linear(4 * hidden_size + width, 1)  # w_h*, w_s, w_x, b_ptr of eq. 8
        self.output = output
        self.coverage_weight = coverage_weight

    def remember(self, encoder_out: dict[str, Tensor]) -> PointerMemory:
        states = encoder_out["encoder_out"]
        return PointerMemory(
            encoder_out["src_tokens"],
            encoder_out["no_copy_mask"],
            states,
            self.attention.project_keys(states),
            encoder_out["start_hidden"],
            encoder_out["start_cell"],
        )

    def begin(self, memory: PointerMemory) -> PointerState:
        context = torch.zeros_like(memory.states[:, 0])
        coverage = torch.zeros_like(memory.no_copy, dtype=torch.float)
        return PointerState(memory.start_hidden, memory.start_cell, context, coverage)

    def step(self, words: Tensor, memory: PointerMemory, state: PointerState) -> tuple[Step, PointerState]:
        """See ``StepDecoder``; the features are the queries of eq. 4, ``extra`` has ``coverage`` (N, T, S)."""
        embedded = self.embed_tokens(base_ids(words, self.num_base, self.unk_index))  # (N, T, E)
        width = embedded.size(-1)
        word_parts = nn.functional.linear(embedded, self.merge.weight[:, :width], self.merge.bias)  # (N, T, E)
        maps = _Maps(
            LoopedLinear(self.merge.weight[:, width:]),
            LoopedCell(self.cell),
            self.attention.query_map(),
        )
        steps = []
        for word_part in word_parts.unbind(dim=1):
            now = self._advance(word_part + maps.context(state.context), memory, state, maps)
            steps.append(now)
            state = PointerState(now.hidden, now.cell, now.context, now.coverage + now.weights)  # eq. 10
        every = _Recurrence(*(torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)))
        gate = self.gate(torch.cat([every.context, every.cell, every.hidden, every.merged], dim=-1))  # logit of eq. 8
        query = self.combine(torch.cat([every.hidden, every.context], dim=-1))  # (N, T, H)
        # The scores are the log of the attention up to a constant, so the gate's mixture stays in log space.
        copying = Copying(every.scores, gate.squeeze(-1))
        return Step(query, every.weights, copying, {"coverage": every.coverage}), state

    def step_loss(self, step: Step, memory: PointerMemory, target: Tensor, label_smoothing: float) -> MixtureLoss:
        """Loss sums against ``target`` (B, T); with coverage its loss too, which is logged as ``coverage``."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        if self.attention.coverage_weight is None:
            return sums
        assert step.attention is not None
        again = coverage_loss(step.attention, step.extra["coverage"])  # (B, T), eq. 12
        again = again.masked_select(target.ne(self.padding_idx)).sum()
        return add_auxiliary(sums, "coverage", again, self.coverage_weight)  # eq. 13

    def _advance(self, merged: Tensor, memory: PointerMemory, state: PointerState, maps: _Maps) -> _Recurrence:
        """From x_t, shape (N, E), and the state before to what the step yields."""
        hidden, cell = maps.cell.advance(merged, state.hidden, state.cell)
        query = torch.cat([cell, hidden], dim=-1)
        scores = self.attention.scores(query, memory.keys, state.coverage, maps.query).float()
        weights = attention_weights(scores, memory.no_copy)  # (N, S), eq. 2
        context = weighted_sum(weights.to(memory.states.dtype), memory.states)  # (N, 2H), eq. 3
        return _Recurrence(hidden, cell, context, merged, scores, weights, state.coverage)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Let a checkpoint that was trained without coverage go on with it: w_c starts as initialised here."""
        new = self.attention.coverage_weight
        key = f"{name}.attention.coverage_weight"
        if new is not None and key not in state_dict:
            logger.warning("the checkpoint was trained without --coverage: its new weights start untrained")
            state_dict[key] = new.detach().clone()
        return super().upgrade_state_dict_named(state_dict, name)
