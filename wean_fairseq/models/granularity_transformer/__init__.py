"""C-DNPG: a Transformer whose attention depends on the granularity of words (Gu et al., COLING 2022)."""

from .config import GranularityTransformerConfig
from .model import GranularityDecoder, GranularityEncoder, GranularityTransformerModel
