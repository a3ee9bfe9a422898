"""DRGD: a decoder with a latent variable at each step (Li et al., EMNLP 2017)."""

from .config import DrgdConfig
from .decoder import DrgdDecoder
from .model import DrgdModel
