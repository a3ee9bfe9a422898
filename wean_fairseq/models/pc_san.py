"""``pc_san``: PC-SAN, a pre-training based contextual self-attention model for topic essay generation.

The defaults are the paper's full model. It gives layers, width, heads and dropout; the rest is chosen as in Vaswani et
al. (see docs/equations.md).

The states of the frozen BERT come with the batch, so that they can be computed once for every set of topics. Only the
digest of the BERT that made them is kept in checkpoints.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``N`` mixtures, ``D`` width of the
model, ``M`` width of what the decoder reads, ``P`` its positions: S, or 2 S, ``R`` hypotheses, ``T`` target length.
"""

from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..data.bert_features import TopicBert
from ..data.topics import topic_positions
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
from .topics import start_from_vectors
from .transformer import TransformerMemory, TransformerTargetDecoder
from .word_layers import word_embedding


@dataclass
class PcSanConfig(FairseqDataclass):
    """Sections are those of the paper; ``--bert`` is an option of the task."""

    embed_dim: int = option(768, "width of embeddings, topic vectors and states", least=1)
    ffn_dim: int = option(3072, "inner width of the feed-forward parts (not in the paper)", least=1)
    decoder_layers: int = option(6, "layers of the decoder", least=1)
    attention_heads: int = option(8, "heads of every attention; must divide --embed-dim", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every part")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    max_positions: int = option(512, "tokens of the longest essay, end symbol included", least=1)
    topic_vectors: Optional[str] = option(
        None,
        "word vectors as text (GloVe or word2vec), as wide as --embed-dim, that the embedding of topics, "
        "essay and output starts from (sec. 3.2); it is trained further",
        reads_file=True,
    )
    topic_fuse: ChoiceEnum(FUSIONS) = option(  # type: ignore[valid-type]
        "feature",
        "how topic vectors and BERT's states are joined (eq. 3): feature = side by side, mapped back to "
        "--embed-dim; kv1536 = side by side, read by wider keys and values; sequence = one after the other",
    )
    bert_layers: ChoiceEnum(("dynamic", "static", "last", "none")) = option(  # type: ignore[valid-type]
        "dynamic",
        "BERT layers that a decoder layer reads (eq. 2): dynamic = a mixture of its layers for each decoder "
        "layer; static = one mixture for all; last = the last layer; none = topic vectors alone",
    )
    bert_mix: ChoiceEnum(MIXTURES) = option(  # type: ignore[valid-type]
        "softmax", "the weights of a mixture: softmax = positive, with sum 1; free = any, 1 / layers at first"
    )
    context: ChoiceEnum(("target", "source", "none")) = option(  # type: ignore[valid-type]
        "target",
        "context that is mixed into the queries of the self-attention (sec. 3.3): target = the mean of the states "
        "so far; source = the mean of the topics' states; none = nothing",
    )
    context_inclusive: bool = option(False, "the mean of --context target counts the present position as well")


# Small enough for a CPU.
PRESETS = {"pc_san_small": {"embed_dim": 128, "ffn_dim": 512, "decoder_layers": 2, "attention_heads": 4}}


class BertStates(nn.Module):
    """B_j joined with G to H_j for all j (eq. 2, 3)."""

    digest: Tensor

    def __init__(self, mixture: LayerMixture | LastLayer, fusion: TopicFusion, bert: TopicBert) -> None:
        super().__init__()
        self.mixture = mixture
        self.fusion = fusion
        self.path = bert.path
        # 64 bits a byte, because fairseq sums the buffers of the checkpoints that it averages.
        self.register_buffer("digest", torch.tensor(list(bytes.fromhex(bert.digest))))

    def forward(self, words: Tensor, states: Tensor) -> Tensor:
        """Topic vectors (B, S, D) and BERT's states (B, S, L, H) -> (B, N, P, M)."""
        fused: Tensor = self.fusion(words, self.mixture(states))
        return fused

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Refuse a checkpoint of a training with another BERT, before anything is loaded.

        Raises:
            UserError: naming both.
        """
        trained = state_dict.get(f"{name}.digest", self.digest)  # (32,)
        if not torch.equal(trained.cpu(), self.digest.cpu()):
            raise UserError(
                f"this checkpoint was trained with the BERT of SHA-256 {_hex_prefix(trained)}, but that of {self.path} "
                f"is {_hex_prefix(self.digest)}: give --bert the directory that was used in training."
            )


class PcSanEncoder(SourceEncoder):
    """The topic encoder (section 3.2): it has no layers of its own.

    Args:
        words: topic vectors G, (V, D).
        bert_states: of the same topics; ``None`` = topic vectors alone.
        dropout: on what the decoder reads.
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
        topic_features: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Gather what the decoder layers read.

        Args:
            topic_features: outputs of BERT's layers for each topic, the mean over its pieces, (B, S, L, H).

        Returns:
            ``encoder_out`` (B, N, P, M); ``encoder_padding_mask`` (B, P), ``True`` at padding and at the end symbol,
            which is no topic; ``src_tokens`` as given.

        Raises:
            UserError: if the batch lacks BERT's states.
        """
        no_topic = ~topic_positions(src_tokens, self.dictionary)
        words = self.words(src_tokens)  # (B, S, D)
        if self.bert_states is None:
            memory = words.unsqueeze(1)
        else:
            if topic_features is None:
                raise UserError("this model reads BERT's states of the topics, but the data has none: give --bert.")
            memory = self.bert_states(words, topic_features.to(words.dtype))
            no_topic = self.bert_states.fusion.positions(no_topic)
        return {
            "encoder_out": self.dropout(memory),
            "encoder_padding_mask": no_topic,
            "src_tokens": src_tokens,
        }


def _hex_prefix(digest: Tensor) -> str:
    return bytes(digest.tolist()).hex()[:12]


class PcSanDecoder(TransformerTargetDecoder):
    """A decoder that copies nothing, and reads every topic from one or two positions.

    There are two where a topic's vector and its BERT states are one after the other.
    """

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        """See ``StepDecoder``; ``attention`` (R, T, S) is a topic's share of it, wherever it was read."""
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        topics = memory.source.size(1)
        # (R, T, positions) -> (R, T, positions of a topic, S) -> (R, T, S)
        shares = step.attention.unflatten(2, (-1, topics)).sum(dim=2)  # type: ignore[no-untyped-call]
        return replace(step, attention=shares), state


@register_family("pc_san", PcSanConfig, PRESETS)
class PcSanModel(LossModel):
    """Topic vectors and mixtures of a frozen BERT's layers, and a Transformer decoder whose queries know the context.

    Each decoder layer reads a mixture of its own. BERT's states come with the batch: see ``PcSanEncoder``.
    """

    shares_words = False
    encoder: PcSanEncoder
    decoder: PcSanDecoder

    @classmethod
    def build(cls, cfg: PcSanConfig, task: FairseqTask) -> "PcSanModel":
        _check(cfg, task)
        # With one dictionary one embedding serves topics, essay and output, as in the Transformer that PC-SAN is
        # compared with: with two, what a topic has to do with the same word in the essay is learnt word by word.
        words = word_embedding(task.target_dictionary, cfg.embed_dim)
        joined = task.source_dictionary == task.target_dictionary
        topic_words = words if joined else word_embedding(task.source_dictionary, cfg.embed_dim)
        bert_states = None if str(cfg.bert_layers) == "none" else _build_bert_states(cfg, task.bert)
        encoder = PcSanEncoder(task.source_dictionary, topic_words, bert_states, cfg.dropout)
        decoder = _build_decoder(cfg, task, words, bert_states)
        model = cls(encoder, decoder)
        initialise(model)
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


def _build_bert_states(cfg: PcSanConfig, bert: TopicBert) -> BertStates:
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
    # Scores are the products with the embeddings, and nothing else.
    output_layer = QueryEmbedding("dot", cfg.embed_dim, cfg.embed_dim, len(dictionary), unk_index=dictionary.unk())
    return PcSanDecoder(dictionary, network, output_layer)


def _build_context(cfg: PcSanConfig) -> TargetContext | SourceContext | None:
    if str(cfg.context) == "target":
        return TargetContext(inclusive=cfg.context_inclusive)
    return SourceContext() if str(cfg.context) == "source" else None


def initialise(model: nn.Module) -> None:
    """Glorot's uniform maps, embeddings N(0, 1 / D), biases and padding 0.

    As fairseq's Transformer, but for its attention, whose maps start smaller by sqrt(2).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            nn.init.zeros_(module.weight[module.padding_idx].detach())
