"""The decoders of ``copy_transformer``: one network, and two ways to weigh generating and copying.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width.
"""

import math

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...modules import (
    CopyDistribution,
    CopyGate,
    QueryEmbedding,
    TiedOutput,
    TransformerDecoder,
    gated,
    init_transformer,
    mean_over_heads,
    shared_softmax,
)
from ...modules.transformer import Decoded
from ..base import State
from ..copying import no_copy_mask
from ..transformer import TransformerTargetDecoder


class GateDecoder(TransformerTargetDecoder):
    """A gate between generating, and copying the word that the last layer attends to (DNPG, Li et al. 2019, eq. 8).

    P = (1 - rho_t) P_gen + rho_t P_copy, with rho_t = sigmoid(w . [o_t; c_t; e(y_{t-1})] + b): o_t the output of the
    last layer, c_t what it read from the source. P_copy is the mean over heads of the attention that read it.

    Args:
        dictionary: as the base class.
        network: as the base class.
        output_layer: as the base class.
        max_positions: as the base class.
    """

    loss_needs_attention = True

    def __init__(
        self,
        dictionary: Dictionary,
        network: TransformerDecoder,
        output_layer: TiedOutput | QueryEmbedding,
        max_positions: int,
    ) -> None:
        super().__init__(dictionary, network, output_layer, max_positions)
        self.copy_gate = CopyGate(network.embedding.words.embedding_dim)
        init_transformer(self.copy_gate)

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """See ``TransformerTargetDecoder``."""
        assert decoded.log_weights is not None
        embedded = self.network.embedding.words(previous)  # (B, T, D)
        generate_gate = self.copy_gate.generating(decoded.states, decoded.context, embedded)  # (B, T)
        source = encoder_out["src_tokens"]
        no_copy = no_copy_mask(source, self.dictionary)
        copy = mean_over_heads(decoded.log_weights)
        return gated(generate_gate, self.scores(decoded.states), copy, source, no_copy)


class SharedSoftmaxDecoder(TransformerTargetDecoder):
    """Words and source positions compete in one softmax (CopyNet, Gu et al. 2016, eq. 4 to 8).

    psi_c(x_j) = tanh(h_j W_c) . o_t / sqrt(D). CopyNet, whose states are bounded by 1, does not divide; a Transformer's
    have length sqrt(D), and without it the copy scores start with a spread of 5.5, where those of words have 0.4.

    Args:
        dictionary: as the base class.
        network: as the base class.
        output_layer: as the base class.
        max_positions: as the base class.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        network: TransformerDecoder,
        output_layer: TiedOutput | QueryEmbedding,
        max_positions: int,
    ) -> None:
        super().__init__(dictionary, network, output_layer, max_positions)
        width = network.embedding.words.embedding_dim
        self.copy_proj = nn.Linear(width, width, bias=False)  # W_c
        init_transformer(self.copy_proj)

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """See ``TransformerTargetDecoder``."""
        cache = {} if incremental_state is None else self._cache(incremental_state, "copy")
        if "keys" not in cache:
            cache["keys"] = torch.tanh(self.copy_proj(encoder_out["encoder_out"]))  # (B, S, D)
        copy = decoded.states @ cache["keys"].transpose(1, 2) / math.sqrt(decoded.states.size(-1))  # (B, T, S), eq. 8
        source = encoder_out["src_tokens"]
        return shared_softmax(self.scores(decoded.states), copy, source, no_copy_mask(source, self.dictionary))

    def _cache_names(self) -> list[str]:
        return [*super()._cache_names(), "copy"]
