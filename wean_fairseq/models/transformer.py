"""Common parts of all Transformer families: the options, the encoder, and the decoder without copying.

The network itself is in ``modules/transformer.py``. A family passes its own layers if its paper changes them.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D`` width, ``A`` heads, ``V`` base vocabulary, ``K``
slots, ``L`` layers of BERT, ``H`` its width.
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
from .bert_states import AddedStates, check_trained_with_bert
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
    """Options of the network in the C-DNPG table.

    The C-DNPG paper states the numbers of layers and heads, and the width. The other values are taken from its released
    code.
    """

    embed_dim: int = option(450, "width of embeddings and states", least=1)
    ffn_dim: int = option(1024, "inner width of the feed-forward sublayers", least=1)
    encoder_layers: int = option(3, "layers of the encoder", least=1)
    decoder_layers: int = option(3, "layers of the decoder", least=1)
    attention_heads: int = option(9, "heads of every attention; must divide --embed-dim", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every sublayer")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    max_positions: int = option(
        512, "number of learned positions: maximum number of tokens of a sentence, including the end symbol", least=1
    )
    share_embeddings: bool = option(False, "share one word embedding between encoder and decoder, as in WEAN")
    output_layer: ChoiceEnum(OUTPUT_LAYERS) = option(  # type: ignore[valid-type]
        "linear",
        "score of generated words: linear = a hidden layer, then the decoder's word embeddings and a bias; "
        "query_embedding = a query of the decoder's word embeddings (WEAN)",
    )


class Network(NamedTuple):
    """The modules of a Transformer. The classes below wrap them for fairseq."""

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
    """Build and initialise the network that ``cfg`` describes.

    Args:
        cfg: sizes and output layer.
        encoder_layer: creates a layer from the arguments of ``EncoderLayer``. It is called from bottom to top.
        decoder_layer: creates a layer from the arguments of ``DecoderLayer``.
        decoder: creates the decoder from the arguments of ``TransformerDecoder``.

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
    for module in network:
        init_transformer(module)
    for words in {source_words, target_words}:
        start_from_vectors(words, cfg.embedding_file, dictionary)
    return network


def _output_layer(cfg: TransformerConfig, dictionary: Dictionary) -> TiedOutput | QueryEmbedding:
    if str(cfg.output_layer) == "linear":
        return TiedOutput(cfg.embed_dim, num_base_words(dictionary), dictionary.unk())
    return build_output_layer(cfg, cfg.embed_dim, cfg.embed_dim, dictionary)


class TransformerSourceEncoder(SourceEncoder):
    """A Transformer encoder. It reads slots as ``<unk>`` and passes the slots themselves on to a decoder that copies.

    Args:
        bert_states: module that adds BERT's states of the words to the encoder's input.
    """

    def __init__(
        self, dictionary: Dictionary, network: TransformerEncoder, bert_states: AddedStates | None = None
    ) -> None:
        super().__init__(dictionary)
        self.network = network
        self.bert_states = bert_states

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **task_inputs: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Args:
            task_inputs: with ``bert_states``, the entry ``bert_features`` contains the outputs of BERT's layers for
                each word, (B, S, L, H).

        Returns:
            ``encoder_out`` (B, S, D); ``encoder_padding_mask`` (B, S), ``True`` at padding; ``src_tokens`` unchanged;
            and the entries of ``describe``.

        Raises:
            UserError: if a sentence is longer than the model allows, or the batch lacks BERT's features.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        added = None if self.bert_states is None else self.bert_states(task_inputs.get("bert_features"))
        with user_errors():
            states = self.network(self.known_words(src_tokens), padding_mask, added)
        return {
            "encoder_out": states[-1],
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
            **self.describe(states),
        }

    def describe(self, states: list[Tensor]) -> dict[str, Tensor]:
        """Return further entries of ``encoder_out``, batch first, computed from the network's states (B, S, D)."""
        return {}

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Raise ``UserError`` if only the checkpoint or only the model reads BERT's features."""
        check_trained_with_bert(f"{name}.bert_states.digest" in state_dict, is_read=self.bert_states is not None)

    def max_positions(self) -> int:
        """Return the maximum number of tokens of a source."""
        return self.network.embedding.max_positions


@dataclass(frozen=True)
class TransformerMemory(CopyMemory):
    """The encoder's output in the form that decoder steps read."""

    network: SourceMemory
    copy_keys: Tensor | None = None  # keys of the copy scores, for families that have them, (B, S, D)


class TransformerTargetDecoder(CopyingDecoder[TransformerMemory, DecoderState]):
    """A Transformer decoder without copying. Subclasses add copying."""

    copies = False
    loss_needs_attention = False  # the fused kernel cannot be used if attention weights are needed

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
        """See ``StepDecoder``. The features are the states of the last layer, (N, T, D).

        ``attention`` is the last layer's attention to the source, averaged over heads.
        """
        return self._step(words, memory, state, with_weights=True)

    def copying(
        self, decoded: Decoded, log_attention: Tensor | None, previous: Tensor, memory: TransformerMemory
    ) -> Copying | None:
        """Return the scores of copying, or ``None`` if the decoder does not copy.

        Args:
            decoded: outputs of the network for the words in ``previous``.
            log_attention: log of the last layer's attention, averaged over heads, (N, T, S). ``None`` if the loss does
                not need it.
            previous: the word before each step, with slots as ``<unk>``, (N, T).
            memory: see ``step``.
        """
        return None

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Return the summed losses against ``target`` (B, T), which may contain slots."""
        memory = self.remember(encoder_out)
        step, _ = self._step(prev_output_tokens, memory, self.begin(memory), with_weights=self.loss_needs_attention)
        return self.step_loss(step, memory, target, label_smoothing)

    def max_positions(self) -> int:
        """Return the maximum number of tokens of a target."""
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
