"""Mechanisms of the papers in plain PyTorch. They use neither fairseq nor configuration objects.

Each equation is implemented once.
"""

from .additive_attention import AdditiveAttention, coverage_loss
from .bilinear_attention import BilinearAttention
from .bridge import BRIDGES, StateBridge
from .chunked_loss import LossSums, additive_cross_entropy, product_cross_entropy
from .contextual_attention import ContextualDecoderLayer, SourceContext, TargetContext
from .copying import CopyDistribution, CopyGate, Copying, base_ids, mean_over_heads
from .distraction import ContentDistraction, greatest_likeness, least_divergence
from .edits import EditedDecoder, EditedDecoderLayer, EditProvider, Edits, split_pairs
from .gates import gru_update, lstm_update
from .granularity import (
    GRANULARITY_MASKS,
    GranularCrossAttention,
    GranularityAttention,
    GranularSelfAttention,
    init_granularity,
)
from .dnpg_levels import EmbeddedLevel, Labels, Level
from .dnpg_encoder import EncodedLevels, LevelSeparator, LevelsEncoder, label_loss
from .dnpg_decoder import LevelAggregator, LevelOutputs, LevelsDecoder
from .layer_mixture import FUSIONS, MIXTURES, LastLayer, LayerMixture, TopicFusion, mixture_weights
from .masking import masked_softmax
from .query_embedding import QUERY_SCORES, OutputLayer, QueryEmbedding
from .recurrent import EarlyResetGru, run_over_words, stacked_lstm
from .recurrent_latent import RecurrentLatent, divergence_from_prior
from .residual_lstm import ResidualLstm
from .sc_lstm_cell import KeywordGate, KeywordRows, control_loss, first_keywords
from .sinusoidal_positions import FractionalEmbedding, SinusoidalEmbedding
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
from .topic_words import scatter_to_source, topic_words
from .transformer import EncoderLayer, PositionedEmbedding, TiedOutput, TransformerEncoder, init_transformer
from .transformer_decoder import DecoderLayer, TransformerDecoder
from .text_chunks import find_chunks, text_before
from .word_gate import GatedLstm
