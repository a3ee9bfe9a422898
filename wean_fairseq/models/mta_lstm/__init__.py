"""MTA-LSTM (Feng et al., IJCAI 2018), and the TAV-LSTM and TAT-LSTM that it is compared with."""

from .config import MtaLstmConfig
from .decoder import TopicAttentionDecoder, TopicAverageDecoder
from .model import MtaLstmEncoder, MtaLstmModel
