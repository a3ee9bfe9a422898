"""The decoder of SC-LSTM (Wen et al., EMNLP 2015) with several layers, as the authors of MTA-LSTM have it.

What is read of the keywords depends on the layers' last outputs, so training walks over the essay step by step. The
words' part of the first layer's gates and of the reading gate, and the scores of the vocabulary, are computed for all
steps at once.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``k`` topic slots, ``E`` embedding width, ``H`` hidden
width, ``L`` layers.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import (
    KeywordGate,
    KeywordRows,
    LossSums,
    Memory,
    MixtureLoss,
    State,
    Step,
    control_loss,
)
from ...modules.gates import LstmLayers
from ..base import add_auxiliary
from ..topics import TopicDecoder


@dataclass(frozen=True)
class KeywordMemory(Memory):
    """The keywords as every step sees them."""

    rows: KeywordRows
    first: Tensor  # d_0, float32, (B, k)


@dataclass(frozen=True)
class KeywordState(State):
    """State after a step, which the next one reads."""

    hidden: Tensor  # h of each layer, (N, L, H)
    cell: Tensor  # c of each layer, (N, L, H)
    outputs: Tensor  # h of all layers after dropout, (N, L * H)
    keywords: Tensor  # d, float32, (N, k)


class ScLstmDecoder(TopicDecoder[KeywordMemory, KeywordState]):
    """LSTM layers to whose cells the keywords are added; words are scored from all layers.

    Args:
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

    def remember(self, encoder_out: dict[str, Tensor]) -> KeywordMemory:
        return KeywordMemory(self.gate.pick(encoder_out["topic_tokens"]), encoder_out["first_keywords"])

    def begin(self, memory: KeywordMemory) -> KeywordState:
        outputs = torch.zeros_like(memory.rows.write[:, 0])  # (B, L * H)
        layers = outputs.unflatten(-1, (self.lstm.num_layers, -1))  # type: ignore[no-untyped-call]
        return KeywordState(layers, layers, outputs, memory.first)

    def step(self, words: Tensor, memory: KeywordMemory, state: KeywordState) -> tuple[Step, KeywordState]:
        """See ``StepDecoder``; the features are the outputs of all layers, ``extra`` has ``keywords`` d, (N, T, k)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        read_parts = self.gate.word_part(embedded, memory.rows)  # (N, T, k)
        layers = LstmLayers(self.lstm)
        hidden, cell = list(state.hidden.unbind(dim=1)), list(state.cell.unbind(dim=1))
        outputs, keywords = [state.outputs], [state.keywords]
        for gates, read_part in zip(layers.given(embedded).unbind(dim=1), read_parts.unbind(dim=1), strict=True):
            left, added = self.gate.step(keywords[-1], read_part, outputs[-1], memory.rows)
            keywords.append(left)
            parts = added.chunk(self.lstm.num_layers, dim=-1)
            lower = layers.advance(gates, None, (hidden, cell), self.dropout, parts)
            outputs.append(torch.cat([*lower, self.dropout(hidden[-1])], dim=-1))
        state = KeywordState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), outputs[-1], keywords[-1])
        extra = {"keywords": torch.stack(keywords[1:], dim=1)}
        return Step(torch.stack(outputs[1:], dim=1), None, extra=extra), state

    def step_loss(
        self, step: Step, memory: KeywordMemory, target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Loss sums against ``target`` (B, T); the loss of Wen et al. is logged as ``control``."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        if not self.control_loss_weight:
            return sums
        control = control_loss(step.extra["keywords"], memory.first, target.eq(self.padding_idx))
        return add_auxiliary(sums, "control", control, self.control_loss_weight)
