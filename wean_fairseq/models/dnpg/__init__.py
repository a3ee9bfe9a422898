"""DNPG, the decomposable neural paraphrase generator (Li et al., ACL 2019)."""

from .config import DnpgConfig
from .decoder import DnpgDecoder
from .model import DnpgEncoder, DnpgModel
