"""NTS, NTS-w2v (Nisioi et al., ACL 2017) and EncDecA (Zhang and Lapata, EMNLP 2017)."""

from .config import NtsConfig
from .model import NtsDecoder, NtsEncoder, NtsModel
