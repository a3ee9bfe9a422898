"""The Transformer of the C-DNPG table (Gu et al., COLING 2022), with and without copying."""

from .config import CopyTransformerConfig
from .model import CopyTransformerModel, GateDecoder, SharedSoftmaxDecoder
