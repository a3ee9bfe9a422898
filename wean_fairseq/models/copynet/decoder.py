"""The decoder of CopyNet (Gu et al., ACL 2016, sections 3.2-3.3), and of RNNSearch and Enc-Dec, which leave parts out.

A step needs the copy scores of the step before (selective read), so training walks over the target too; everything else
is computed once a batch: the source's part in attention and copy scores, which target words are which source words, and
after the loop the scores of the vocabulary.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``M`` width of the source memory, ``H`` hidden width,
``E`` embedding width, ``A`` attention width, ``V`` base vocabulary.
"""

from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import AdditiveAttention, CopyDistribution, QueryEmbedding, base_ids, masked_softmax, shared_softmax
from ..base import State
from ..copying import CopyingDecoder, UnscoredStep, follow_sentences, no_copy_mask


class _Memory(NamedTuple):
    """The source as every step sees it."""

    states: Tensor  # (B, S, M)
    padding_mask: Tensor  # (B, S)
    keys: Tensor  # of the attention, (B, S, A)
    copy_keys: Tensor  # tanh(h_j W_c), (B, S, H)
    sentence: Tensor  # see follow_sentences, (B,)


class _Step(NamedTuple):
    """What a step leaves for the next one, (B, ...) each."""

    hidden: Tensor  # s_t, (B, H)
    cell: Tensor  # of an LSTM, (B, H)
    copy: Tensor  # copy scores of the source positions, (B, S)
    coverage: Tensor  # attention that each position had so far, (B, S)


class CopyNetDecoder(CopyingDecoder):
    """Attentive read, selective read, state update, and scores for generating and copying.

    Args:
        dictionary: of source and target.
        embed_tokens: the shared embedding of the base words, (V, E).
        cell: recurrent cell; input E, then M for the selective read, then M for the context, as far as there are any.
        attention: over the source memory; ``None`` = Enc-Dec.
        copy_proj: W_c of eq. 8, M -> H; ``None`` = no copying.
        query_embedding: scores of generated words from the readout.
        full_readout: read out context, last word and selective read besides the state.
        coverage_weight: weight of a position's coverage in its attention score; ``None`` = not used.
        oov_embedding: what is read for a copied word outside the vocabulary, (E,); ``None`` = ``<unk>``.
        dropout: on embeddings and readout.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        cell: nn.GRUCell | nn.LSTMCell,
        attention: AdditiveAttention | None,
        copy_proj: nn.Linear | None,
        query_embedding: QueryEmbedding,
        full_readout: bool,
        coverage_weight: nn.Parameter | None,
        oov_embedding: nn.Parameter | None,
        dropout: float,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.cell = cell
        self.attention = attention
        self.copy_proj = copy_proj
        self.copies = copy_proj is not None
        self.query_embedding = query_embedding
        self.full_readout = full_readout
        self.coverage_weight = coverage_weight
        self.oov_embedding = oov_embedding
        self.dropout = nn.Dropout(dropout)

    def distribution_and_extra(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[CopyDistribution, dict[str, Any]]:
        """See ``CopyingDecoder``; ``attn`` holds ``None`` for Enc-Dec."""
        steps = self.unscored(prev_output_tokens, encoder_out, incremental_state)
        scores = self.query_embedding.scores(steps.features, self.embed_tokens.weight)
        return shared_softmax(scores, steps.copy, encoder_out["src_tokens"], steps.no_copy), steps.extra

    def unscored(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> UnscoredStep:
        """The steps without the scores of the vocabulary; arguments as ``distribution_and_extra``."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        memory, state = self._start(encoder_out, incremental_state)
        source = encoder_out["src_tokens"]
        no_copy = no_copy_mask(source, self.dictionary)
        if not self.copies:
            no_copy = torch.ones_like(no_copy)
        embedded = self._embed(prev_output_tokens).unbind(dim=1)  # T of (B, E)
        # Where the last word stands in the source: what the selective read reads.
        matches = prev_output_tokens.unsqueeze(2).eq(source.unsqueeze(1)) & ~no_copy.unsqueeze(1)  # (B, T, S)
        readouts, copies, weights = [], [], []
        for word, match in zip(embedded, matches.unbind(dim=1), strict=True):
            state, readout, attended = self._step(word, match, memory, state)
            readouts.append(readout)
            copies.append(state.copy)
            weights.append(attended)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "state", state._asdict())
        features = self.dropout(torch.stack(readouts, dim=1))
        attention = torch.stack(weights, dim=1) if self.attention is not None else None
        return UnscoredStep(features, torch.stack(copies, dim=1), None, no_copy, {"attn": [attention]})

    def _step(
        self, embedded: Tensor, matches: Tensor, memory: _Memory, last: _Step
    ) -> tuple[_Step, Tensor, Tensor | None]:
        """One step: embedded last word (B, E), where it stands in the source (B, S) -> state, readout, attention."""
        inputs, weights, coverage = [embedded], None, last.coverage
        if self.copies:
            # eq. 9: the copy probabilities of the step before, over the positions that hold the word written there.
            selected = masked_softmax(last.copy.unsqueeze(1), ~matches)  # (B, 1, S)
            inputs.append(torch.bmm(selected, memory.states).squeeze(1))  # zeta, (B, M)
        if self.attention is None:
            inputs.append(memory.states[:, 0])
        else:
            scores = self.attention.scores(last.hidden, memory.keys)
            if self.coverage_weight is not None:
                scores = scores + self.coverage_weight * last.coverage
            attended = masked_softmax(scores.unsqueeze(1), memory.padding_mask)  # (B, 1, S)
            inputs.append(torch.bmm(attended, memory.states).squeeze(1))  # c_t, (B, M)
            weights = attended.squeeze(1)
            coverage = last.coverage + weights
        given = torch.cat(inputs, dim=-1)
        if isinstance(self.cell, nn.LSTMCell):
            hidden, cell = self.cell(given, (last.hidden, last.cell))
        else:
            hidden, cell = self.cell(given, last.hidden), last.cell
        copy = last.copy
        if self.copies:
            copy = torch.bmm(memory.copy_keys, hidden.unsqueeze(2)).squeeze(2)  # eq. 8, (B, S)
        readout = torch.cat([hidden, given], dim=-1) if self.full_readout else hidden
        return _Step(hidden, cell, copy, coverage), readout, weights

    def _start(self, encoder_out: dict[str, Tensor], incremental_state: State | None) -> tuple[_Memory, _Step]:
        """The source, and the state before this call's first step."""
        if incremental_state is not None:
            memory = self.get_incremental_state(incremental_state, "memory")
            state = self.get_incremental_state(incremental_state, "state")
            if memory is not None and state is not None:
                return _Memory(**memory), _Step(**state)
        states, hidden = encoder_out["encoder_out"], encoder_out["start_state"]
        if self.attention is None:
            states = hidden.unsqueeze(1)  # Enc-Dec sees this one vector at every step
        none = hidden.new_zeros(0)
        memory = _Memory(
            states,
            encoder_out["encoder_padding_mask"],
            self.attention.project_keys(states) if self.attention is not None else none,
            torch.tanh(self.copy_proj(states)) if self.copy_proj is not None else none,
            encoder_out["sentence"],
        )
        unattended = states.new_zeros(encoder_out["src_tokens"].shape)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "memory", memory._asdict())
        return memory, _Step(hidden, torch.zeros_like(hidden), unattended, unattended)

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = self.embed_tokens(base_ids(tokens, self.num_base, self.unk_index))
        if self.oov_embedding is not None:
            embedded = torch.where((tokens >= self.num_base).unsqueeze(-1), self.oov_embedding, embedded)
        dropped: Tensor = self.dropout(embedded)
        return dropped

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let everything follow the hypotheses ``new_order`` (B',) that beam search kept."""
        memory = self.get_incremental_state(incremental_state, "memory")
        state = self.get_incremental_state(incremental_state, "state")
        if memory is not None and state is not None:
            self.set_incremental_state(incremental_state, "memory", follow_sentences(memory, new_order))
            moved = {name: value.index_select(0, new_order) for name, value in state.items()}
            self.set_incremental_state(incremental_state, "state", moved)
