"""The decoder of the Transformer in ``transformer.py``: layers that read the previous words and the source.

All hypotheses of a sentence are queries of the same attention operation. Therefore the source and the words of the
hypotheses (see ``words_read.py``) are projected and stored only once.

Legend: ``B`` sentences, ``N`` hypotheses: K of each sentence, ``T`` words, ``Q`` = K T queries of a sentence, ``W``
words stored per sentence, ``S`` source length, ``D`` width, ``A`` heads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn

from .dropout import Dropout
from .sinusoidal_positions import SinusoidalEmbedding
from .steps import Memory, State, fold_hypotheses
from .transformer import (
    NORM_EPS,
    AttentionMaker,
    FeedForward,
    Keyed,
    MultiHeadAttention,
    PositionedEmbedding,
    causal_bias,
    padding_bias,
)
from .words_read import SharedWords, WordsRead


class Decoded(NamedTuple):
    """Output of a decoder, or of one of its layers."""

    states: Tensor  # (B, Q, D)
    context: Tensor  # result of the cross-attention, (B, Q, D)
    log_weights: Tensor | None  # weights of the cross-attention, if requested, (B, A, Q, S), float32


@dataclass(frozen=True)
class LayerState(State):
    """The tensors that a layer has computed for the words read so far.

    Attributes:
        words: keys and values of the self-attention.
        sums: sums over the words of each hypothesis, each of shape (N, ...). Only the layers of some papers need sums.
    """

    words: SharedWords = field(default_factory=lambda: SharedWords({}))
    sums: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceMemory(Memory):
    """The source in the form that the layers read."""

    layers: tuple[Keyed, ...]  # keys and values of each layer, of shape (B, ...)
    bias: Tensor  # bias of the attention to the source, (B, 1, 1, S)


@dataclass(frozen=True)
class DecoderState(State):
    """State of a Transformer decoder after a step, which the next step reads."""

    read: WordsRead
    layers: tuple[LayerState, ...]


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and feed-forward part, each with dropout, residual and normalisation.

    Its arguments are those of ``EncoderLayer``. ``cross_attention`` creates the attention to the source.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        inner_dim: int,
        dropout: float,
        attention_dropout: float,
        attention: AttentionMaker = MultiHeadAttention,
        cross_attention: AttentionMaker = MultiHeadAttention,
    ) -> None:
        super().__init__()
        self.self_attention = attention(dim, heads, attention_dropout)
        self.self_norm = nn.LayerNorm(dim, NORM_EPS)
        self.cross_attention = cross_attention(dim, heads, attention_dropout)
        self.cross_norm = nn.LayerNorm(dim, NORM_EPS)
        self.feed_forward = FeedForward(dim, inner_dim)
        self.output_norm = nn.LayerNorm(dim, NORM_EPS)
        self.dropout = Dropout(dropout)

    def remember(self, source: Tensor, bias: Tensor) -> Keyed:
        """Project the encoder states (B, S, D) once, for all decoder steps.

        ``bias`` is the bias of the attention to these states.
        """
        return self.cross_attention.project(source)

    def forward(
        self,
        states: Tensor,
        source: Keyed,
        state: LayerState,
        read: WordsRead,
        self_bias: Tensor | None,
        cross_bias: Tensor | None,
        *,
        with_weights: bool = False,
    ) -> tuple[Decoded, LayerState]:
        """Run the layer.

        Args:
            states: states of the current words, (B, Q, D).
            source: result of ``remember``.
            state: state of this layer after the previous words.
            read: all words read, including the current ones.
            self_bias: bias of the self-attention, broadcast to (B, A, Q, W).
            cross_bias: bias of the attention to the source, broadcast to (B, A, Q, S).
            with_weights: return the weights of the attention to the source.
        """
        query_input, sums = self.query_input(states, source, state.sums)
        # The keys and values of the current words are appended to the stored tensors, so each word is projected only
        # once. The self-attention reads the words of all hypotheses of a sentence, in the order in which they were
        # written. Therefore it also needs ``place``, the position of each word in its own hypothesis.
        words = state.words.append(self.self_attention.project(states))
        attended = self.self_attention(query_input, words.kept | {"place": read.place}, self_bias)
        states = self.self_norm(states + self.dropout(attended.output))
        # The context is also returned, because copying and the aggregator of DNPG use it.
        attended_source = self.cross_attention(states, source, cross_bias, with_weights=with_weights)
        states = self.read_more(self.cross_norm(states + self.dropout(attended_source.output)), source)
        states = self.output_norm(states + self.dropout(self.feed_forward(states)))
        return Decoded(states, attended_source.output, attended_source.log_weights), LayerState(words, sums)

    def query_input(self, states: Tensor, source: Keyed, sums: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the inputs of the self-attention's queries, and the sums updated with the current words.

        By default, the inputs are the states. Subclasses may concatenate further features.
        """
        return states, sums

    def read_more(self, states: Tensor, source: Keyed) -> Tensor:
        """Let a subclass read further inputs after the source, and return the new states (B, Q, D).

        By default, the states are unchanged.
        """
        return states


class TransformerDecoder(nn.Module):
    """An embedding and ``DecoderLayer`` modules, from bottom to top."""

    def __init__(self, embedding: PositionedEmbedding | SinusoidalEmbedding, layers: Iterable[DecoderLayer]) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)

    def remember(self, source: Tensor, padding_mask: Tensor) -> SourceMemory:
        """Project the encoder states (B, S, D) once, for all decoder steps.

        ``padding_mask`` (B, S) is ``True`` at padding.
        """
        return remember(self.layers, source, padding_bias(padding_mask))

    def begin(self, memory: SourceMemory) -> DecoderState:
        """Return the state before the first word."""
        return DecoderState(WordsRead.empty(memory.bias), tuple(LayerState() for _ in self.layers))

    def forward(
        self, tokens: Tensor, memory: SourceMemory, state: DecoderState, *, with_weights: bool = False
    ) -> tuple[Decoded, DecoderState]:
        """Return the outputs of the last layer for further words, and the state after them.

        Args:
            tokens: one word of each hypothesis, or all words from the first one, (N, T), padded only on the right.
            memory: result of ``remember``.
            state: state after the previous words.
            with_weights: return the weights of the last layer's attention to the source.
        """
        sentences = len(memory.bias)
        read = state.read.append(tokens.ne(self.embedding.padding_idx), sentences)
        # The embedding needs the previous words to compute the positions.
        states = self.embed(tokens, memory, state.read)
        # A single word reads all previous words. Several words need a causal mask. Padding is not masked, because it
        # follows all words that could read it.
        bias = read.bias(sentences) if tokens.size(1) == 1 else causal_bias(tokens.size(1), states)
        decoded, layers = run_layers(self.layers, states, memory, state.layers, read, bias, with_weights=with_weights)
        return decoded, DecoderState(read, layers)

    def embed(self, tokens: Tensor, memory: SourceMemory, read: WordsRead) -> Tensor:
        """Return the input of the first layer, (B, Q, D), for tokens (N, T) that follow the words of ``read``.

        Subclasses may extend it.
        """
        return fold_hypotheses(self.embedding(tokens, read), len(memory.bias))


def remember(layers: nn.ModuleList, source: Tensor, bias: Tensor) -> SourceMemory:
    """Project encoder states (B, S, D) for decoder layers.

    ``bias`` (B, 1, 1, S) is the bias of the attention to these states.
    """
    projected = [layer.remember(source, bias) for layer in layers if isinstance(layer, DecoderLayer)]
    return SourceMemory(tuple(projected), bias)


def run_layers(
    layers: nn.ModuleList,
    states: Tensor,
    memory: SourceMemory,
    kept: Sequence[LayerState],
    read: WordsRead,
    self_bias: Tensor | None,
    *,
    with_weights: bool = False,
) -> tuple[Decoded, tuple[LayerState, ...]]:
    """Run decoder layers one after the other.

    Args:
        layers: ``DecoderLayer`` modules, from bottom to top.
        states: embedded words, (B, Q, D).
        memory: result of ``remember``.
        kept: states of the layers after the previous words.
        read: all words read, including the current ones.
        self_bias: bias of the self-attention, broadcast to (B, A, Q, W).
        with_weights: return the weights of the last layer's attention to the source.

    Returns:
        The outputs of the last layer, and the states of all layers.
    """
    last, new_states = len(layers) - 1, []
    for number, (layer, source, layer_state) in enumerate(zip(layers, memory.layers, kept, strict=True)):
        weighs = with_weights and number == last
        decoded, state = layer(states, source, layer_state, read, self_bias, memory.bias, with_weights=weighs)
        states = decoded.states
        new_states.append(state)
    return decoded, tuple(new_states)
