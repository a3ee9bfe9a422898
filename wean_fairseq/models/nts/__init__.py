"""NTS, NTS-w2v (Nisioi et al., ACL 2017) and EncDecA (Zhang and Lapata, EMNLP 2017)."""

from .config import NtsConfig
from .decoder import NtsDecoder
from .encoder import NtsEncoder
from .model import NtsModel
