"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .generator import PaperSequenceGenerator
from .granularity import GranularityWriter
from .provenance import ProvenanceWriter

__all__ = ["GranularityWriter", "PaperSequenceGenerator", "ProvenanceWriter"]
