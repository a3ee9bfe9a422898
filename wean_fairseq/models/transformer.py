"""What every Transformer family here is made of: its options, its encoder and the decoder that copies nothing.

The network itself is ``modules/transformer.py``; a family hands in the layers that its paper changes.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width, ``A`` heads, ``V`` base vocabulary, ``K``
slots.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from ..errors import user_errors
from ..modules import (
    CopyDistribution,
    DecoderLayer,
    EncoderLayer,
    MixtureLoss,
    PositionedEmbedding,
    QueryEmbedding,
    TiedOutput,
    TransformerDecoder,
    TransformerEncoder,
    base_ids,
    init_transformer,
    mean_over_heads,
)
from ..modules.transformer import Cache, Decoded
from .checks import check_at_least
from .copying import (
    OUTPUT_LAYERS,
    CopyingConfig,
    CopyingDecoder,
    State,
    build_output_layer,
    embedding,
    follow_sentences,
    num_base_words,
    sentence_numbers,
)


@dataclass
class TransformerConfig(CopyingConfig):
    """The network of the C-DNPG table: the paper gives layers, width and heads; the rest is from its released code."""

    embed_dim: int = field(default=450, metadata={"help": "width of embeddings and states"})
    ffn_dim: int = field(default=1024, metadata={"help": "inner width of the feed-forward parts"})
    encoder_layers: int = field(default=3, metadata={"help": "layers of the encoder"})
    decoder_layers: int = field(default=3, metadata={"help": "layers of the decoder"})
    attention_heads: int = field(default=9, metadata={"help": "heads of every attention; must divide --embed-dim"})
    dropout: float = field(default=0.1, metadata={"help": "dropout on embeddings and on the output of every part"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout on attention weights"})
    max_positions: int = field(
        default=512, metadata={"help": "learned positions: tokens of the longest sentence, end symbol included"}
    )
    share_embeddings: bool = field(
        default=False, metadata={"help": "one word embedding for encoder and decoder, as in WEAN, instead of two"}
    )
    output_layer: ChoiceEnum(OUTPUT_LAYERS) = field(  # type: ignore[valid-type]
        default="linear",
        metadata={
            "help": "how generated words are scored: linear = the network's own, a hidden layer, then the decoder's "
            "word embeddings and a bias; query_embedding = by querying the decoder's word embeddings (WEAN)"
        },
    )


class Network(NamedTuple):
    """The parts of a Transformer, which the classes below wrap for fairseq."""

    encoder: TransformerEncoder
    decoder: TransformerDecoder
    output_layer: TiedOutput | QueryEmbedding


def build_network(
    cfg: TransformerConfig,
    dictionary: Dictionary,
    encoder_layer: Callable[..., EncoderLayer] = EncoderLayer,
    decoder_layer: Callable[..., DecoderLayer] = DecoderLayer,
) -> Network:
    """The network that ``cfg`` describes, initialised.

    Args:
        cfg: sizes and output layer.
        dictionary: with or without slots.
        encoder_layer: makes a layer from the arguments of ``EncoderLayer``; called from the bottom up.
        decoder_layer: the same for the decoder.

    Raises:
        UserError: if a size makes no sense, or the heads do not divide the width.
    """
    sizes = ("embed_dim", "ffn_dim", "encoder_layers", "decoder_layers", "attention_heads", "max_positions")
    check_at_least(1, cfg, *sizes)
    layer = (cfg.embed_dim, cfg.attention_heads, cfg.ffn_dim, cfg.dropout, cfg.attention_dropout)
    source_words = embedding(dictionary, cfg.embed_dim)
    target_words = source_words if cfg.share_embeddings else embedding(dictionary, cfg.embed_dim)
    with user_errors():
        network = Network(
            TransformerEncoder(
                PositionedEmbedding(source_words, cfg.max_positions, cfg.dropout),
                [encoder_layer(*layer) for _ in range(cfg.encoder_layers)],
            ),
            TransformerDecoder(
                PositionedEmbedding(target_words, cfg.max_positions, cfg.dropout),
                [decoder_layer(*layer) for _ in range(cfg.decoder_layers)],
            ),
            _output_layer(cfg, dictionary),
        )
    for part in network:
        init_transformer(part)
    return network


def _output_layer(cfg: TransformerConfig, dictionary: Dictionary) -> TiedOutput | QueryEmbedding:
    if str(cfg.output_layer) == "linear":
        return TiedOutput(cfg.embed_dim, num_base_words(dictionary))
    return build_output_layer(cfg, cfg.embed_dim, cfg.embed_dim, dictionary)


class TransformerSourceEncoder(FairseqEncoder):
    """A Transformer encoder: reads slots as ``<unk>``, and keeps them for a decoder that copies.

    Args:
        dictionary: of the source, with or without slots.
        network: over the base words.
        max_positions: longest source.
    """

    def __init__(self, dictionary: Dictionary, network: TransformerEncoder, max_positions: int) -> None:
        super().__init__(dictionary)
        self.network = network
        self.num_base = num_base_words(dictionary)
        self._max_positions = max_positions

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch.

        Args:
            src_tokens: shape (B, S), slots included, padded on either side.
            src_lengths: ignored; the lengths are read off the padding.

        Returns:
            ``encoder_out`` (B, S, D); ``encoder_padding_mask`` (B, S), ``True`` at padding; ``src_tokens`` as given;
            ``sentence`` (B,), see ``follow_sentences``; and what ``describe`` adds.

        Raises:
            UserError: if a sentence is longer than the model was made for.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        with user_errors():
            known = base_ids(src_tokens, self.num_base, self.dictionary.unk())
            states = self.network.all_states(known, padding_mask)
        return {
            "encoder_out": states[-1],
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
            "sentence": sentence_numbers(src_tokens),
            **self.describe(states),
        }

    def describe(self, states: list[Tensor]) -> dict[str, Tensor]:
        """What a family adds to ``encoder_out``, batch first: ``states`` (B, S, D) each as of ``all_states``."""
        return {}

    def reorder_encoder_out(self, encoder_out: dict[str, Tensor], new_order: Tensor) -> dict[str, Tensor]:
        """Pick sentences ``new_order`` (B',) of the batch, for beam search."""
        return follow_sentences(encoder_out, new_order)

    def max_positions(self) -> int:
        """Tokens of the longest source."""
        return self._max_positions


class TransformerTargetDecoder(CopyingDecoder):
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
        return self.choices(decoded, previous, encoder_out, incremental_state), attention_of(decoded)

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


class PlainDecoder(TransformerTargetDecoder):
    """Copies nothing: a slot has no probability, and counts as ``<unk>`` where it is to be written."""

    copies = False

    def choices(
        self,
        decoded: Decoded,
        previous: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None,
    ) -> CopyDistribution:
        """See ``TransformerTargetDecoder``."""
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
        return nn.functional.pad(generate, (0, self.num_slots), value=float("-inf")), attention_of(decoded)

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> MixtureLoss:
        """Loss sums against ``target`` (B, T), without building the scores."""
        _, decoded = self._read(prev_output_tokens, encoder_out, None, with_weights=False)
        words = self.network.embedding.words.weight
        known = self.known_targets(target)
        sums = self.output.loss(decoded.states, words, known, self.padding_idx, label_smoothing)
        return MixtureLoss(sums.loss, sums.nll_loss, {})


def attention_of(decoded: Decoded) -> dict[str, Any]:
    """What fairseq wants beside the scores: the mean of the heads, (B, T, S)."""
    assert decoded.log_weights is not None
    return {"attn": [mean_over_heads(decoded.log_weights).exp()]}
