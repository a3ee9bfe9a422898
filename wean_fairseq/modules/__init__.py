"""The papers' mechanisms in plain PyTorch: no fairseq, no configuration objects; each equation stands in one place."""

from .additive_attention import AdditiveAttention, attended_again
from .attention import BilinearAttention
from .bridge import BRIDGES, StateBridge
from .chunked_loss import LossSums, additive_cross_entropy, product_cross_entropy
from .chunks import Chunks, find_chunks, text_before
from .contextual_attention import ContextualDecoderLayer, SourceContext, TargetContext
from .copying import (
    CopyDistribution,
    CopyGate,
    Copying,
    MixtureLoss,
    base_ids,
    mean_over_heads,
    nothing_to_copy,
)
from .layer_mixture import MIXTURES, LastLayer, LayerMixture, mixture_weights
from .gates import gru_update, lstm_update
from .granularity import (
    GRANULARITY_MASKS,
    GranularCrossAttention,
    GranularityAttention,
    GranularSelfAttention,
    init_granularity,
)
from .fractional_positions import FractionalEmbedding
from .granularity_decoder import DecodedLevels, GranularityAggregator, GranularityDecoder
from .granularity_encoder import EncodedLevels, GranularityEncoder
from .granularity_levels import DecoderLevel, EncoderLevel
from .granularity_mixture import LevelOutputs
from .granularity_separator import NO_LABEL, GranularitySeparator, label_loss
from .masking import left_padding, masked_softmax
from .query_embedding import QUERY_SCORES, OutputLayer, QueryEmbedding
from .recurrent import run_over_words
from .residual_lstm import ResidualLstm
from .sc_lstm_cell import KeywordGate, KeywordRows, control_loss, first_keywords
from .sinusoidal_positions import SinusoidalEmbedding
from .soft_labels import Labels
from .steps import (
    LstmStart,
    LstmState,
    Memory,
    State,
    Step,
    attention_weights,
    by_sentence,
    for_hypotheses,
    weighted_sum,
)
from .topic_coverage import TopicImportance, attend_uncovered, importance_loss
from .topic_fusion import FUSIONS, TopicFusion
from .topic_words import TopicWords, at_source_positions, topic_words
from .transformer import EncoderLayer, PositionedEmbedding, TiedOutput, TransformerEncoder, init_transformer
from .transformer_decoder import DecoderLayer, TransformerDecoder

__all__ = [
    "BRIDGES",
    "FUSIONS",
    "GRANULARITY_MASKS",
    "MIXTURES",
    "NO_LABEL",
    "QUERY_SCORES",
    "AdditiveAttention",
    "BilinearAttention",
    "Chunks",
    "ContextualDecoderLayer",
    "CopyDistribution",
    "CopyGate",
    "Copying",
    "DecodedLevels",
    "DecoderLayer",
    "DecoderLevel",
    "EncodedLevels",
    "EncoderLayer",
    "EncoderLevel",
    "FractionalEmbedding",
    "GranularCrossAttention",
    "GranularSelfAttention",
    "GranularityAggregator",
    "GranularityAttention",
    "GranularityDecoder",
    "GranularityEncoder",
    "GranularitySeparator",
    "KeywordGate",
    "KeywordRows",
    "Labels",
    "LastLayer",
    "LayerMixture",
    "LevelOutputs",
    "LossSums",
    "LstmStart",
    "LstmState",
    "Memory",
    "MixtureLoss",
    "OutputLayer",
    "PositionedEmbedding",
    "QueryEmbedding",
    "ResidualLstm",
    "SinusoidalEmbedding",
    "SourceContext",
    "State",
    "StateBridge",
    "Step",
    "TargetContext",
    "TiedOutput",
    "TopicFusion",
    "TopicImportance",
    "TopicWords",
    "TransformerDecoder",
    "TransformerEncoder",
    "additive_cross_entropy",
    "at_source_positions",
    "attend_uncovered",
    "attended_again",
    "attention_weights",
    "base_ids",
    "by_sentence",
    "control_loss",
    "find_chunks",
    "first_keywords",
    "for_hypotheses",
    "gru_update",
    "importance_loss",
    "init_granularity",
    "init_transformer",
    "label_loss",
    "left_padding",
    "lstm_update",
    "masked_softmax",
    "mean_over_heads",
    "mixture_weights",
    "nothing_to_copy",
    "product_cross_entropy",
    "run_over_words",
    "text_before",
    "topic_words",
    "weighted_sum",
]
