"""NTS, NTS-w2v (Nisioi et al., ACL 2017) and EncDecA (Zhang and Lapata, EMNLP 2017)."""

from .model import NtsModel
