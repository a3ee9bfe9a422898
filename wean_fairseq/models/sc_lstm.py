"""``sc_lstm``: semantically conditioned LSTM (Wen et al., EMNLP 2015, arXiv 1508.01745).

Keywords replace dialogue acts.

It has several layers and writes essays from topic words, as in the MTA-LSTM paper (Feng et al., IJCAI 2018).

The keywords are consumed depending on the last outputs of the layers, so training loops over the essay step by step.
For all steps at once, it computes the words' part of the first layer's gates and of the reading gate, and the scores of
the vocabulary.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``k`` topic slots, ``E`` embedding width, ``H`` hidden
width, ``L`` layers, ``S`` source length.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..capabilities import Capabilities
from ..fields import option
from ..modules import (
    KeywordGate,
    KeywordRows,
    LossSums,
    Memory,
    State,
    Step,
    control_loss,
    first_keywords,
    topic_words,
)
from ..modules.gates import LstmLayers
from .base import LossModel, SourceEncoder, add_auxiliary, register_family
from .topics import TopicConfig, TopicDecoder, initialise
from .word_layers import word_embedding


@dataclass
class ScLstmConfig(TopicConfig):
    """Options of the model. All families that write essays from topics share sizes, dropout and initialisation."""

    num_layers: int = option(2, "number of LSTM layers; the output layer reads all of them", least=1)
    control_loss_weight: float = option(
        0.0,
        "weight of the losses of Wen et al. for unused keywords and for using several at once; "
        "0 = not used, as in the code of the MTA-LSTM authors",
        least=0,
    )


PRESETS = {"sc_lstm_small": {"embed_dim": 128, "hidden_size": 256}}  # small enough to train on a CPU


@dataclass(frozen=True)
class KeywordMemory(Memory):
    """The encoded keywords in the form that decoder steps read."""

    rows: KeywordRows
    first: Tensor  # d_0, float32, (B, k)


@dataclass(frozen=True)
class KeywordState(State):
    """State after a step, which the next step reads."""

    hidden: Tensor  # h of each layer, (N, L, H)
    cell: Tensor  # c of each layer, (N, L, H)
    outputs: Tensor  # h of all layers after dropout, (N, L * H)
    keywords: Tensor  # d, float32, (N, k)


class ScLstmDecoder(TopicDecoder[KeywordMemory, KeywordState]):
    """LSTM layers with the keywords added to their cells. Words are scored from the outputs of all layers.

    ``lstm`` contains the weights of the layers, E -> H. ``gate`` decides which keywords are consumed. Dropout is
    applied to the input words and to the output of every layer.
    """

    traced = ("keywords",)

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: ScLstmConfig) -> None:
        # These are created before the output layer, so that a seed still gives the same initial weights as in earlier
        # versions.
        lstm = nn.LSTM(cfg.embed_dim, cfg.hidden_size, cfg.num_layers, batch_first=True)
        gate = KeywordGate(embed_tokens.num_embeddings, cfg.embed_dim, cfg.num_layers, cfg.hidden_size)
        super().__init__(dictionary, embed_tokens, cfg.num_layers * cfg.hidden_size)
        self.lstm = lstm
        self.gate = gate
        self.control_loss_weight = cfg.control_loss_weight
        self.dropout = nn.Dropout(cfg.dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> KeywordMemory:
        return KeywordMemory(self.gate.pick(encoder_out["topic_tokens"]), encoder_out["first_keywords"])

    def begin(self, memory: KeywordMemory) -> KeywordState:
        outputs = torch.zeros_like(memory.rows.write[:, 0])  # (B, L * H)
        layers = outputs.unflatten(-1, (self.lstm.num_layers, -1))  # type: ignore[no-untyped-call]
        return KeywordState(layers, layers, outputs, memory.first)

    def step(self, words: Tensor, memory: KeywordMemory, state: KeywordState) -> tuple[Step, KeywordState]:
        """See ``StepDecoder``. The features are the outputs of all layers. ``extra`` has ``keywords`` d, (N, T, k)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        word_parts = self.gate.word_part(embedded, memory.rows)  # (N, T, k)
        layers = LstmLayers(self.lstm)
        hidden, cell = list(state.hidden.unbind(dim=1)), list(state.cell.unbind(dim=1))
        outputs, keywords = [state.outputs], [state.keywords]
        # The reading gate decides which keywords are consumed, given the word and the previous outputs. A vector of the
        # remaining keywords is added to the cell of every layer, and the outputs of all layers are the features.
        for gates, word_part in zip(layers.given(embedded).unbind(dim=1), word_parts.unbind(dim=1), strict=True):
            keywords_left, added = self.gate.step(keywords[-1], word_part, outputs[-1], memory.rows)
            keywords.append(keywords_left)
            added_by_layer = added.chunk(self.lstm.num_layers, dim=-1)
            lower = layers.advance(gates, (hidden, cell), self.dropout, added_by_layer)
            outputs.append(torch.cat([*lower, self.dropout(hidden[-1])], dim=-1))
        state = KeywordState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), outputs[-1], keywords[-1])
        extra = {"keywords": torch.stack(keywords[1:], dim=1)}
        return Step(torch.stack(outputs[1:], dim=1), None, extra=extra), state

    def step_loss(self, step: Step, memory: KeywordMemory, target: Tensor, label_smoothing: float) -> LossSums:
        """Return the summed losses against ``target`` (B, T). The loss of Wen et al. is logged as ``control``."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        if not self.control_loss_weight:
            return sums
        control = control_loss(step.extra["keywords"], memory.first, target.eq(self.padding_idx))
        return add_auxiliary(sums, "control", control, self.control_loss_weight)


class ScLstmEncoder(SourceEncoder):
    """An encoder that only finds the topic words. It has no weights."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Find the topics of a batch, and return ``topic_tokens`` (B, k) and ``first_keywords`` d_0 (B, k), float32."""
        words = topic_words(src_tokens, self.padding_idx, self.eos_idx)
        return {
            "topic_tokens": words.tokens,
            "first_keywords": first_keywords(words.tokens, words.padding_mask),
        }


@register_family("sc_lstm", ScLstmConfig, PRESETS)
class ScLstmModel(LossModel):
    """An LSTM language model with a vector of keywords.

    The vector is added to its cells until the keywords are used.
    """

    capabilities = Capabilities(adds_losses=True)

    @classmethod
    def build(cls, cfg: ScLstmConfig, task: FairseqTask) -> "ScLstmModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        model = cls(ScLstmEncoder(dictionary), ScLstmDecoder(dictionary, embed_tokens, cfg))
        initialise(model, cfg)
        return model
