"""The parts of every Transformer family: its options, its encoder and the decoder that copies nothing.

The network itself is ``modules/transformer.py``; a family hands in the layers that its paper changes.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width, ``A`` heads, ``V`` base vocabulary, ``K``
slots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from ..errors import user_errors
from ..fields import option
from ..modules import (
    Copying,
    DecoderLayer,
    EncoderLayer,
    LossSums,
    PositionedEmbedding,
    QueryEmbedding,
    Step,
    TiedOutput,
    TransformerDecoder,
    TransformerEncoder,
    base_ids,
    init_transformer,
    mean_over_heads,
)
from ..modules.transformer_decoder import Decoded, DecoderState, SourceMemory
from .base import SourceEncoder
from .copying import CopyingDecoder, CopyMemory, no_copy_mask
from .word_layers import (
    OUTPUT_LAYERS,
    OutputLayerConfig,
    WordVectorsConfig,
    build_output_layer,
    num_base_words,
    start_from_vectors,
    word_embedding,
)


@dataclass
class TransformerConfig(OutputLayerConfig, WordVectorsConfig):
    """The network of the C-DNPG table: the paper gives layers, width and heads; the rest is from its released code."""

    embed_dim: int = option(450, "width of embeddings and states", least=1)
    ffn_dim: int = option(1024, "inner width of the feed-forward parts", least=1)
    encoder_layers: int = option(3, "layers of the encoder", least=1)
    decoder_layers: int = option(3, "layers of the decoder", least=1)
    attention_heads: int = option(9, "heads of every attention; must divide --embed-dim", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every part")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    max_positions: int = option(512, "learned positions: tokens of the longest sentence, end symbol included", least=1)
    share_embeddings: bool = option(False, "one word embedding for encoder and decoder, as in WEAN, instead of two")
    output_layer: ChoiceEnum(OUTPUT_LAYERS) = option(  # type: ignore[valid-type]
        "linear",
        "how generated words are scored: linear = the network's own, a hidden layer, then the decoder's "
        "word embeddings and a bias; query_embedding = by querying the decoder's word embeddings (WEAN)",
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
    decoder: Callable[..., TransformerDecoder] = TransformerDecoder,
) -> Network:
    """The network that ``cfg`` describes, initialised.

    Args:
        cfg: sizes and output layer.
        encoder_layer: makes a layer from the arguments of ``EncoderLayer``; called from the bottom up.
        decoder_layer: the same for the decoder.
        decoder: makes it from the arguments of ``TransformerDecoder``.

    Raises:
        UserError: if the heads do not divide the width.
    """
    layer = (cfg.embed_dim, cfg.attention_heads, cfg.ffn_dim, cfg.dropout, cfg.attention_dropout)
    source_words = word_embedding(dictionary, cfg.embed_dim)
    target_words = source_words if cfg.share_embeddings else word_embedding(dictionary, cfg.embed_dim)
    with user_errors():
        network = Network(
            TransformerEncoder(
                PositionedEmbedding(source_words, cfg.max_positions, cfg.dropout),
                [encoder_layer(*layer) for _ in range(cfg.encoder_layers)],
            ),
            decoder(
                PositionedEmbedding(target_words, cfg.max_positions, cfg.dropout),
                [decoder_layer(*layer) for _ in range(cfg.decoder_layers)],
            ),
            _output_layer(cfg, dictionary),
        )
    for part in network:
        init_transformer(part)
    for words in {source_words, target_words}:
        start_from_vectors(words, cfg.embedding_file, dictionary)
    return network


def _output_layer(cfg: TransformerConfig, dictionary: Dictionary) -> TiedOutput | QueryEmbedding:
    if str(cfg.output_layer) == "linear":
        return TiedOutput(cfg.embed_dim, num_base_words(dictionary), dictionary.unk())
    return build_output_layer(cfg, cfg.embed_dim, cfg.embed_dim, dictionary)


class TransformerSourceEncoder(SourceEncoder):
    """A Transformer encoder: reads slots as ``<unk>``, and keeps them for a decoder that copies."""

    def __init__(self, dictionary: Dictionary, network: TransformerEncoder) -> None:
        super().__init__(dictionary)
        self.network = network

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, D); ``encoder_padding_mask`` (B, S), ``True`` at padding; ``src_tokens`` as given;
            and what ``describe`` adds.

        Raises:
            UserError: if a sentence is longer than the model was made for.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        with user_errors():
            states = self.network(self.known_words(src_tokens), padding_mask)
        return {
            "encoder_out": states[-1],
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
            **self.describe(states),
        }

    def describe(self, states: list[Tensor]) -> dict[str, Tensor]:
        """Entries of a family in ``encoder_out``, batch first: states (B, S, D) as of ``TransformerEncoder``."""
        return {}

    def max_positions(self) -> int:
        """Tokens of the longest source."""
        return self.network.embedding.max_positions


@dataclass(frozen=True)
class TransformerMemory(CopyMemory):
    """The source as every step sees it."""

    network: SourceMemory
    copy_keys: Tensor | None = None  # of a family that has them, (B, S, D)


class TransformerTargetDecoder(CopyingDecoder[TransformerMemory, DecoderState]):
    """A Transformer decoder that copies nothing; a subclass says how it copies."""

    copies = False
    loss_needs_attention = False  # its weights, that is: they cost the fused kernel

    def __init__(
        self, dictionary: Dictionary, network: TransformerDecoder, output_layer: TiedOutput | QueryEmbedding
    ) -> None:
        super().__init__(dictionary)
        self.network = network
        self.output = output_layer

    @property
    def word_embeddings(self) -> Tensor:
        return self.network.embedding.words.weight

    def remember(self, encoder_out: dict[str, Tensor]) -> TransformerMemory:
        source = encoder_out["src_tokens"]
        network = self.network.remember(encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])
        return TransformerMemory(source, no_copy_mask(source, self.dictionary), network)

    def begin(self, memory: TransformerMemory) -> DecoderState:
        return self.network.begin(memory.network)

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        """See ``StepDecoder``; the features are the states of the last layer, (N, T, D).

        ``attention`` is the mean of the heads of the last layer's attention to the source.
        """
        return self._step(words, memory, state, with_weights=True)

    def copying(
        self, decoded: Decoded, log_attention: Tensor | None, previous: Tensor, memory: TransformerMemory
    ) -> Copying | None:
        """Scores of copying.

        Args:
            decoded: what the network gave for the words ``previous``.
            log_attention: of the last layer, the mean of its heads, (N, T, S); ``None`` if the loss needs none.
            previous: the word before each step, slots read as ``<unk>``, (N, T).
            memory: as for ``step``.
        """
        return None

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Loss sums against ``target`` (B, T), slots included."""
        memory = self.remember(encoder_out)
        step, _ = self._step(prev_output_tokens, memory, self.begin(memory), with_weights=self.loss_needs_attention)
        return self.step_loss(step, memory, target, label_smoothing)

    def max_positions(self) -> int:
        """Tokens of the longest target."""
        return self.network.embedding.max_positions

    def _step(
        self, words: Tensor, memory: TransformerMemory, state: DecoderState, *, with_weights: bool
    ) -> tuple[Step, DecoderState]:
        previous = base_ids(words, self.num_base, self.unk_index)
        with user_errors():
            decoded, state = self.network(previous, memory.network, state, with_weights=with_weights)
        log_attention = None
        if decoded.log_weights is not None:
            log_attention = mean_over_heads(decoded.log_weights).view(*words.shape, -1)
        copying = self.copying(decoded, log_attention, previous, memory)
        attention = None if log_attention is None else log_attention.exp()
        return Step(decoded.states.view(*words.shape, -1), attention, copying), state
