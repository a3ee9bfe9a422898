"""RNN-distract: attention that turns to what it has not read yet (Chen et al., IJCAI 2016)."""

from .config import RnnDistractConfig
from .decoder import RnnDistractDecoder
from .model import RnnDistractModel
