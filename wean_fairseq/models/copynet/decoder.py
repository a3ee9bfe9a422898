"""The decoder of CopyNet (Gu et al., ACL 2016, sections 3.2-3.3), and of RNNSearch and Enc-Dec, which leave parts out.

A step needs the copy scores of the step before (selective read), so training walks over the target too; everything else
is computed once a batch: the source's part in attention and copy scores, which target words are which source words, and
after the loop the scores of the vocabulary.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``M`` width of the source memory, ``H``
hidden width, ``E`` embedding width, ``A`` attention width, ``V`` base vocabulary.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import (
    AdditiveAttention,
    Copying,
    QueryEmbedding,
    State,
    Step,
    attention_weights,
    base_ids,
    fold_hypotheses,
    masked_softmax,
    repeat_for_hypotheses,
    weighted_sum,
)
from ...modules.gates import LoopedCell
from ...modules.looped_linear import LoopedLinear
from ..copying import CopyingDecoder, CopyMemory, no_copy_mask


@dataclass(frozen=True)
class CopyNetMemory(CopyMemory):
    """The source as every step sees it."""

    states: Tensor  # (B, S, M)
    padding_mask: Tensor  # (B, S)
    start: Tensor  # s_0, (B, H)
    keys: Tensor | None  # of the attention, (B, S, A)
    copy_keys: Tensor | None  # tanh(h_j W_c), (B, S, H)


@dataclass(frozen=True)
class CopyNetState(State):
    """State after a step, which the next one reads, (N, ...) each."""

    hidden: Tensor  # s_t, (N, H)
    cell: Tensor  # of an LSTM, (N, H)
    copy: Tensor  # copy scores of the source positions, (N, S)
    coverage: Tensor  # attention that each position had so far, (N, S)


class _Maps(NamedTuple):
    """The linear maps of a step."""

    cell: LoopedCell
    query: LoopedLinear | None  # of the attention


class CopyNetDecoder(CopyingDecoder[CopyNetMemory, CopyNetState]):
    """Attentive read, selective read, state update, and scores for generating and copying.

    Args:
        embed_tokens: the shared embedding of the base words, (V, E).
        cell: recurrent cell; input E, then M for the selective read, then M for the context, as far as there are any.
        attention: over the source memory; ``None`` = Enc-Dec.
        copy_proj: W_c of eq. 8, M -> H; ``None`` = no copying.
        output: scores of generated words from the readout.
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
        output: QueryEmbedding,
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
        self.output = output
        self.full_readout = full_readout
        self.coverage_weight = coverage_weight
        self.oov_embedding = oov_embedding
        self.dropout = nn.Dropout(dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> CopyNetMemory:
        source, states, start = encoder_out["src_tokens"], encoder_out["encoder_out"], encoder_out["start_state"]
        if self.attention is None:
            states = start.unsqueeze(1)  # Enc-Dec sees this one vector at every step
        return CopyNetMemory(
            source,
            no_copy_mask(source, self.dictionary),
            states,
            encoder_out["encoder_padding_mask"],
            start,
            keys=None if self.attention is None else self.attention.project_keys(states),
            copy_keys=None if self.copy_proj is None else torch.tanh(self.copy_proj(states)),
        )

    def begin(self, memory: CopyNetMemory) -> CopyNetState:
        unattended = memory.states.new_zeros(memory.source.shape)
        return CopyNetState(memory.start, torch.zeros_like(memory.start), unattended, unattended)

    def step(self, words: Tensor, memory: CopyNetMemory, state: CopyNetState) -> tuple[Step, CopyNetState]:
        """See ``StepDecoder``; the features are the readouts."""
        source, no_copy = (repeat_for_hypotheses(part, len(words)) for part in (memory.source, memory.no_copy))
        # Where the last word stands in the source: what the selective read reads.
        matches = words.unsqueeze(2).eq(source.unsqueeze(1)) & ~no_copy.unsqueeze(1)  # (N, T, S)
        maps = _Maps(LoopedCell(self.cell), None if self.attention is None else self.attention.query_map())
        readouts, copies, weights = [], [], []
        for word, match in zip(self._embed(words).unbind(dim=1), matches.unbind(dim=1), strict=True):
            state, readout, attended = self._step(word, match, memory, state, maps)
            readouts.append(readout)
            copies.append(state.copy)
            weights += [] if attended is None else [attended]
        features = self.dropout(torch.stack(readouts, dim=1))
        attention = torch.stack(weights, dim=1) if weights else None
        return Step(features, attention, Copying(torch.stack(copies, dim=1), None)), state

    def _step(
        self, embedded: Tensor, matches: Tensor, memory: CopyNetMemory, last: CopyNetState, maps: _Maps
    ) -> tuple[CopyNetState, Tensor, Tensor | None]:
        """One step: embedded last word (N, E), where it stands in the source (N, S) -> state, readout, attention."""
        inputs, weights, coverage = [embedded], None, last.coverage
        if self.copies:
            # eq. 9: the copy probabilities of the step before, over the positions that hold the word written there.
            selected = masked_softmax(last.copy.unsqueeze(1), ~matches).squeeze(1)  # (N, S)
            inputs.append(weighted_sum(selected, memory.states))  # zeta, (N, M)
        if self.attention is None or memory.keys is None:
            inputs.append(repeat_for_hypotheses(memory.states[:, 0], len(embedded)))
        else:
            scores = self.attention.scores(last.hidden, memory.keys, query_map=maps.query)  # (N, S)
            if self.coverage_weight is not None:
                scores = scores + self.coverage_weight * last.coverage
            weights = attention_weights(scores, memory.padding_mask)
            inputs.append(weighted_sum(weights, memory.states))  # c_t, (N, M)
            coverage = last.coverage + weights
        given = torch.cat(inputs, dim=-1)
        hidden, cell = maps.cell.advance(given, last.hidden, last.cell)
        copy = last.copy
        if memory.copy_keys is not None:
            states = fold_hypotheses(hidden.unsqueeze(1), len(memory.copy_keys))  # (B, K, H)
            copy = torch.bmm(memory.copy_keys, states.transpose(1, 2)).transpose(1, 2).flatten(0, 1)  # eq. 8, (N, S)
        readout = torch.cat([hidden, given], dim=-1) if self.full_readout else hidden
        return CopyNetState(hidden, cell, copy, coverage), readout, weights

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = self.embed_tokens(base_ids(tokens, self.num_base, self.unk_index))
        if self.oov_embedding is not None:
            embedded = torch.where((tokens >= self.num_base).unsqueeze(-1), self.oov_embedding, embedded)
        dropped: Tensor = self.dropout(embedded)
        return dropped
