"""The papers' mechanisms in plain PyTorch: no fairseq, no configuration objects; each equation stands in one place."""

from .additive_attention import AdditiveAttention, coverage_loss
from .bilinear_attention import BilinearAttention
from .bridge import BRIDGES, StateBridge
from .chunked_loss import LossSums, additive_cross_entropy, product_cross_entropy
from .text_chunks import Chunks, find_chunks, text_before
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
from .distraction import ContentDistraction, greatest_likeness, least_divergence
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
from .dnpg_decoder import DecodedLevels, LevelAggregator, LevelsDecoder
from .dnpg_encoder import EncodedLevels, LevelsEncoder
from .dnpg_levels import DecoderLevel, EncoderLevel
from .dnpg_mixture import LevelOutputs
from .dnpg_separator import NO_LABEL, LevelSeparator, label_loss
from .masking import left_padding, masked_softmax
from .query_embedding import QUERY_SCORES, OutputLayer, QueryEmbedding
from .recurrent import run_over_words
from .recurrent_latent import RecurrentLatent, divergence_from_prior
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
    fold_hypotheses,
    repeat_for_hypotheses,
    weighted_sum,
)
from .topic_coverage import TopicImportance, attend_uncovered, importance_loss
from .topic_fusion import FUSIONS, TopicFusion
from .topic_words import TopicWords, scatter_to_source, topic_words
from .transformer import EncoderLayer, PositionedEmbedding, TiedOutput, TransformerEncoder, init_transformer
from .transformer_decoder import DecoderLayer, TransformerDecoder
from .word_gate import GATE_INPUTS, GatedLstm

__all__ = [
    "BRIDGES",
    "FUSIONS",
    "GATE_INPUTS",
    "GRANULARITY_MASKS",
    "MIXTURES",
    "NO_LABEL",
    "QUERY_SCORES",
    "AdditiveAttention",
    "BilinearAttention",
    "Chunks",
    "ContentDistraction",
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
    "GatedLstm",
    "GranularCrossAttention",
    "GranularSelfAttention",
    "GranularityAttention",
    "KeywordGate",
    "KeywordRows",
    "Labels",
    "LastLayer",
    "LayerMixture",
    "LevelAggregator",
    "LevelOutputs",
    "LevelSeparator",
    "LevelsDecoder",
    "LevelsEncoder",
    "LossSums",
    "LstmStart",
    "LstmState",
    "Memory",
    "MixtureLoss",
    "OutputLayer",
    "PositionedEmbedding",
    "QueryEmbedding",
    "RecurrentLatent",
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
    "attend_uncovered",
    "attention_weights",
    "base_ids",
    "control_loss",
    "coverage_loss",
    "divergence_from_prior",
    "find_chunks",
    "first_keywords",
    "fold_hypotheses",
    "greatest_likeness",
    "gru_update",
    "importance_loss",
    "init_granularity",
    "init_transformer",
    "label_loss",
    "least_divergence",
    "left_padding",
    "lstm_update",
    "masked_softmax",
    "mean_over_heads",
    "mixture_weights",
    "nothing_to_copy",
    "product_cross_entropy",
    "repeat_for_hypotheses",
    "run_over_words",
    "scatter_to_source",
    "text_before",
    "topic_words",
    "weighted_sum",
]
