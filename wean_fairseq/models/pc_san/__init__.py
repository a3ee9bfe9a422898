"""PC-SAN, essays from topic words with a mixture of BERT's layers, and the Transformer that it is compared with."""

from . import baseline
from .config import PcSanConfig
from .encoder import PcSanEncoder
from .model import PcSanDecoder, PcSanModel
