"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .. import register

register()

from .fast_generator import FastSequenceGenerator
from .generator import PaperSequenceGenerator
from .output_writer import OutputWriter, describe_granularity, describe_provenance, granularities, origins
