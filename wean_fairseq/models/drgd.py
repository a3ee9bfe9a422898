"""``drgd``: a deep recurrent generative decoder for summaries (Li et al., EMNLP 2017, arXiv 1708.00625).

The decoder has two GRUs, attention between them, and one latent vector per step. Neither GRU reads the latent vectors,
so in training the GRUs and the attention compute all steps at once. Only the latent vectors are computed step by step,
because each of them depends on the previous one.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``H`` hidden width, ``E`` embedding
width, ``Z`` latent width.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..capabilities import Capabilities
from ..fields import option
from ..modules import (
    AdditiveAttention,
    EarlyResetGru,
    LossSums,
    RecurrentLatent,
    State,
    Step,
    attention_weights,
    divergence_from_prior,
    weighted_sum,
)
from .base import LossModel, add_auxiliary, register_family
from .gru_attention import GruAttentionConfig, GruAttentionDecoder, GruMemory
from .recurrent_encoders import GruEncoder
from .word_layers import build_output_layer, word_embedding


@dataclass
class DrgdConfig(GruAttentionConfig):
    """Options of the model. See docs/equations.md for the sources of the equations."""

    latent_dim: int = option(0, "width of the latent variable of each step; 0 = --hidden-size", least=0)
    cell: ChoiceEnum(("gru", "gru-early-reset")) = option(  # type: ignore[valid-type]
        "gru",
        "GRU of encoder and decoder: gru (PyTorch's), or gru-early-reset, which resets the state before the linear "
        "map, as the published implementations do",
    )
    kl_weight: float = option(
        1.0, "weight of the divergence of the latent variables from their prior in the loss", least=0
    )
    kl_anneal_updates: int = option(
        0, "number of updates over which --kl-weight rises from 0 in training; 0 = full weight from the start", least=0
    )


@dataclass(frozen=True)
class DrgdState(State):
    """State after a step, which the next step reads."""

    first: Tensor  # h^d1_t, (N, H)
    second: Tensor  # h^d2_t, (N, H)
    latent: Tensor  # z_t, (N, Z)


class DrgdDecoder(GruAttentionDecoder[DrgdState]):
    """Words are scored from tanh(W_z z_t + W_h h^d2_t + b).

    h^d1_t = GRU(e(y_{t-1}), h^d1_{t-1}); c_t is the attention's context for h^d1_t; h^d2_t = GRU([e(y_{t-1}); c_t],
    h^d2_{t-1}); z_t depends on e(y_{t-1}), h^d1_{t-1} and z_{t-1}, see ``RecurrentLatent``. Dropout is applied to
    embeddings and features.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: DrgdConfig) -> None:
        hidden, embed_dim, latent_dim = cfg.hidden_size, cfg.embed_dim, cfg.latent_dim or cfg.hidden_size
        # These modules are created before all others, so that a seed gives the same initial weights as in earlier
        # versions.
        attention = AdditiveAttention(hidden, 2 * hidden, cfg.attention_dim or hidden, query_bias=True)
        output = build_output_layer(cfg, hidden, embed_dim, dictionary)
        super().__init__(dictionary, embed_tokens, hidden)
        gru = EarlyResetGru if str(cfg.cell) == "gru-early-reset" else nn.GRU
        self.first_gru = gru(embed_dim, hidden, batch_first=True)
        self.attention = attention
        self.second_gru = gru(embed_dim + 2 * hidden, hidden, batch_first=True)
        self.latent = RecurrentLatent(embed_dim + hidden, hidden, latent_dim)
        self.combine = nn.Linear(latent_dim + hidden, hidden)  # W_z, W_h, b
        self.output = output
        self.dropout = nn.Dropout(cfg.dropout)
        self.latent_dim = latent_dim
        self.kl_weight = cfg.kl_weight
        self.kl_anneal_updates = cfg.kl_anneal_updates
        self.set_num_updates(0)

    def set_num_updates(self, updates: int) -> None:
        """Set the annealing factor of the divergence's weight from the number of updates. fairseq calls this method."""
        self.annealed = min(1.0, updates / self.kl_anneal_updates) if self.kl_anneal_updates else 1.0

    def begin(self, memory: GruMemory) -> DrgdState:
        return DrgdState(memory.start, memory.start, memory.start.new_zeros(len(memory.start), self.latent_dim))

    def step(self, words: Tensor, memory: GruMemory, state: DrgdState) -> tuple[Step, DrgdState]:
        """See ``StepDecoder``. ``extra`` has ``mean`` and ``log_variance`` of the latent variables, (N, T, Z)."""
        embedded = self.dropout(self.embed_tokens(words))  # (N, T, E)
        first, last_first = self.first_gru(embedded, state.first.unsqueeze(0))  # (N, T, H), (1, N, H)
        scores = self.attention.scores(first.flatten(0, 1), memory.keys)  # (N * T, S)
        weights = attention_weights(scores, memory.padding_mask)
        context = weighted_sum(weights, memory.states).view(*words.shape, -1)  # c_t, (N, T, 2 H)
        second, last_second = self.second_gru(torch.cat([embedded, context], dim=-1), state.second.unsqueeze(0))
        previous_first = torch.cat([state.first.unsqueeze(1), first[:, :-1]], dim=1)  # h^d1_{t-1}, (N, T, H)
        latents = self.latent(torch.cat([embedded, previous_first], dim=-1), state.latent)
        features = torch.tanh(self.combine(torch.cat([latents.values, second], dim=-1)))  # (N, T, H)
        extra = {"mean": latents.mean, "log_variance": latents.log_variance}
        new_state = DrgdState(last_first[0], last_second[0], latents.values[:, -1])
        return Step(self.dropout(features), weights.view(*words.shape, -1), extra=extra), new_state

    def step_loss(self, step: Step, memory: GruMemory, target: Tensor, label_smoothing: float) -> LossSums:
        """Return the negative lower bound of the log-likelihood.

        It includes the divergence of the latent variables, which is logged as ``kl``.
        """
        sums = super().step_loss(step, memory, target, label_smoothing)
        divergence = divergence_from_prior(step.extra["mean"], step.extra["log_variance"])  # (N, T)
        divergence = divergence.masked_fill(target.eq(self.padding_idx), 0.0).sum()
        weight = self.kl_weight * (self.annealed if self.training else 1.0)
        return add_auxiliary(sums, "kl", divergence, weight)


@register_family("drgd", DrgdConfig)
class DrgdModel(LossModel):
    """A bidirectional GRU encoder, and a decoder of two GRUs and latent variables, whose divergence is in the loss."""

    capabilities = Capabilities(adds_losses=True)
    encoder: GruEncoder
    decoder: DrgdDecoder

    @classmethod
    def build(cls, cfg: DrgdConfig, task: FairseqTask) -> "DrgdModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = DrgdDecoder(dictionary, embed_tokens, cfg)
        early_reset = str(cfg.cell) == "gru-early-reset"
        return cls(GruEncoder(dictionary, embed_tokens, cfg.hidden_size, cfg.dropout, early_reset), decoder)
