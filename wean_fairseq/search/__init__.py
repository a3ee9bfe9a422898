"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .generator import PaperSequenceGenerator

__all__ = ["PaperSequenceGenerator"]
