"""``mta_lstm``: topic-to-essay generation with MTA-LSTM, TAT-LSTM and TAV-LSTM (Feng et al., IJCAI 2018).

With attention, the input of a step depends on the output of the previous step. Therefore training loops over the words
of the essay, as generation does. All other terms are computed once per batch: the parts of the gates that come from
words and from topics, the topics' part of the attention, and, after the loop, the scores of the vocabulary. Without
attention, one fused LSTM call computes all steps.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``k`` topic slots, ``E`` embedding
width, ``H`` hidden width, ``L`` layers, ``A`` attention width, ``V`` words.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from torch.nn.functional import linear

from ..capabilities import Capabilities
from ..errors import UserError
from ..fields import option
from ..modules import (
    AdditiveAttention,
    LossSums,
    LstmStart,
    LstmState,
    Memory,
    State,
    Step,
    TopicImportance,
    attend_uncovered,
    attention_weights,
    importance_loss,
    repeat_for_hypotheses,
    scatter_to_source,
    stacked_lstm,
    topic_words,
    weighted_sum,
)
from ..modules.gates import LstmLayers
from ..modules.looped_linear import LoopedLinear
from .base import LossModel, SourceEncoder, add_auxiliary, register_family
from .topics import TopicConfig, TopicDecoder, initialise
from .word_layers import word_embedding


@dataclass
class MtaLstmConfig(TopicConfig):
    """Options of the model. All families that write essays from topics share sizes, dropout and initialisation."""

    topic_mode: ChoiceEnum(("mta", "tat", "tav")) = option(  # type: ignore[valid-type]
        "mta",
        "mta: attention over the topics with coverage; tat: attention without coverage; "
        "tav: the mean of the topics is the decoder's initial state",
    )
    num_layers: int = option(2, "LSTM layers", least=1)
    attention_dim: int = option(
        0,
        "hidden width of the attention; 0 = --hidden-size, as in the authors' code",
        least=0,
        needs={"topic_mode": ("mta", "tat")},
    )
    topic_slots: int = option(
        5,
        "maximum number of topics of an essay (k) with --topic-mode mta, whose phi has a fixed size",
        least=1,
        needs={"topic_mode": ("mta",)},
    )
    coverage_loss_weight: float = option(
        0.1,
        "weight of sum_j (phi_j - sum_t alpha_tj)^2 (authors' code, not in the paper); 0 = not used",
        least=0,
        needs={"topic_mode": ("mta",)},
    )


PRESETS = {
    "tat_lstm": {"topic_mode": "tat"},
    "tav_lstm": {"topic_mode": "tav"},
    "mta_lstm_small": {"embed_dim": 128, "hidden_size": 256},  # small enough to train on a CPU
}


class TopicAverageDecoder(TopicDecoder[LstmStart, LstmState]):
    """Decoder of TAV-LSTM, whose initial state is a feed-forward map of the mean topic vector.

    The LSTM is ``batch_first``, E -> H.

    Dropout is applied to the input words and to the outputs.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: MtaLstmConfig) -> None:
        # The LSTM is created before the output layer, so that a seed gives the same initial weights as in earlier
        # versions.
        lstm = stacked_lstm(cfg.embed_dim, cfg.hidden_size, cfg.num_layers, cfg.dropout)
        super().__init__(dictionary, embed_tokens, cfg.hidden_size)
        self.lstm = lstm
        self.start_proj = nn.Linear(cfg.embed_dim, 2 * cfg.num_layers * cfg.hidden_size)
        self.dropout = nn.Dropout(cfg.dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> LstmStart:
        """See ``StepDecoder``. In every layer, h_0 and c_0 are tanh of a linear map of the mean topic."""
        count = (~encoder_out["topic_padding_mask"]).sum(dim=1, keepdim=True).clamp(min=1)  # (B, 1)
        mean = encoder_out["topics"].sum(dim=1) / count  # slots without a topic are zero
        start = torch.tanh(self.start_proj(mean)).unflatten(1, (2, self.lstm.num_layers, -1))  # type: ignore[no-untyped-call]  # (B, 2, L, H)
        hidden, cell = start.permute(1, 2, 0, 3).contiguous()
        return LstmStart(LstmState(hidden, cell))

    def begin(self, memory: LstmStart) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: LstmStart, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``. The features are the outputs of the top layer, (N, T, H)."""
        outputs, last = self.lstm(self.dropout(self.embed_tokens(words)), (state.hidden, state.cell))
        return Step(self.dropout(outputs), None), LstmState(*last)


@dataclass(frozen=True)
class TopicMemory(Memory):
    """The encoded topics in the form that decoder steps read."""

    keys: Tensor  # U T_j, (B, k, A)
    gates: Tensor  # contribution of each topic to the first layer's gates, (B, k, 4H)
    padding_mask: Tensor  # (B, k)
    importance: Tensor | None  # phi, (B, k). None without coverage
    slot: Tensor  # slot of each source position, (B, S)


@dataclass(frozen=True)
class TopicState(State):
    """State after a step, which the next step reads."""

    hidden: Tensor  # h of each layer, (N, L, H)
    cell: Tensor  # c of each layer, (N, L, H)
    output: Tensor  # h of the top layer after dropout, (N, H)
    coverage: Tensor  # C, float32, (N, k)


class TopicAttentionDecoder(TopicDecoder[TopicMemory, TopicState]):
    """Decoder of MTA-LSTM. Without coverage, it is the decoder of TAT-LSTM.

    At each step, the LSTM reads a word and the mean of the topics, weighted by attention.

    If the encoder returns phi, the importance of each topic, the attention scores are multiplied by the coverage. The
    attention to the topics is computed from the last output of the top layer. Dropout is applied to the input words and
    to the output of every layer.
    """

    traced = ("topic_weights", "importance")

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: MtaLstmConfig) -> None:
        hidden, embed_dim = cfg.hidden_size, cfg.embed_dim
        # These modules are created before the output layer, so that a seed gives the same initial weights as in earlier
        # versions. The input of the LSTM is a word and the mean of the topics.
        lstm = nn.LSTM(2 * embed_dim, hidden, cfg.num_layers, batch_first=True)
        attention = AdditiveAttention(hidden, embed_dim, cfg.attention_dim or hidden, query_bias=True)
        super().__init__(dictionary, embed_tokens, hidden)
        self.lstm = lstm
        self.attention = attention
        self.coverage_loss_weight = cfg.coverage_loss_weight
        self.dropout = nn.Dropout(cfg.dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> TopicMemory:
        topics = encoder_out["topics"]
        return TopicMemory(
            self.attention.project_keys(topics),
            linear(topics, self.lstm.all_weights[0][0][:, self.embed_tokens.embedding_dim :]),
            encoder_out["topic_padding_mask"],
            encoder_out.get("importance"),
            encoder_out["slot"],
        )

    def begin(self, memory: TopicMemory) -> TopicState:
        zero = memory.gates.new_zeros(len(memory.gates), self.lstm.num_layers, self.lstm.hidden_size)
        coverage = torch.ones_like(memory.padding_mask, dtype=torch.float)
        return TopicState(zero, zero, zero[:, -1], coverage)

    def step(self, words: Tensor, memory: TopicMemory, state: TopicState) -> tuple[Step, TopicState]:
        """See ``StepDecoder``. The features are the outputs of the top layer. ``extra`` has ``topic_weights``."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        layers, query_map = LstmLayers(self.lstm), self.attention.query_map()
        hidden, cell = list(state.hidden.unbind(dim=1)), list(state.cell.unbind(dim=1))
        outputs, coverage = [state.output], state.coverage
        weights = []
        # The attention uses the output of the previous step. Therefore the attention is computed before the LSTM, and
        # the attended mean topic is added to the gates of this step.
        for gates in layers.given(embedded).unbind(dim=1):
            attended, coverage = self._attend(outputs[-1], memory, coverage, query_map)
            weights.append(attended)
            # The contribution of the mean topic to the gates is the mean of the topics' contributions.
            first_gates = gates + weighted_sum(attended.to(gates.dtype), memory.gates)
            layers.advance(first_gates, (hidden, cell), self.dropout)
            outputs.append(self.dropout(hidden[-1]))
        state = TopicState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), outputs[-1], coverage)
        topic_weights = torch.stack(weights, dim=1)  # (N, T, k)
        attention = scatter_to_source(topic_weights, repeat_for_hypotheses(memory.slot, len(words)))
        return Step(torch.stack(outputs[1:], dim=1), attention, extra={"topic_weights": topic_weights}), state

    def step_loss(self, step: Step, memory: TopicMemory, target: Tensor, label_smoothing: float) -> LossSums:
        """Return the summed losses against ``target`` (B, T). The coverage loss is logged as ``coverage``."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        if memory.importance is None or not self.coverage_loss_weight:
            return sums
        ended = target.eq(self.padding_idx)
        missed = importance_loss(step.extra["topic_weights"], memory.importance, memory.padding_mask, ended)
        return add_auxiliary(sums, "coverage", missed, self.coverage_loss_weight)

    def _attend(
        self, output: Tensor, memory: TopicMemory, coverage: Tensor, query_map: LoopedLinear
    ) -> tuple[Tensor, Tensor]:
        """Return the attention weights (N, k) and the updated coverage C (N, k).

        The weights are computed from the top layer's last output (N, H).
        """
        scores = self.attention.scores(output, memory.keys, query_map=query_map)  # (N, k)
        if memory.importance is None:
            return attention_weights(scores.float(), memory.padding_mask), coverage
        topics = (repeat_for_hypotheses(tensor, len(scores)) for tensor in (memory.importance, memory.padding_mask))
        return attend_uncovered(scores, coverage, *topics)


class MtaLstmEncoder(SourceEncoder):
    """Embed the topics. Only phi (the importance of topics, used with coverage) depends on the order of the topics."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: MtaLstmConfig) -> None:
        super().__init__(dictionary)
        covers = str(cfg.topic_mode) == "mta"
        self.embed_tokens = embed_tokens
        self.num_slots = cfg.topic_slots if covers else None  # k, or None if any number of topics is allowed
        # computes phi, the importance of each topic
        self.importance = TopicImportance(cfg.topic_slots, cfg.embed_dim) if covers else None

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        essay_lengths: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Embed the topics of a batch.

        Args:
            essay_lengths: number of words of each essay including the end symbol, (B,). Required with coverage.

        Returns:
            ``topics`` (B, k, E), zero in slots without a topic; ``topic_padding_mask`` (B, k); ``slot`` (B, S), see
            ``TopicWords``; ``importance`` phi (B, k), with coverage.

        Raises:
            UserError: if there are more topics than slots, or if required lengths are missing.
        """
        try:
            words = topic_words(src_tokens, self.padding_idx, self.eos_idx, self.num_slots)
        except ValueError as error:
            raise UserError(f"mta_lstm: {error} Train with more --topic-slots, or give fewer topics.") from error
        topics = self.embed_tokens(words.tokens)
        encoder_out = {
            "topics": topics,
            "topic_padding_mask": words.padding_mask,
            "slot": words.slot,
        }
        if self.importance is not None:
            if essay_lengths is None:
                raise UserError("mta_lstm must know how long an essay is to be: use --task topic_essay.")
            encoder_out["importance"] = self.importance(topics, essay_lengths)
        return encoder_out


@register_family("mta_lstm", MtaLstmConfig, PRESETS)
class MtaLstmModel(LossModel):
    """An LSTM language model that attends to topic words and tracks how much of each topic is still to be written."""

    capabilities = Capabilities(adds_losses=True)

    encoder: MtaLstmEncoder

    @classmethod
    def build(cls, cfg: MtaLstmConfig, task: FairseqTask) -> "MtaLstmModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        encoder = MtaLstmEncoder(dictionary, embed_tokens, cfg)
        decoder = TopicAverageDecoder if str(cfg.topic_mode) == "tav" else TopicAttentionDecoder
        model = cls(encoder, decoder(dictionary, embed_tokens, cfg))
        needs_length = encoder.importance is not None  # the importance phi of each topic depends on the length
        model.capabilities = replace(cls.capabilities, needs_length=needs_length)
        initialise(model, cfg)
        return model
