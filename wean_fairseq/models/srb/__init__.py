"""SRB, the semantic relevance based model of summarisation (Ma et al., ACL 2017)."""

from .config import SrbConfig
from .model import SrbDecoder, SrbEncoder, SrbModel
