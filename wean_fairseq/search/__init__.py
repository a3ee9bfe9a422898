"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .fast_generator import FastSequenceGenerator
from .generator import PaperSequenceGenerator
from .granularity import GranularityWriter
from .provenance import ProvenanceWriter

__all__ = ["FastSequenceGenerator", "GranularityWriter", "PaperSequenceGenerator", "ProvenanceWriter"]
