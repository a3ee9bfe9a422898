"""Residual LSTM (Prakash et al., COLING 2016)."""

from .config import ResidualLstmConfig
from .decoder import ResidualLstmDecoder
from .encoder import ResidualLstmEncoder
from .model import ResidualLstmModel
