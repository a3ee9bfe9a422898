"""``pc_san``: PC-SAN, a pre-training based contextual self-attention model for topic essay generation.

Legend: ``N`` hypotheses, ``T`` target length, ``S`` source length.
"""

from dataclasses import replace
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import (
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
from ...modules.transformer_decoder import DecoderState
from ..base import LossModel
from ..presets import register_family
from ..topics import start_from_vectors
from ..transformer import TransformerMemory, TransformerTargetDecoder
from .config import PRESETS, PcSanConfig
from .encoder import Bert, BertStates, PcSanEncoder

DIGEST = "encoder.bert_states.digest"


class PcSanDecoder(TransformerTargetDecoder):
    """A decoder that copies nothing, and reads every topic from one or two positions.

    Args:
        parts: those of ``TransformerTargetDecoder``.
        positions_a_topic: 2 where a topic's vector and its BERT states are one after the other.
    """

    def __init__(self, *parts: Any, positions_a_topic: int) -> None:
        super().__init__(*parts)
        self.positions_a_topic = positions_a_topic

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        """See ``StepDecoder``; ``attention`` (N, T, S) is a topic's share of it, wherever it was read."""
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        shares = step.attention.unflatten(2, (self.positions_a_topic, -1)).sum(dim=2)  # type: ignore[no-untyped-call]
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
        words = _embedding(task.target_dictionary, cfg)
        joined = task.source_dictionary == task.target_dictionary
        encoder = _build_encoder(cfg, task, words if joined else _embedding(task.source_dictionary, cfg))
        decoder = _build_decoder(cfg, task, words, encoder.bert_states)
        model = cls(encoder, decoder)
        initialise(model)
        start_from_vectors(encoder.words, cfg.topic_vectors, task.source_dictionary)
        if not joined:
            start_from_vectors(words, cfg.topic_vectors, task.target_dictionary)
        return model

    def load_state_dict(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load the parameters, but refuse those of a training with another BERT.

        Raises:
            UserError: naming both.
        """
        if self.encoder.bert_states is not None and DIGEST in state_dict:
            self.encoder.bert_states.check_digest(state_dict[DIGEST])
        return super().load_state_dict(state_dict, *args, **kwargs)


def _check(cfg: PcSanConfig, task: FairseqTask) -> None:
    if getattr(task, "bert", None) is None and str(cfg.bert_layers) != "none":
        raise UserError(
            "pc_san reads BERT's states of the topics, but the task has no BERT: give --task topic_essay --bert with "
            "the directory of one, or --bert-layers none."
        )
    if cfg.context_inclusive and str(cfg.context) != "target":
        raise UserError(f"--context-inclusive belongs to --context target, but the context is {cfg.context}.")


def _embedding(dictionary: Dictionary, cfg: PcSanConfig) -> nn.Embedding:
    return nn.Embedding(len(dictionary), cfg.embed_dim, dictionary.pad())


def _build_encoder(cfg: PcSanConfig, task: FairseqTask, words: nn.Embedding) -> PcSanEncoder:
    bert_states = None if str(cfg.bert_layers) == "none" else _build_bert_states(cfg, task.bert)
    return PcSanEncoder(task.source_dictionary, words, bert_states, cfg.dropout)


def _build_bert_states(cfg: PcSanConfig, bert: Bert) -> BertStates:
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
    in_sequence = bert_states is not None and bert_states.fusion.kind == "sequence"
    return PcSanDecoder(dictionary, network, output_layer, cfg.max_positions, positions_a_topic=1 + in_sequence)


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
