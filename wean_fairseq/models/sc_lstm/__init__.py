"""SC-LSTM (Wen et al., EMNLP 2015) as it writes essays from topic words in Feng et al., IJCAI 2018."""

from .config import ScLstmConfig
from .decoder import ScLstmDecoder
from .model import ScLstmEncoder, ScLstmModel
