"""``pointer_generator``: Get To The Point (See et al., ACL 2017, arXiv 1704.04368), with and without coverage.

The attention of a step is part of the input of the next step, so training runs step by step, like generation. All terms
that do not depend on previous steps are computed for all steps at once. These are the keys, the embedded words, and all
terms from the gate to the vocabulary scores.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``V`` base vocabulary, ``E`` embedding
width, ``H`` hidden width, ``A`` attention width.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..fields import option
from ..modules import (
    AdditiveAttention,
    Copying,
    LossSums,
    QueryEmbedding,
    State,
    Step,
    attention_weights,
    base_ids,
    coverage_loss,
    weighted_sum,
)
from ..modules.gates import LoopedCell
from ..modules.looped_linear import LoopedLinear
from .base import add_auxiliary, register_family
from .copying import CopyingDecoder, CopyingModel, CopyMemory, no_copy_mask
from .recurrent_encoders import LstmEncoder
from .word_layers import OutputLayerConfig, WordVectorsConfig, build_output_layer, start_from_vectors, word_embedding

logger = logging.getLogger(__name__)


@dataclass
class PointerGeneratorConfig(OutputLayerConfig, WordVectorsConfig):
    """Options of the model. Section and equation numbers refer to the paper."""

    embed_dim: int = option(128, "width of the embedding shared by encoder and decoder input (sec. 5)", least=1)
    hidden_size: int = option(256, "width of the decoder and of each direction of the encoder (sec. 5)", least=1)
    attention_dim: int = option(512, "width of the hidden layer of the attention (eq. 1)", least=1)
    coverage: bool = option(
        False,
        "add coverage to the attention, and penalise repeated attention (sec. 2.3); train "
        "without it first, then use this option with --finetune-from-model",
    )
    coverage_weight: float = option(
        1.0, "weight of the coverage loss, with --coverage (lambda of eq. 13)", least=0, needs={"coverage": ()}
    )
    weight_init: ChoiceEnum(("see2017", "pytorch")) = option(  # type: ignore[valid-type]
        "see2017",
        "initialisation of weights: see2017 = as in the authors' code (for Adagrad); pytorch = PyTorch's defaults",
    )


PRESETS = {
    "pointer_generator_see2017": {},  # another name for the defaults
    "pointer_generator_coverage": {"coverage": True},
}


@dataclass(frozen=True)
class PointerMemory(CopyMemory):
    """The encoder's output in the form that decoder steps read.

    Positions in ``no_copy`` are neither copied nor attended to.
    """

    states: Tensor  # (B, S, 2H)
    keys: Tensor  # keys of the attention, (B, S, A)
    start_hidden: Tensor  # (B, H)
    start_cell: Tensor  # (B, H)


@dataclass(frozen=True)
class PointerState(State):
    """State after a step, which the next step reads."""

    hidden: Tensor  # h_t, (N, H)
    cell: Tensor  # c_t, (N, H)
    context: Tensor  # h*_t, (N, 2H)
    coverage: Tensor  # coverage of eq. 10: the summed attention of all previous steps, (N, S), float32


class PointerGeneratorDecoder(CopyingDecoder[PointerMemory, PointerState]):
    """An LSTM with attention, and a gate between generating a word and copying an attended word.

    Args:
        attention: attention from the state [c_t; h_t] to the encoder outputs.
        output: V' of eq. 4, or a query to the word embeddings.
        coverage_weight: lambda of eq. 13. It is used only if the attention has coverage.
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
        # W_x and b of the released code, for the word and h*_{t-1}
        self.merge = nn.Linear(width + 2 * hidden_size, width)
        self.cell = nn.LSTMCell(width, hidden_size)
        self.attention = attention
        self.combine = nn.Linear(3 * hidden_size, hidden_size)  # V and b of eq. 4
        self.gate = nn.Linear(4 * hidden_size + width, 1)  # w_h*, w_s, w_x and b_ptr of eq. 8
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
        """See ``StepDecoder``. The features are the queries of eq. 4. ``extra`` has ``coverage`` (N, T, S)."""
        embedded = self.embed_tokens(base_ids(words, self.num_base, self.unk_index))  # (N, T, E)
        width = embedded.size(-1)
        word_parts = nn.functional.linear(embedded, self.merge.weight[:, :width], self.merge.bias)  # (N, T, E)
        # the columns of W_x for h*_{t-1}
        context_map, cell = LoopedLinear(self.merge.weight[:, width:]), LoopedCell(self.cell)
        query_map = self.attention.query_map()
        steps = []
        # Only the attention and the state must be computed in the loop. The gate and the query are computed below for
        # all steps at once.
        for word_part in word_parts.unbind(dim=1):
            merged = word_part + context_map(state.context)  # x_t, (N, E)
            hidden, new_cell = cell.advance(merged, state.hidden, state.cell)  # h_t and c_t, (N, H)
            query = torch.cat([new_cell, hidden], dim=-1)
            scores = self.attention.scores(query, memory.keys, state.coverage, query_map).float()  # e_t, (N, S), eq. 11
            weights = attention_weights(scores, memory.no_copy)  # a_t, (N, S), eq. 2
            context = weighted_sum(weights.to(memory.states.dtype), memory.states)  # h*_t, (N, 2H), eq. 3
            steps.append((hidden, new_cell, context, merged, scores, weights, state.coverage))
            state = PointerState(hidden, new_cell, context, state.coverage + weights)  # eq. 10
        hidden, cells, context, merged, scores, weights, coverage = (
            torch.stack(tensors, dim=1)  # (N, T, ...). ``coverage`` is the value before each step
            for tensors in zip(*steps, strict=True)
        )
        gate = self.gate(torch.cat([context, cells, hidden, merged], dim=-1))  # logit of eq. 8
        query = self.combine(torch.cat([hidden, context], dim=-1))  # (N, T, H)
        # The copy scores equal the log of the attention up to a constant, so the gate's mixture is computed in log
        # space.
        copying = Copying(scores, gate.squeeze(-1))
        return Step(query, weights, copying, {"coverage": coverage}), state

    def step_loss(self, step: Step, memory: PointerMemory, target: Tensor, label_smoothing: float) -> LossSums:
        """Return the summed losses against ``target`` (B, T).

        They include the coverage loss, which is logged as ``coverage``.
        """
        sums = super().step_loss(step, memory, target, label_smoothing)
        if self.attention.coverage_weight is None:
            return sums
        assert step.attention is not None
        repeated = coverage_loss(step.attention, step.extra["coverage"])  # (B, T), eq. 12
        repeated = repeated.masked_select(target.ne(self.padding_idx)).sum()
        return add_auxiliary(sums, "coverage", repeated, self.coverage_weight)  # eq. 13

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Add initial values of w_c to a checkpoint that was trained without coverage.

        The training can then continue with coverage.
        """
        new = self.attention.coverage_weight
        key = f"{name}.attention.coverage_weight"
        if new is not None and key not in state_dict:
            logger.warning("the checkpoint was trained without --coverage: its new weights start untrained")
            state_dict[key] = new.detach().clone()
        return super().upgrade_state_dict_named(state_dict, name)


LSTM_BOUND = 0.02
SMALL_STD = 1e-4


class PointerGeneratorEncoder(LstmEncoder):
    """A bidirectional LSTM with one layer, and the bridge from its final states to the decoder's initial state."""

    lstm: nn.LSTM

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        lstm = nn.LSTM(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        super().__init__(dictionary, embed_tokens, lstm)
        self.hidden_bridge = nn.Linear(2 * hidden_size, hidden_size)
        self.cell_bridge = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch. The end symbol is read like a word, but is neither attended to nor copied.

        The paper's sources have no end symbol. Here they have one, so attention and copying treat it like padding.

        Returns:
            ``encoder_out`` (B, S, 2H), zero at padding; ``no_copy_mask`` (B, S), ``True`` at positions that are neither
            attended to nor copied; ``src_tokens`` unchanged; ``start_hidden`` and ``start_cell`` of the decoder, each
            (B, H).
        """
        encoded = super().forward(src_tokens)
        final_hidden = torch.cat([*encoded["final_hidden"]], dim=-1)  # (2, B, H) -> (B, 2H)
        final_cell = torch.cat([*encoded["final_cell"]], dim=-1)
        return {
            "encoder_out": encoded["encoder_out"],
            "no_copy_mask": no_copy_mask(src_tokens, self.dictionary),
            "src_tokens": src_tokens,
            "start_hidden": torch.relu(self.hidden_bridge(final_hidden)),  # (B, 2H) -> (B, H)
            "start_cell": torch.relu(self.cell_bridge(final_cell)),
        }


@register_family("pointer_generator", PointerGeneratorConfig, PRESETS)
class PointerGeneratorModel(CopyingModel):
    """A bidirectional LSTM encoder, and an LSTM decoder that generates words or copies them through its attention."""

    capabilities = replace(CopyingModel.capabilities, adds_losses=True)

    encoder: PointerGeneratorEncoder
    decoder: PointerGeneratorDecoder

    @classmethod
    def build(cls, cfg: PointerGeneratorConfig, task: FairseqTask) -> "PointerGeneratorModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        attention = AdditiveAttention(
            2 * cfg.hidden_size, 2 * cfg.hidden_size, cfg.attention_dim, coverage=cfg.coverage, query_bias=True
        )
        output_layer = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        encoder = PointerGeneratorEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PointerGeneratorDecoder(
            dictionary, embed_tokens, cfg.hidden_size, attention, output_layer, cfg.coverage_weight
        )
        model = cls(encoder, decoder)
        if str(cfg.weight_init) == "see2017":
            initialise_as_see2017(encoder, decoder)
        start_from_vectors(embed_tokens, cfg.embedding_file, dictionary)
        return model


@torch.no_grad()
def initialise_as_see2017(encoder: PointerGeneratorEncoder, decoder: PointerGeneratorDecoder) -> None:
    """Initialise all weights as in the authors' code, which relies on TensorFlow's defaults for some of them.

    LSTMs are initialised uniformly. Embedding, bridge and output layer are close to zero. Other matrices use Glorot's
    initialisation. Biases are zero, except for the forget gates of the LSTMs and the small biases of bridge and output
    layer.
    """
    for module in [*encoder.modules(), *decoder.modules()]:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for lstm in (encoder.lstm, decoder.cell):
        _initialise_lstm(lstm)
    embedding = encoder.embed_tokens
    _init_small_(embedding.weight)
    nn.init.zeros_(embedding.weight[embedding.padding_idx])
    output = getattr(decoder.output.score, "out_proj", None)  # None if words are scored by querying the embeddings
    for linear in (encoder.hidden_bridge, encoder.cell_bridge, *([] if output is None else [output])):
        _init_small_(linear.weight)
        _init_small_(linear.bias)
    attention = decoder.attention
    _init_glorot_(attention.vector, attention.vector.numel(), attention.vector.numel())
    if attention.coverage_weight is not None:
        _init_glorot_(attention.coverage_weight, 1, attention.coverage_weight.numel())


def _initialise_lstm(lstm: nn.LSTM | nn.LSTMCell) -> None:
    for name, weight in lstm.named_parameters():
        if name.startswith("weight"):
            nn.init.uniform_(weight, -LSTM_BOUND, LSTM_BOUND)
        else:
            nn.init.zeros_(weight)
        if name.startswith("bias_ih"):
            nn.init.ones_(weight[lstm.hidden_size : 2 * lstm.hidden_size])  # forget gates


def _init_small_(weight: Tensor) -> None:
    nn.init.trunc_normal_(weight, std=SMALL_STD, a=-2 * SMALL_STD, b=2 * SMALL_STD)


def _init_glorot_(vector: nn.Parameter, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(vector, -bound, bound)
