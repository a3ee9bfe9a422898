"""FSET: paraphrases by edits that are learnt from retrieved samples (Kazemnejad et al., ACL 2020)."""

from .config import FsetConfig
from .model import FsetDecoder, FsetEncoder, FsetModel
