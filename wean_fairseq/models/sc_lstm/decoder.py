"""The decoder of SC-LSTM (Wen et al., EMNLP 2015) with several layers, as the authors of MTA-LSTM have it.

What is read of the keywords depends on the layers' last outputs, so training walks over the essay step by step. The
words' part of the first layer's gates and of the reading gate, and the scores of the vocabulary, are computed for all
steps at once.

Legend: ``B`` batch, ``T`` target length, ``k`` topic slots, ``E`` embedding width, ``H`` hidden width, ``L`` layers.
"""

from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn
from torch.nn.functional import linear

from ...modules import KeywordGate, KeywordRows, LossSums, MixtureLoss, control_loss, lstm_update
from ..base import State
from ..topics import SteppingDecoder, with_auxiliary


class _Memory(NamedTuple):
    """The keywords as every step sees them."""

    tokens: Tensor  # (B, k)
    hidden_read: Tensor  # (B, k, L * H)
    write: Tensor  # (B, k, L * H)
    sentence: Tensor  # see follow_sentences, (B,)


class _Step(NamedTuple):
    """What a step leaves for the next one."""

    hidden: Tensor  # h of each layer, (B, L, H)
    cell: Tensor  # c of each layer, (B, L, H)
    outputs: Tensor  # h of all layers after dropout, (B, L * H)
    keywords: Tensor  # d, float32, (B, k)


class ScLstmDecoder(SteppingDecoder):
    """LSTM layers to whose cells the keywords are added; words are scored from all layers.

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        lstm: holds the weights of the layers, E -> H.
        gate: reads the keywords.
        control_loss_weight: of the losses of Wen et al.; 0 = without.
        dropout: on the words read and on the output of every layer.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        lstm: nn.LSTM,
        gate: KeywordGate,
        control_loss_weight: float,
        dropout: float,
    ) -> None:
        super().__init__(dictionary, embed_tokens, lstm.num_layers * lstm.hidden_size)
        self.lstm = lstm
        self.gate = gate
        self.control_loss_weight = control_loss_weight
        self.dropout = nn.Dropout(dropout)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Outputs of all layers, (B, T, L * H); arguments as ``forward``.

        Returns:
            The outputs, and ``{"attn": [None], "keywords": d (B, T, k)}``.
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        memory, state = self._start(encoder_out, incremental_state)
        words = self.dropout(self.embed_tokens(prev_output_tokens))  # (B, T, E)
        word_gates = self._gates(0, words)  # (B, T, 4H)
        read_parts = self.gate.word_part(memory.tokens, words)  # (B, T, k)
        outputs, keywords = [], []
        for gates, read_part in zip(word_gates.unbind(dim=1), read_parts.unbind(dim=1), strict=True):
            state = self._step(gates, read_part, memory, state)
            outputs.append(state.outputs)
            keywords.append(state.keywords)
        self.keep(incremental_state, memory._asdict(), state._asdict())
        return torch.stack(outputs, dim=1), {"attn": [None], "keywords": torch.stack(keywords, dim=1)}

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Loss sums against ``target`` (B, T); the loss of Wen et al. is logged as ``control``."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out)
        sums = self.word_loss(features, target, label_smoothing)
        if not self.control_loss_weight:
            return sums
        control = control_loss(extra["keywords"], encoder_out["first_keywords"], target.eq(self.padding_idx))
        return with_auxiliary(sums, "control", control, self.control_loss_weight)

    def _step(self, word_gates: Tensor, read_part: Tensor, memory: _Memory, last: _Step) -> _Step:
        """One step: the word's part of the first layer's gates (B, 4H) and of the reading gate (B, k) -> state."""
        rows = KeywordRows(memory.hidden_read, memory.write)
        keywords, added = self.gate.step(last.keywords, read_part, last.outputs, rows)
        hidden, cell, outputs = [], [], []
        gates = word_gates
        parts = added.chunk(self.lstm.num_layers, dim=-1)
        layers = zip(last.hidden.unbind(dim=1), last.cell.unbind(dim=1), parts, strict=True)
        for layer, (last_hidden, last_cell, part) in enumerate(layers):
            if layer > 0:
                gates = self._gates(layer, outputs[-1])
            gates = gates + linear(last_hidden, getattr(self.lstm, f"weight_hh_l{layer}"))
            new_hidden, new_cell = lstm_update(gates, last_cell, part)
            hidden.append(new_hidden)
            cell.append(new_cell)
            outputs.append(self.dropout(new_hidden))
        return _Step(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), torch.cat(outputs, dim=-1), keywords)

    def _gates(self, layer: int, inputs: Tensor) -> Tensor:
        """What goes into a layer's gates from below, biases included: (..., E or H) -> (..., 4H)."""
        weight, *biases = (getattr(self.lstm, f"{name}_l{layer}") for name in ("weight_ih", "bias_ih", "bias_hh"))
        return linear(inputs, weight, biases[0] + biases[1])

    def _start(self, encoder_out: dict[str, Tensor], incremental_state: State | None) -> tuple[_Memory, _Step]:
        """The keywords, and the state before this call's first step."""
        kept = self.resume(incremental_state)
        if kept is not None:
            return _Memory(**kept[0]), _Step(**kept[1])
        tokens, keywords = encoder_out["topic_tokens"], encoder_out["first_keywords"]
        memory = _Memory(tokens, *self.gate.pick(tokens), encoder_out["sentence"])
        outputs = torch.zeros_like(memory.write[:, 0])  # (B, L * H)
        layers = outputs.unflatten(-1, (self.lstm.num_layers, -1))
        return memory, _Step(layers, layers, outputs, keywords)
