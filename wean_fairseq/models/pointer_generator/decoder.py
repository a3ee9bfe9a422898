"""The decoder of Pointer-generator (See et al., ACL 2017, sections 2.1 to 2.3).

The attention of a step goes into the input of the next, so training runs step by step as generation does; what does not
depend on the steps before (the keys, the embedded words, everything from the gate to the vocabulary) is computed for
all steps at once.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``E`` embedding width, ``H``
hidden width, ``A`` attention width.
"""

import logging
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import (
    AdditiveAttention,
    CopyDistribution,
    MixtureLoss,
    QueryEmbedding,
    attended_again,
    base_ids,
    gated,
    masked_softmax,
)
from ..base import State
from ..copying import CopyingDecoder, UnscoredStep, follow_sentences

logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """One step of the recurrence; stacked over the steps, every shape has a T after the B."""

    hidden: Tensor  # h_t, (B, H)
    cell: Tensor  # c_t, (B, H)
    context: Tensor  # h*_t, (B, 2H)
    merged: Tensor  # x_t, (B, E)
    scores: Tensor  # e_t of eq. 1 and 11, (B, S)
    weights: Tensor  # a_t of eq. 2, (B, S), float32
    coverage: Tensor  # of eq. 10: the attention of all steps before this one, (B, S), float32


class PointerGeneratorDecoder(CopyingDecoder):
    """LSTM with attention, and a gate between generating a word and copying what is attended to.

    Args:
        dictionary: with its slots.
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

    def distribution_and_extra(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[CopyDistribution, dict[str, Any]]:
        """The choices at every step, or with ``incremental_state`` at the last one.

        Args:
            prev_output_tokens: shape (B, T), slots included.
            encoder_out: what the encoder returned.
            incremental_state: the state between steps of generation.

        Returns:
            The choices, and ``{"attn": [weights (B, T, S)], "coverage": (B, T, S)}``.
        """
        steps = self.unscored(prev_output_tokens, encoder_out, incremental_state)
        assert steps.gate is not None
        logits = self.output.scores(steps.features, self.embed_tokens.weight)  # (B, T, V), eq. 4
        # The scores are the log of the attention up to a constant, so the gate's mixture stays in log space.
        choices = gated(steps.gate, logits, steps.copy, encoder_out["src_tokens"], steps.no_copy)  # eq. 9
        return choices, steps.extra

    def unscored(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> UnscoredStep:
        """The steps without the scores of the vocabulary; arguments as ``distribution_and_extra``."""
        steps = self._run(prev_output_tokens, encoder_out, incremental_state)
        gate = self.gate(torch.cat([steps.context, steps.cell, steps.hidden, steps.merged], dim=-1))  # logit of eq. 8
        query = self.combine(torch.cat([steps.hidden, steps.context], dim=-1))  # (B, T, H)
        extra = {"attn": [steps.weights], "coverage": steps.coverage}
        return UnscoredStep(query, steps.scores, gate.squeeze(-1), encoder_out["no_copy_mask"], extra)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T); with coverage its loss too, which is logged as ``coverage``."""
        distribution, extra = self.distribution_and_extra(prev_output_tokens, encoder_out)
        sums = distribution.loss(self.known_targets(target), self.padding_idx, label_smoothing)
        if self.attention.coverage_weight is None:
            return sums
        again = attended_again(extra["attn"][0], extra["coverage"])  # (B, T), eq. 12
        again = again.masked_select(target.ne(self.padding_idx)).sum()
        loss = sums.loss + self.coverage_weight * again  # eq. 13
        return MixtureLoss(loss, sums.nll_loss, sums.logged | {"coverage": again.detach()})

    def _run(self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None) -> Step:
        """The recurrence over all words of ``prev_output_tokens``, or over the last one from the state before."""
        state, memory = None, None
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            state = self.get_incremental_state(incremental_state, "step")
            memory = self.get_incremental_state(incremental_state, "memory")
        if state is None or memory is None:
            state, memory = self._start(encoder_out)
        keys = memory["keys"]
        words = self.embed_tokens(base_ids(prev_output_tokens, self.num_base, self.unk_index))  # (B, T, E)
        width = words.size(-1)
        word_parts = nn.functional.linear(words, self.merge.weight[:, :width], self.merge.bias)  # (B, T, E)
        context_weight = self.merge.weight[:, width:]
        steps = []
        for word_part in word_parts.unbind(dim=1):
            merged = word_part + nn.functional.linear(state["context"], context_weight)  # x_t
            steps.append(self._step(merged, state, keys, encoder_out))
            state = _after(steps[-1])
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "step", state)
            self.set_incremental_state(incremental_state, "memory", memory)
        return Step(*(torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)))

    def _start(self, encoder_out: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The state before the first step, and what stays the same, for ``follow_sentences``: the keys (B, S, A)."""
        outputs = encoder_out["encoder_out"]
        state = {
            "hidden": encoder_out["start_hidden"],
            "cell": encoder_out["start_cell"],
            "context": torch.zeros_like(outputs[:, 0]),
            "coverage": torch.zeros_like(encoder_out["no_copy_mask"], dtype=torch.float),
        }
        return state, {"keys": self.attention.project_keys(outputs), "sentence": encoder_out["sentence"]}

    def _step(self, merged: Tensor, state: dict[str, Tensor], keys: Tensor, encoder_out: dict[str, Tensor]) -> Step:
        """From x_t, shape (B, E), and the state before to what the step yields."""
        hidden, cell = self.cell(merged, (state["hidden"], state["cell"]))
        scores = self.attention.scores(torch.cat([cell, hidden], dim=-1), keys, state["coverage"]).float()
        weights = masked_softmax(scores.unsqueeze(1), encoder_out["no_copy_mask"])  # (B, 1, S), eq. 2
        outputs = encoder_out["encoder_out"]
        context = torch.bmm(weights.to(outputs.dtype), outputs).squeeze(1)  # (B, 2H), eq. 3
        return Step(hidden, cell, context, merged, scores, weights.squeeze(1), state["coverage"])

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        state = self.get_incremental_state(incremental_state, "step")
        memory = self.get_incremental_state(incremental_state, "memory")
        if state is not None and memory is not None:
            moved = {name: part.index_select(0, new_order) for name, part in state.items()}
            self.set_incremental_state(incremental_state, "step", moved)
            self.set_incremental_state(incremental_state, "memory", follow_sentences(memory, new_order))

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Let a checkpoint that was trained without coverage go on with it: w_c starts as initialised here."""
        new = self.attention.coverage_weight
        key = f"{name}.attention.coverage_weight"
        if new is not None and key not in state_dict:
            logger.warning("the checkpoint was trained without --coverage: its new weights start untrained")
            state_dict[key] = new.detach().clone()
        return state_dict


def _after(step: Step) -> dict[str, Tensor]:
    """The state that the next step starts from."""
    coverage = step.coverage + step.weights  # eq. 10
    return {"hidden": step.hidden, "cell": step.cell, "context": step.context, "coverage": coverage}
