"""CopyNet (Gu et al., ACL 2016) and the two systems it is compared with: RNNSearch and Enc-Dec."""

from .config import CopyNetConfig
from .decoder import CopyNetDecoder
from .model import CopyNetEncoder, CopyNetModel
