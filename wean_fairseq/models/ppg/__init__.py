"""PPG, planning-based generation line by line (Wang et al., COLING 2016), for essays."""

from .config import PpgConfig
from .decoder import PpgDecoder
from .model import PpgEncoder, PpgModel
