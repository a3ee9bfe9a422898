"""Search algorithms beyond fairseq's generator, created by the tasks' ``build_generator``."""

from .fast_generator import FastSequenceGenerator
from .generator import PaperSequenceGenerator
from .output_writer import OutputWriter, describe_granularity, describe_provenance, granularities, origins
