"""The decoders of ``copy_transformer``: one network, and three ways to weigh generating and copying.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width, ``A`` heads, ``V`` base vocabulary, ``K``
slots.
"""

import math
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...errors import user_errors
from ...modules import (
    CopyDistribution,
    MixtureLoss,
    QueryEmbedding,
    TiedOutput,
    TransformerDecoder,
    base_ids,
    gated,
    init_transformer,
    mean_over_heads,
    shared_softmax,
)
from ...modules.transformer import Cache, Decoded
from ..copying import CopyingDecoder, State, no_copy_mask


class CopyTransformerDecoder(CopyingDecoder):
    """A Transformer decoder; a subclass says how it copies.

    Args:
        dictionary: with or without slots.
        network: over the base words.
        output_layer: scores words by the embeddings of ``network``.
        max_positions: longest target.
    """

    loss_needs_attention = False  # its weights, that is: they cost the fused kernel

    def __init__(
        self,
        dictionary: Dictionary,
        network: TransformerDecoder,
        output_layer: TiedOutput | QueryEmbedding,
        max_positions: int,
    ) -> None:
        super().__init__(dictionary)
        self.network = network
        self.output = output_layer
        self._max_positions = max_positions

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """Weigh generating and copying.

        Args:
            decoded: what the network gave for the words ``previous``.
            previous: the word before each step, shape (B, T), slots read as ``<unk>``.
            encoder_out: what the encoder returned.
            incremental_state: as ``forward``.
        """
        raise NotImplementedError

    def distribution_and_extra(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[CopyDistribution, dict[str, Any]]:
        """See ``CopyingDecoder``; ``attn`` is the mean of the heads of the last layer's attention to the source."""
        previous, decoded = self._read(prev_output_tokens, encoder_out, incremental_state, with_weights=True)
        return self.choices(decoded, previous, encoder_out, incremental_state), _attention(decoded)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T), slots included."""
        previous, decoded = self._read(prev_output_tokens, encoder_out, None, with_weights=self.loss_needs_attention)
        distribution = self.choices(decoded, previous, encoder_out, None)
        return distribution.loss(self.known_targets(target), self.padding_idx, label_smoothing)

    def scores(self, states: Tensor) -> Tensor:
        """Logits of the base words: states (B, T, D) -> (B, T, V)."""
        return self.output.scores(states, self.network.embedding.words.weight)

    def max_positions(self) -> int:
        """Tokens of the longest target."""
        return self._max_positions

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        for name in self._cache_names():
            cache = self._cache(incremental_state, name)
            cache.update({key: value.index_select(0, new_order) for key, value in cache.items()})

    def _read(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
        *,
        with_weights: bool,
    ) -> tuple[Tensor, Decoded]:
        """The words before the steps that are computed, without slots, and what the network gives for them."""
        previous = base_ids(prev_output_tokens, self.num_base, self.unk_index)
        caches = None
        if incremental_state is not None:
            caches = [self._cache(incremental_state, name) for name in self._layer_names()]
        with user_errors():
            decoded = self.network(
                previous,
                encoder_out["encoder_out"],
                encoder_out["encoder_padding_mask"],
                caches,
                with_weights=with_weights,
            )
        return previous[:, -decoded.states.size(1) :], decoded

    def _cache(self, incremental_state: State, name: str) -> Cache:
        """The tensors kept under ``name``, batch first; changes to it are kept."""
        cache = self.get_incremental_state(incremental_state, name)
        if cache is None:
            cache = {}
            self.set_incremental_state(incremental_state, name, cache)
        return cache

    def _layer_names(self) -> list[str]:
        return [f"layer{number}" for number in range(len(self.network.layers))]

    def _cache_names(self) -> list[str]:
        return self._layer_names()


class PlainDecoder(CopyTransformerDecoder):
    """Copies nothing: a slot has no probability, and counts as ``<unk>`` where it is to be written."""

    copies = False

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """See ``CopyTransformerDecoder``."""
        generate = torch.log_softmax(self.scores(decoded.states).float(), dim=-1)
        source = encoder_out["src_tokens"]
        nothing = generate.new_full((*generate.shape[:2], source.size(1)), float("-inf"))  # (B, T, S)
        return CopyDistribution(generate, nothing, source)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """See ``CopyingDecoder``: the same numbers without the work of copying nothing."""
        _, decoded = self._read(prev_output_tokens, encoder_out, incremental_state, with_weights=True)
        generate = torch.log_softmax(self.scores(decoded.states).float(), dim=-1)
        return nn.functional.pad(generate, (0, self.num_slots), value=float("-inf")), _attention(decoded)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T), without building the scores."""
        _, decoded = self._read(prev_output_tokens, encoder_out, None, with_weights=False)
        words = self.network.embedding.words.weight
        known = self.known_targets(target)
        sums = self.output.loss(decoded.states, words, known, self.padding_idx, label_smoothing)
        return MixtureLoss(sums.loss, sums.nll_loss, {})


class GateDecoder(CopyTransformerDecoder):
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
        self.copy_gate = nn.Linear(3 * network.embedding.words.embedding_dim, 1)  # w, b
        init_transformer(self.copy_gate)

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """See ``CopyTransformerDecoder``."""
        assert decoded.log_weights is not None
        embedded = self.network.embedding.words(previous)  # (B, T, D)
        features = torch.cat([decoded.states, decoded.context, embedded], dim=-1)  # (B, T, 3 D)
        generate_gate = -self.copy_gate(features).squeeze(-1)  # (B, T); 1 - sigmoid(x) = sigmoid(-x)
        source = encoder_out["src_tokens"]
        no_copy = no_copy_mask(source, self.dictionary)
        copy = mean_over_heads(decoded.log_weights)
        return gated(generate_gate, self.scores(decoded.states), copy, source, no_copy)


class SharedSoftmaxDecoder(CopyTransformerDecoder):
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
        """See ``CopyTransformerDecoder``."""
        cache = {} if incremental_state is None else self._cache(incremental_state, "copy")
        if "keys" not in cache:
            cache["keys"] = torch.tanh(self.copy_proj(encoder_out["encoder_out"]))  # (B, S, D)
        copy = decoded.states @ cache["keys"].transpose(1, 2) / math.sqrt(decoded.states.size(-1))  # (B, T, S), eq. 8
        source = encoder_out["src_tokens"]
        return shared_softmax(self.scores(decoded.states), copy, source, no_copy_mask(source, self.dictionary))

    def _cache_names(self) -> list[str]:
        return [*super()._cache_names(), "copy"]


def _attention(decoded: Decoded) -> dict[str, Any]:
    assert decoded.log_weights is not None
    return {"attn": [mean_over_heads(decoded.log_weights).exp()]}
