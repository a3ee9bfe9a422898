"""Pointer-generator (See et al., ACL 2017), with and without coverage."""

from .config import PointerGeneratorConfig
from .decoder import PointerGeneratorDecoder
from .model import PointerGeneratorEncoder, PointerGeneratorModel
