"""The decoders of MTA-LSTM, TAT-LSTM and TAV-LSTM (Feng et al., IJCAI 2018).

With attention, the output of a step decides what the next one reads, so training walks over the essay step by step, as
generation does. Everything else is computed once a batch: the words' part of the gates, what each topic would add to
the gates, the topics' part of the attention, and after the loop the scores of the vocabulary. Without attention one
fused LSTM call runs over the whole essay.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``k`` topic slots, ``E`` embedding width, ``H`` hidden
width, ``L`` layers, ``A`` attention width.
"""

from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn
from torch.nn.functional import linear

from ...modules import (
    AdditiveAttention,
    LossSums,
    MixtureLoss,
    at_source_positions,
    attend_uncovered,
    importance_loss,
    lstm_update,
    masked_softmax,
)
from ..base import LstmStates, State
from ..topics import SteppingDecoder, TopicDecoder, with_auxiliary


class TopicAverageDecoder(LstmStates, TopicDecoder):
    """TAV-LSTM: the mean of the topics, through a feed-forward map, is the first state.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        lstm: ``batch_first``, E -> H.
        dropout: on the words read and on the outputs.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: nn.LSTM, dropout: float) -> None:
        super().__init__(dictionary, embed_tokens, lstm.hidden_size)
        self.lstm = lstm
        self.start_proj = nn.Linear(embed_tokens.embedding_dim, 2 * lstm.num_layers * lstm.hidden_size)
        self.dropout = nn.Dropout(dropout)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Outputs of the top layer, (B, T, H), and ``{"attn": [None]}``; arguments as ``forward``."""
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        start = self.kept_states(incremental_state) or self._start(encoder_out)
        outputs, (hidden, cell) = self.lstm(self.dropout(self.embed_tokens(prev_output_tokens)), start)
        self.keep_states(incremental_state, hidden, cell)
        return self.dropout(outputs), {"attn": [None]}

    def _start(self, encoder_out: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """h_0 and c_0 of every layer, tanh of a linear map of the mean topic: (L, B, H) each."""
        count = (~encoder_out["topic_padding_mask"]).sum(dim=1, keepdim=True).clamp(min=1)  # (B, 1)
        mean = encoder_out["topics"].sum(dim=1) / count  # slots without a topic are zero
        start = torch.tanh(self.start_proj(mean)).unflatten(1, (2, self.lstm.num_layers, -1))  # (B, 2, L, H)
        hidden, cell = start.permute(1, 2, 0, 3).contiguous()
        return hidden, cell


class _Memory(NamedTuple):
    """The topics as every step sees them."""

    keys: Tensor  # U T_j, (B, k, A)
    gates: Tensor  # the topics' part of the first layer's gates, (B, k, 4H)
    padding_mask: Tensor  # (B, k)
    importance: Tensor  # phi, (B, k); empty without coverage
    sentence: Tensor  # see follow_sentences, (B,)


class _Step(NamedTuple):
    """What a step leaves for the next one."""

    hidden: Tensor  # h of each layer, (B, L, H)
    cell: Tensor  # c of each layer, (B, L, H)
    output: Tensor  # h of the top layer after dropout, (B, H)
    coverage: Tensor  # C, float32, (B, k)


class TopicAttentionDecoder(SteppingDecoder):
    """MTA-LSTM, and without coverage TAT-LSTM: attention over the topics, whose mean is read beside each word.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        lstm: holds the weights of the layers; reads a word and the topics' mean, 2E -> H.
        attention: from the top layer's last output to the topics.
        covers: multiply the attention's scores by the coverage.
        coverage_loss_weight: of the loss that brings each topic's attention to phi; 0 = without.
        dropout: on the words read and on the output of every layer.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        lstm: nn.LSTM,
        attention: AdditiveAttention,
        covers: bool,
        coverage_loss_weight: float,
        dropout: float,
    ) -> None:
        super().__init__(dictionary, embed_tokens, lstm.hidden_size)
        self.lstm = lstm
        self.attention = attention
        self.covers = covers
        self.coverage_loss_weight = coverage_loss_weight
        self.dropout = nn.Dropout(dropout)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Outputs of the top layer, (B, T, H); arguments as ``forward``.

        Returns:
            The outputs, and ``{"attn": [weights (B, T, S)], "topic_weights": (B, T, k)}``.
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        memory, state = self._start(encoder_out, incremental_state)
        words = self.dropout(self.embed_tokens(prev_output_tokens))  # (B, T, E)
        bias = self.lstm.bias_ih_l0 + self.lstm.bias_hh_l0
        word_gates = linear(words, self.lstm.weight_ih_l0[:, : words.size(-1)], bias)  # (B, T, 4H)
        outputs, weights = [], []
        for gates in word_gates.unbind(dim=1):
            state, attended = self._step(gates, memory, state)
            outputs.append(state.output)
            weights.append(attended)
        self.keep(incremental_state, memory._asdict(), state._asdict())
        topic_weights = torch.stack(weights, dim=1)  # (B, T, k)
        attn = at_source_positions(topic_weights, encoder_out["slot"])
        return torch.stack(outputs, dim=1), {"attn": [attn], "topic_weights": topic_weights}

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Loss sums against ``target`` (B, T); the coverage loss is logged as ``coverage``."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out)
        sums = self.word_loss(features, target, label_smoothing)
        if not self.covers or not self.coverage_loss_weight:
            return sums
        missed = importance_loss(
            extra["topic_weights"],
            encoder_out["importance"],
            encoder_out["topic_padding_mask"],
            target.eq(self.padding_idx),
        )
        return with_auxiliary(sums, "coverage", missed, self.coverage_loss_weight)

    def _step(self, word_gates: Tensor, memory: _Memory, last: _Step) -> tuple[_Step, Tensor]:
        """One step: the last word's part of the first layer's gates (B, 4H) -> state, attention (B, k)."""
        scores = self.attention.scores(last.output, memory.keys)  # (B, k)
        coverage = last.coverage
        if self.covers:
            weights, coverage = attend_uncovered(scores, coverage, memory.importance, memory.padding_mask)
        else:
            weights = masked_softmax(scores.float().unsqueeze(1), memory.padding_mask).squeeze(1)
        # The mean of what the topics add to the gates is what the topics' mean adds.
        topic_gates = torch.bmm(weights.to(word_gates.dtype).unsqueeze(1), memory.gates).squeeze(1)
        gates = word_gates + topic_gates + linear(last.hidden[:, 0], self.lstm.weight_hh_l0)
        hidden, cell = [], []
        layers = zip(last.hidden.unbind(dim=1), last.cell.unbind(dim=1), strict=True)
        for layer, (last_hidden, last_cell) in enumerate(layers):
            if layer > 0:
                gates = self._upper_gates(layer, self.dropout(hidden[-1]), last_hidden)
            new_hidden, new_cell = lstm_update(gates, last_cell)
            hidden.append(new_hidden)
            cell.append(new_cell)
        output = self.dropout(hidden[-1])
        return _Step(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), output, coverage), weights

    def _upper_gates(self, layer: int, below: Tensor, hidden: Tensor) -> Tensor:
        """Gates of a layer above the first: from the layer below and its own last state, (B, H) twice -> (B, 4H)."""
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        weight_ih, bias_ih, weight_hh, bias_hh = (getattr(self.lstm, f"{name}_l{layer}") for name in names)
        return linear(below, weight_ih, bias_ih) + linear(hidden, weight_hh, bias_hh)

    def _start(self, encoder_out: dict[str, Tensor], incremental_state: State | None) -> tuple[_Memory, _Step]:
        """The topics, and the state before this call's first step."""
        kept = self.resume(incremental_state)
        if kept is not None:
            return _Memory(**kept[0]), _Step(**kept[1])
        topics, mask = encoder_out["topics"], encoder_out["topic_padding_mask"]
        memory = _Memory(
            self.attention.project_keys(topics),
            linear(topics, self.lstm.weight_ih_l0[:, self.embed_tokens.embedding_dim :]),
            mask,
            encoder_out["importance"] if self.covers else topics.new_zeros(0),
            encoder_out["sentence"],
        )
        zero = topics.new_zeros(topics.size(0), self.lstm.num_layers, self.lstm.hidden_size)
        return memory, _Step(zero, zero, zero[:, -1], torch.ones_like(mask, dtype=torch.float))
