"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .generator import PaperSequenceGenerator
from .provenance import ProvenanceWriter

__all__ = ["PaperSequenceGenerator", "ProvenanceWriter"]
