"""``rnn_distract``: distraction over contents, attention and hypotheses (Chen et al., IJCAI 2016, arXiv 1610.08462).

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``P`` previous steps, ``M`` width of
the source memory, ``H`` hidden width, ``E`` embedding width, ``A`` attention width, ``V`` dictionary size.
"""

from dataclasses import dataclass, replace

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..fields import option
from ..modules import (
    AdditiveAttention,
    ContentDistraction,
    State,
    Step,
    attention_weights,
    greatest_likeness,
    least_divergence,
    weighted_sum,
)
from .base import LossModel, WordScores, register_family
from .gru_attention import GruAttentionConfig, GruAttentionDecoder, GruMemory
from .recurrent_encoders import GruEncoder
from .word_layers import build_output_layer, word_embedding


@dataclass
class RnnDistractConfig(GruAttentionConfig):
    """Options of the model. The paper was not available. The equations therefore follow the authors' code."""

    distract_attention: float = option(
        0.0,
        "weight of the attention's divergence from all earlier steps, which raises the rank of hypotheses "
        "(plain beam search only)",
        least=0,
    )
    distract_content: float = option(
        0.0,
        "weight of the context vector's cosine to the most similar earlier step, which lowers the rank of hypotheses "
        "(plain beam search only)",
        least=0,
    )
    distract_state: float = option(
        0.0,
        "weight of the decoder state's cosine to the most similar earlier step, which lowers the rank of hypotheses "
        "(plain beam search only)",
        least=0,
    )


@dataclass(frozen=True)
class ReadBefore(State):
    """The previous steps of each hypothesis in a search with distraction."""

    attention: Tensor  # (N, P, S)
    content: Tensor  # (N, P, M)
    hidden: Tensor  # (N, P, H)
    preference: Tensor  # preference for the last step, which is part of the hypothesis score, (N,)


@dataclass(frozen=True)
class DistractState(State):
    """State after a step, which the next step reads."""

    hidden: Tensor  # s_t, (N, H)
    content: Tensor  # sum of the contents c_t so far, (N, M)
    coverage: Tensor  # sum of the attention weights so far, (N, S)
    before: ReadBefore | None  # None if the search does not use distraction


class RnnDistractDecoder(GruAttentionDecoder[DistractState]):
    """s'_t = GRU(e(y_{t-1}), s_{t-1}); c_t is the context of distracted attention from s'_t; s_t = GRU(c_t, s'_t).

    The coverage distracts the attention from positions that were attended to before. Words are scored from a readout of
    width E. Dropout is applied to embeddings and readout.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: RnnDistractConfig) -> None:
        hidden, embed_dim, memory_dim = cfg.hidden_size, cfg.embed_dim, 2 * cfg.hidden_size
        # These are created before the other modules, so that a seed still gives the same initial weights as in earlier
        # versions.
        attention = AdditiveAttention(hidden, memory_dim, cfg.attention_dim or hidden, coverage=True, query_bias=True)
        output = build_output_layer(cfg, embed_dim, embed_dim, dictionary)
        super().__init__(dictionary, embed_tokens, hidden)
        self.word_cell = nn.GRUCell(embed_dim, hidden)
        self.attention = attention
        self.content_distraction = ContentDistraction(memory_dim)
        self.content_cell = nn.GRUCell(memory_dim, hidden)
        self.readout = nn.Linear(hidden + embed_dim + memory_dim, embed_dim)
        self.output = output
        self.dropout = nn.Dropout(cfg.dropout)
        self.distance_weights = cfg.distract_attention, cfg.distract_content, cfg.distract_state  # 0 = not used

    def begin(self, memory: GruMemory) -> DistractState:
        sentences, length, width = memory.states.shape
        history = None
        if any(self.distance_weights) and not self.training:
            empty = memory.states.new_zeros
            empty_history = (
                empty(sentences, 0, length),
                empty(sentences, 0, width),
                empty(sentences, 0, memory.start.size(1)),
            )
            history = ReadBefore(*empty_history, preference=empty(sentences, dtype=torch.float))
        no_content = memory.states.new_zeros(sentences, width)
        return DistractState(memory.start, no_content, memory.states.new_zeros(sentences, length), history)

    def step(self, words: Tensor, memory: GruMemory, state: DistractState) -> tuple[Step, DistractState]:
        """See ``StepDecoder``. The features are the readouts. ``extra`` has the preference for the last step."""
        features, weights = [], []
        preferred = state.hidden.new_zeros(len(words), dtype=torch.float)
        for embedded in self.dropout(self.embed_tokens(words)).unbind(dim=1):
            # A step has two cells. The first cell reads the word, and the second cell reads the distracted context of
            # the first cell's state.
            hidden = self.word_cell(embedded, state.hidden)  # s'_t
            scores = self.attention.scores(hidden, memory.keys, state.coverage)
            attended = attention_weights(scores, memory.padding_mask)  # alpha_t, (N, S)
            content = self.content_distraction(weighted_sum(attended, memory.states), state.content)  # c_t
            hidden = self.content_cell(content, hidden)  # s_t
            # Hypotheses are ranked only in generation, one word at a time.
            history = state.before if words.size(1) == 1 else None
            if history is not None:
                history = self._look_back(history, attended, content, hidden)
                assert state.before is not None
                preferred = history.preference - state.before.preference
            state = DistractState(hidden, state.content + content, state.coverage + attended, history)
            features.append(torch.tanh(self.readout(torch.cat([hidden, embedded, content], dim=-1))))
            weights.append(attended)
        readouts = self.dropout(torch.stack(features, dim=1))
        return Step(readouts, torch.stack(weights, dim=1), extra={"prefer": preferred}), state

    def finish(self, step: Step, memory: GruMemory, scores: WordScores, log_sum: Tensor) -> Tensor:
        """See ``StepDecoder``.

        Hypotheses are also ranked by how much the last step differs from all previous steps.
        """
        return log_sum - step.extra["prefer"]

    def _look_back(self, before: ReadBefore, attention: Tensor, content: Tensor, hidden: Tensor) -> ReadBefore:
        """Add a step to the history, and compute its preference from its distances to the previous steps.

        The result contains the preference for this step, which replaces the preference for the previous step.
        """
        preference = torch.zeros_like(before.preference)
        if before.hidden.size(1):
            attention_weight, content_weight, state_weight = self.distance_weights
            preference = (
                attention_weight * least_divergence(attention, before.attention)
                - content_weight * greatest_likeness(content, before.content)
                - state_weight * greatest_likeness(hidden, before.hidden)
            )
        attentions, contents, states = (
            torch.cat([old, new.unsqueeze(1)], dim=1)
            for old, new in ((before.attention, attention), (before.content, content), (before.hidden, hidden))
        )
        return ReadBefore(attentions, contents, states, preference)


@register_family("rnn_distract", RnnDistractConfig)
class RnnDistractModel(LossModel):
    """A bidirectional GRU encoder, and a decoder that is distracted from contents that it has already read."""

    encoder: GruEncoder
    decoder: RnnDistractDecoder

    @classmethod
    def build(cls, cfg: RnnDistractConfig, task: FairseqTask) -> "RnnDistractModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = RnnDistractDecoder(dictionary, embed_tokens, cfg)
        model = cls(GruEncoder(dictionary, embed_tokens, cfg.hidden_size, cfg.dropout), decoder)
        model.capabilities = replace(cls.capabilities, ranks=any(decoder.distance_weights))
        return model
