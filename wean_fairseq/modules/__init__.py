"""The papers' mechanisms in plain PyTorch: no fairseq, no configuration objects; each equation stands in one place."""

from .attention import BilinearAttention
from .bridge import BRIDGES, StateBridge
from .chunked_loss import LossSums, additive_cross_entropy, product_cross_entropy
from .masking import left_padding, masked_softmax
from .query_embedding import QUERY_SCORES, QueryEmbedding

__all__ = [
    "BRIDGES",
    "QUERY_SCORES",
    "BilinearAttention",
    "LossSums",
    "QueryEmbedding",
    "StateBridge",
    "additive_cross_entropy",
    "left_padding",
    "masked_softmax",
    "product_cross_entropy",
]
