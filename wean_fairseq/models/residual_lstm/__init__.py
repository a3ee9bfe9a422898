"""Residual LSTM (Prakash et al., COLING 2016)."""

from .config import ResidualLstmConfig
from .model import ResidualLstmDecoder, ResidualLstmEncoder, ResidualLstmModel
