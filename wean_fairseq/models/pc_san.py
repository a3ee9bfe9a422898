"""``pc_san``: PC-SAN, a pre-training based contextual self-attention model for topic essay generation.

The defaults are the paper's full model. The paper states the numbers of layers and heads, the width and the dropout.
The other values are taken from Vaswani et al. (see docs/equations.md).

The states of the frozen BERT are part of the batch, so that they are computed only once for every set of topics.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``N`` mixtures, ``D`` width of the
model, ``M`` width of the decoder's memory, ``P`` number of positions in the memory (S or 2 S), ``R`` hypotheses, ``T``
target length.
"""

from dataclasses import dataclass, replace
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..capabilities import Capabilities
from ..data.bert_features import FrozenBert
from ..data.pairs import word_positions
from ..errors import UserError
from ..fields import option
from ..modules import (
    FUSIONS,
    MIXTURES,
    ContextualDecoderLayer,
    LastLayer,
    LayerMixture,
    QueryEmbedding,
    SinusoidalEmbedding,
    SourceContext,
    Step,
    TargetContext,
    TopicFusion,
    TransformerDecoder,
)
from ..modules.transformer_decoder import DecoderState
from .base import LossModel, SourceEncoder, register_family
from .bert_states import BertReader
from .transformer import TransformerMemory, TransformerTargetDecoder
from .word_layers import start_from_vectors, word_embedding


@dataclass
class PcSanConfig(FairseqDataclass):
    """Options of the model. Section numbers refer to the paper. ``--bert`` is an option of the task."""

    embed_dim: int = option(768, "width of embeddings, topic vectors and states", least=1)
    ffn_dim: int = option(3072, "inner width of the feed-forward sublayers (not in the paper)", least=1)
    decoder_layers: int = option(6, "layers of the decoder", least=1)
    attention_heads: int = option(8, "heads of every attention; must divide --embed-dim", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every sublayer")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    max_positions: int = option(512, "maximum number of tokens of an essay, including the end symbol", least=1)
    topic_vectors: Optional[str] = option(
        None,
        "file of word vectors (GloVe or word2vec text) of width --embed-dim, initial values of the embedding of "
        "topics, essay and output (sec. 3.2), which is trained further",
        reads_file=True,
    )
    topic_fuse: ChoiceEnum(FUSIONS) = option(  # type: ignore[valid-type]
        "feature",
        "combination of topic vectors and BERT's states (eq. 3): feature = concatenated features, mapped back to "
        "--embed-dim; kv1536 = concatenated features, read by wider keys and values; sequence = concatenated positions",
        needs={"bert_layers": ("dynamic", "static", "last")},
    )
    bert_layers: ChoiceEnum(("dynamic", "static", "last", "none")) = option(  # type: ignore[valid-type]
        "dynamic",
        "BERT layers that a decoder layer reads (eq. 2): dynamic = a mixture of its layers for each decoder "
        "layer; static = one mixture for all; last = the last layer; none = only topic vectors",
    )
    bert_mix: ChoiceEnum(MIXTURES) = option(  # type: ignore[valid-type]
        "softmax",
        "weights of a mixture: softmax = positive with sum 1; free = unconstrained, initially 1 / layers",
        needs={"bert_layers": ("dynamic", "static")},
    )
    context: ChoiceEnum(("target", "source", "none")) = option(  # type: ignore[valid-type]
        "target",
        "context that is mixed into the queries of the self-attention (sec. 3.3): target = the mean of the states "
        "so far; source = the mean of the topics' states; none = nothing",
    )
    context_inclusive: bool = option(False, "include the current position in the mean of --context target")


# Small enough to train on a CPU.
PRESETS = {"pc_san_small": {"embed_dim": 128, "ffn_dim": 512, "decoder_layers": 2, "attention_heads": 4}}


class BertStates(BertReader):
    """Combine the topic vectors G and BERT's states B_j into H_j, for all j (eqs. 2 and 3)."""

    def __init__(self, mixture: LayerMixture | LastLayer, fusion: TopicFusion, bert: FrozenBert) -> None:
        super().__init__(bert)
        self.mixture = mixture
        self.fusion = fusion

    def forward(self, words: Tensor, states: Tensor) -> Tensor:
        """Combine topic vectors (B, S, D) and BERT's states (B, S, L, H) into (B, N, P, M)."""
        fused: Tensor = self.fusion(words, self.mixture(states))
        return fused


class PcSanEncoder(SourceEncoder):
    """The topic encoder (section 3.2). It has no layers.

    Args:
        words: topic vectors G, (V, D).
        bert_states: combines the topic vectors with BERT's states of the same topics. ``None`` = use only topic
            vectors.
        dropout: dropout on the decoder's memory.
    """

    def __init__(
        self, dictionary: Dictionary, words: nn.Embedding, bert_states: BertStates | None, dropout: float
    ) -> None:
        super().__init__(dictionary)
        self.words = words
        self.bert_states = bert_states
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        bert_features: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Build the memory that the decoder layers read.

        Args:
            bert_features: outputs of BERT's layers for each topic, averaged over its pieces, (B, S, L, H).

        Returns:
            ``encoder_out`` (B, N, P, M); ``encoder_padding_mask`` (B, P), ``True`` at padding and at the end symbol,
            which is not a topic; ``src_tokens`` unchanged.

        Raises:
            UserError: if the batch lacks BERT's states.
        """
        no_topic = ~word_positions(src_tokens, self.dictionary)
        words = self.words(src_tokens)  # (B, S, D)
        if self.bert_states is None:
            memory = words.unsqueeze(1)
        else:
            if bert_features is None:
                raise UserError("this model reads BERT's states of the topics, but the data has none: give --bert.")
            memory = self.bert_states(words, bert_features.to(words.dtype))
            no_topic = self.bert_states.fusion.positions(no_topic)
        return {
            "encoder_out": self.dropout(memory),
            "encoder_padding_mask": no_topic,
            "src_tokens": src_tokens,
        }


class PcSanDecoder(TransformerTargetDecoder):
    """A decoder without copying that reads every topic from one or two positions.

    There are two positions if a topic's vector and its BERT states are concatenated as a sequence.
    """

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        """See ``StepDecoder``. ``attention`` (R, T, S) is the weight of each topic, summed over its positions."""
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        topics = memory.source.size(1)
        # (R, T, positions) -> (R, T, positions of a topic, S) -> (R, T, S)
        shares = step.attention.unflatten(2, (-1, topics)).sum(dim=2)  # type: ignore[no-untyped-call]
        return replace(step, attention=shares), state


@register_family("pc_san", PcSanConfig, PRESETS)
class PcSanModel(LossModel):
    """Topic vectors and mixtures of a frozen BERT's layers, read by a Transformer decoder with contextual queries.

    Each decoder layer reads its own mixture. The batch contains BERT's states, see ``PcSanEncoder``.
    """

    capabilities = Capabilities(shares_words=False, inputs=("bert_features",))
    encoder: PcSanEncoder
    decoder: PcSanDecoder

    @classmethod
    def build(cls, cfg: PcSanConfig, task: FairseqTask) -> "PcSanModel":
        _check(cfg, task)
        # With one dictionary, topics, essay and output share one embedding, as in PC-SAN's baseline Transformer. With
        # two dictionaries, the model must learn for each word that its topic and its essay word are the same.
        words = word_embedding(task.target_dictionary, cfg.embed_dim)
        joined = task.source_dictionary == task.target_dictionary
        topic_words = words if joined else word_embedding(task.source_dictionary, cfg.embed_dim)
        bert_states = None if str(cfg.bert_layers) == "none" else _build_bert_states(cfg, task.bert)
        encoder = PcSanEncoder(task.source_dictionary, topic_words, bert_states, cfg.dropout)
        decoder = _build_decoder(cfg, task, words, bert_states)
        model = cls(encoder, decoder)
        initialise_transformer(model)
        start_from_vectors(encoder.words, cfg.topic_vectors, task.source_dictionary)
        if not joined:
            start_from_vectors(words, cfg.topic_vectors, task.target_dictionary)
        return model


def _check(cfg: PcSanConfig, task: FairseqTask) -> None:
    if getattr(task, "bert", None) is None and str(cfg.bert_layers) != "none":
        raise UserError(
            "pc_san reads BERT's states of the topics, but the task has no BERT: give --task topic_essay --bert with "
            "the directory of one, or --bert-layers none."
        )
    if cfg.context_inclusive and str(cfg.context) != "target":
        raise UserError(f"--context-inclusive belongs to --context target, but the context is {cfg.context}.")


def _build_bert_states(cfg: PcSanConfig, bert: FrozenBert) -> BertStates:
    mixtures = cfg.decoder_layers if str(cfg.bert_layers) == "dynamic" else 1
    if str(cfg.bert_layers) == "last":
        mixture: LayerMixture | LastLayer = LastLayer()
    else:
        mixture = LayerMixture(str(cfg.bert_mix), bert.num_layers, mixtures)
    return BertStates(mixture, TopicFusion(str(cfg.topic_fuse), cfg.embed_dim, bert.dim), bert)


def _build_decoder(
    cfg: PcSanConfig, task: FairseqTask, words: nn.Embedding, bert_states: BertStates | None
) -> PcSanDecoder:
    dictionary = task.target_dictionary
    layers = [
        ContextualDecoderLayer(
            cfg.embed_dim,
            cfg.attention_heads,
            cfg.ffn_dim,
            cfg.dropout,
            cfg.attention_dropout,
            memory_index=number if str(cfg.bert_layers) == "dynamic" else 0,
            memory_dim=cfg.embed_dim if bert_states is None else bert_states.fusion.output_dim,
            context=_build_context(cfg),
        )
        for number in range(cfg.decoder_layers)
    ]
    network = TransformerDecoder(SinusoidalEmbedding(words, cfg.max_positions, cfg.dropout), layers)
    # Scores are products with the word embeddings and need no further parameters.
    output_layer = QueryEmbedding("dot", cfg.embed_dim, cfg.embed_dim, len(dictionary), unk_index=dictionary.unk())
    return PcSanDecoder(dictionary, network, output_layer)


def _build_context(cfg: PcSanConfig) -> TargetContext | SourceContext | None:
    if str(cfg.context) == "target":
        return TargetContext(inclusive=cfg.context_inclusive)
    return SourceContext() if str(cfg.context) == "source" else None


def initialise_transformer(model: nn.Module) -> None:
    """Initialise maps with Glorot's uniform distribution, embeddings from N(0, 1 / D), and biases and padding with 0.

    fairseq initialises a Transformer in the same way, except that its attention maps are smaller by sqrt(2).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            nn.init.zeros_(module.weight[module.padding_idx].detach())
