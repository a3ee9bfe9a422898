"""``copynet``: generating and copying in one softmax (Gu et al., ACL 2016, arXiv 1603.06393).

The paper's baselines RNNSearch and Enc-Dec omit parts of it. The defaults are the settings of the paper's synthetic
task.

A step needs the copy scores of the previous step (selective read), so training also loops over the target words. All
other terms are computed once per batch. Before the loop, these are the source's terms in attention and copy scores, and
the matches between target and source words. After the loop, they are the scores of the vocabulary.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``M`` width of the source memory, ``H``
hidden width, ``E`` embedding width, ``A`` attention width, ``V`` base vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..errors import UserError
from ..fields import option
from ..modules import (
    AdditiveAttention,
    Copying,
    State,
    Step,
    attention_weights,
    base_ids,
    fold_hypotheses,
    masked_softmax,
    repeat_for_hypotheses,
    weighted_sum,
)
from ..modules.gates import EarlyResetCell, LoopedCell
from .base import register_family
from .copying import CopyingDecoder, CopyingModel, CopyMemory, no_copy_mask
from .recurrent_encoders import GruEncoder
from .word_layers import OutputLayerConfig, WordVectorsConfig, build_output_layer, start_from_vectors, word_embedding


@dataclass
class CopyNetConfig(OutputLayerConfig, WordVectorsConfig):
    """Options of the model. Section numbers refer to the CopyNet paper."""

    system: ChoiceEnum(("copynet", "rnnsearch", "enc_dec")) = option(  # type: ignore[valid-type]
        "copynet", "copynet; rnnsearch = without copying and selective read; enc_dec = without attention either"
    )
    embed_dim: int = option(150, "width of the embedding shared by encoder and decoder (sec. 5.1)", least=1)
    hidden_size: int = option(300, "width of the decoder, and of each direction of the encoder (sec. 5.1)", least=1)
    attention_dim: int = option(
        0,
        "hidden width of the attention; 0 = --hidden-size; 1000 in the authors' code",
        least=0,
        needs={"system": ("copynet", "rnnsearch")},
    )
    cell: ChoiceEnum(("gru", "lstm", "gru-early-reset")) = option(  # type: ignore[valid-type]
        "gru",
        "recurrent cell of the decoder: gru (paper); lstm; gru-early-reset, in decoder and encoder, which resets the "
        "state before the linear map as the authors' code does",
    )
    dropout: float = option(0.0, "dropout on the embeddings and on the readout")
    readout: ChoiceEnum(("state", "full")) = option(  # type: ignore[valid-type]
        "state",
        "input of the scores of generated words: the decoder state (eq. 7), or as in the authors' code also "
        "the context, the last word and the selective read",
    )
    attention_coverage: bool = option(
        False,
        "add the attention that each position has received so far to its score (authors' code)",
    )
    location_width: int = option(
        0,
        "append the position of each source word, one-hot of this width; 57 in the authors' code",
        least=0,
    )
    oov_input: ChoiceEnum(("unk", "copy")) = option(  # type: ignore[valid-type]
        "unk",
        "decoder input for a copied word outside the vocabulary: <unk>, or a learned vector",
        needs={"system": ("copynet",)},
    )


_LCSTS = {"embed_dim": 350, "hidden_size": 500}  # sec. 5.2
# Options for LCSTS and the synthetic task that the authors' released configurations add to the paper's network.
# docs/equations.md lists further differences of the released network, for which there are no options.
_FULL = {"attention_dim": 1000, "readout": "full", "attention_coverage": True}
PRESETS = {
    "rnnsearch": {"system": "rnnsearch"},
    "enc_dec": {"system": "enc_dec"},
    "copynet_lcsts": _LCSTS,
    "rnnsearch_lcsts": {"system": "rnnsearch", **_LCSTS},
    "enc_dec_lcsts": {"system": "enc_dec", **_LCSTS},
    "copynet_lcsts_full": {"embed_dim": 500, "hidden_size": 750, **_FULL},
    "copynet_full": {"location_width": 57, **_FULL},
}
# Earlier versions registered these archs under other names. Checkpoints may contain the earlier names.
PRESETS |= {name.replace("full", "release"): PRESETS[name] for name in ("copynet_lcsts_full", "copynet_full")}


@dataclass(frozen=True)
class CopyNetMemory(CopyMemory):
    """The encoder's output in the form that decoder steps read."""

    states: Tensor  # (B, S, M)
    padding_mask: Tensor  # (B, S)
    start: Tensor  # s_0, (B, H)
    keys: Tensor | None  # keys of the attention, (B, S, A)
    copy_keys: Tensor | None  # tanh(h_j W_c), (B, S, H)


@dataclass(frozen=True)
class CopyNetState(State):
    """State after a step, which the next step reads. All tensors have shape (N, ...)."""

    hidden: Tensor  # s_t, (N, H)
    cell: Tensor  # cell state, if the cell is an LSTM, (N, H)
    copy: Tensor  # copy scores of the source positions, (N, S)
    coverage: Tensor  # attention that each position has received in previous steps, (N, S)


class CopyNetDecoder(CopyingDecoder[CopyNetMemory, CopyNetState]):
    """A step consists of attentive read, selective read, state update, and scores for generating and copying.

    The input of the cell is the word (E), the selective read (M) and the context (M). The paper's baselines omit some
    of these parts. Dropout is applied to embeddings and readout.

    Attributes:
        attention: attention over the source memory. ``None`` = Enc-Dec.
        copy_proj: W_c of eq. 8, M -> H. ``None`` = no copying.
        full_readout: score words from the state, the context, the last word and the selective read, instead of only the
            state.
        coverage_weight: weight of a position's coverage in its attention score. ``None`` = no coverage.
        oov_embedding: embedding that is read for a copied word outside the vocabulary, (E,). ``None`` = ``<unk>``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: CopyNetConfig) -> None:
        super().__init__(dictionary)
        hidden, attends = cfg.hidden_size, str(cfg.system) != "enc_dec"
        self.copies = str(cfg.system) == "copynet"
        self.full_readout = str(cfg.readout) == "full"
        memory_dim = 2 * hidden + cfg.location_width if attends else hidden
        input_dim = cfg.embed_dim + memory_dim * (2 if self.copies else 1)
        cell = nn.LSTMCell if str(cfg.cell) == "lstm" else nn.GRUCell
        self.early_reset = str(cfg.cell) == "gru-early-reset"
        self.embed_tokens = embed_tokens
        self.cell = cell(input_dim, hidden)
        self.attention = AdditiveAttention(hidden, memory_dim, cfg.attention_dim or hidden) if attends else None
        self.copy_proj = nn.Linear(memory_dim, hidden, bias=False) if self.copies else None
        readout_dim = hidden + input_dim if self.full_readout else hidden
        self.output = build_output_layer(cfg, readout_dim, cfg.embed_dim, dictionary)
        self.coverage_weight = nn.Parameter(torch.zeros(1)) if cfg.attention_coverage else None
        reads_copies = self.copies and str(cfg.oov_input) == "copy"
        self.oov_embedding = nn.Parameter(torch.randn(cfg.embed_dim)) if reads_copies else None
        self.dropout = nn.Dropout(cfg.dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> CopyNetMemory:
        source, states, start = encoder_out["src_tokens"], encoder_out["encoder_out"], encoder_out["start_state"]
        if self.attention is None:
            states = start.unsqueeze(1)  # Enc-Dec reads this single vector at every step
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
        """See ``StepDecoder``. The features are the readouts."""
        source, no_copy = (repeat_for_hypotheses(tensor, len(words)) for tensor in (memory.source, memory.no_copy))
        # Find the source positions at which the previous word occurs, for the selective read.
        matches = words.unsqueeze(2).eq(source.unsqueeze(1)) & ~no_copy.unsqueeze(1)  # (N, T, S)
        looped_cell = (EarlyResetCell if self.early_reset else LoopedCell)(self.cell)
        # The loop contains only the terms that depend on the previous step. Each step reads, in this order, the word,
        # the source words that were just copied (selective read), and the attended context.
        query_map = None if self.attention is None else self.attention.query_map()
        readouts, copies, attended = [], [], []
        for embedded, match in zip(self._embed(words).unbind(dim=1), matches.unbind(dim=1), strict=True):
            copy, coverage = state.copy, state.coverage
            inputs = [embedded]
            if self.copies:
                # eq. 9: the previous step's copy probabilities, restricted to the positions of the written word.
                selected = masked_softmax(copy.unsqueeze(1), ~match).squeeze(1)  # (N, S)
                inputs.append(weighted_sum(selected, memory.states))  # zeta, (N, M)
            if self.attention is None or memory.keys is None:
                inputs.append(repeat_for_hypotheses(memory.states[:, 0], len(words)))
            else:
                scores = self.attention.scores(state.hidden, memory.keys, query_map=query_map)  # (N, S)
                if self.coverage_weight is not None:
                    scores = scores + self.coverage_weight * coverage
                weights = attention_weights(scores, memory.padding_mask)
                inputs.append(weighted_sum(weights, memory.states))  # c_t, (N, M)
                coverage = coverage + weights
                attended.append(weights)
            cell_input = torch.cat(inputs, dim=-1)
            hidden, cell = looped_cell.advance(cell_input, state.hidden, state.cell)
            # The copy scores are computed from the new state. The selective read of the next step needs them.
            if memory.copy_keys is not None:
                states = fold_hypotheses(hidden.unsqueeze(1), len(memory.copy_keys))  # (B, K, H)
                copy = torch.bmm(memory.copy_keys, states.mT).mT.flatten(0, 1)  # eq. 8, (N, S)
            state = CopyNetState(hidden, cell, copy, coverage)
            readouts.append(torch.cat([hidden, cell_input], dim=-1) if self.full_readout else hidden)
            copies.append(copy)
        features = self.dropout(torch.stack(readouts, dim=1))
        attention = torch.stack(attended, dim=1) if attended else None
        return Step(features, attention, Copying(torch.stack(copies, dim=1), None)), state

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded = self.embed_tokens(base_ids(tokens, self.num_base, self.unk_index))
        if self.oov_embedding is not None:
            embedded = torch.where((tokens >= self.num_base).unsqueeze(-1), self.oov_embedding, embedded)
        dropped: Tensor = self.dropout(embedded)
        return dropped


class CopyNetEncoder(GruEncoder):
    """A bidirectional GRU (sec. 3.1). Its output h_i consists of both directions' states and the word's position.

    Positions are one-hot vectors of width ``location_width``. 0 = no positions.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: CopyNetConfig) -> None:
        early_reset = str(cfg.cell) == "gru-early-reset"
        super().__init__(dictionary, embed_tokens, cfg.hidden_size, cfg.dropout, early_reset)
        self.start_proj = nn.Linear(2 * cfg.hidden_size, cfg.hidden_size)
        self.location_width = cfg.location_width

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch. The result has ``encoder_out`` (B, S, M), ``encoder_padding_mask`` (B, S) and ``src_tokens``.

        ``start_state`` is tanh(W [forward h_S; backward h_1]), (B, H).
        """
        encoded, final = self.read(self.gru, src_tokens)  # final: (2, B, H)
        if self.location_width:
            outputs = encoded["encoder_out"]  # (B, S, 2H)
            position = encoded["encoder_padding_mask"].logical_not().cumsum(dim=1) - 1
            position = position.clamp(0, self.location_width - 1)
            location = nn.functional.one_hot(position, self.location_width).to(outputs.dtype)
            encoded["encoder_out"] = torch.cat([outputs, location], dim=-1)
        start = torch.tanh(self.start_proj(torch.cat([final[0], final[1]], dim=-1)))
        return encoded | {"start_state": start, "src_tokens": src_tokens}


@register_family("copynet", CopyNetConfig, PRESETS)
class CopyNetModel(CopyingModel):
    """A bidirectional GRU encoder, and a decoder with attentive and selective read that generates and copies."""

    encoder: CopyNetEncoder
    decoder: CopyNetDecoder

    @classmethod
    def build(cls, cfg: CopyNetConfig, task: FairseqTask) -> "CopyNetModel":
        if str(cfg.system) == "enc_dec" and (cfg.attention_coverage or cfg.location_width):
            raise UserError("enc_dec has no attention: leave --attention-coverage and --location-width out.")
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        start_from_vectors(embed_tokens, cfg.embedding_file, dictionary)
        encoder = CopyNetEncoder(dictionary, embed_tokens, cfg)
        return cls(encoder, CopyNetDecoder(dictionary, embed_tokens, cfg))
