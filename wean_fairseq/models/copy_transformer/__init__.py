"""The Transformer of the C-DNPG table (Gu et al., COLING 2022), with and without copying."""

from .config import CopyTransformerConfig
from .decoder import CopyTransformerDecoder
from .encoder import CopyTransformerEncoder
from .model import CopyTransformerModel

__all__ = ["CopyTransformerConfig", "CopyTransformerDecoder", "CopyTransformerEncoder", "CopyTransformerModel"]
