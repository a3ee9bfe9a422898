"""The papers' mechanisms in plain PyTorch: no fairseq, no configuration objects; each equation stands in one place."""

from .additive_attention import AdditiveAttention, attended_again
from .attention import BilinearAttention
from .bridge import BRIDGES, StateBridge
from .chunked_loss import LossSums, additive_cross_entropy, product_cross_entropy
from .copying import CopyDistribution, MixtureLoss, base_ids, gated, mean_over_heads, nothing_to_copy, shared_softmax
from .masking import left_padding, masked_softmax
from .query_embedding import QUERY_SCORES, QueryEmbedding
from .recurrent import run_over_words
from .transformer import (
    DecoderLayer,
    EncoderLayer,
    PositionedEmbedding,
    TiedOutput,
    TransformerDecoder,
    TransformerEncoder,
    init_transformer,
)

__all__ = [
    "BRIDGES",
    "QUERY_SCORES",
    "AdditiveAttention",
    "BilinearAttention",
    "CopyDistribution",
    "DecoderLayer",
    "EncoderLayer",
    "LossSums",
    "MixtureLoss",
    "PositionedEmbedding",
    "QueryEmbedding",
    "StateBridge",
    "TiedOutput",
    "TransformerDecoder",
    "TransformerEncoder",
    "additive_cross_entropy",
    "attended_again",
    "base_ids",
    "gated",
    "init_transformer",
    "left_padding",
    "masked_softmax",
    "mean_over_heads",
    "nothing_to_copy",
    "product_cross_entropy",
    "run_over_words",
    "shared_softmax",
]
