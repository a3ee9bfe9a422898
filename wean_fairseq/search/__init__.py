"""Search beyond fairseq's generator, plugged in through the tasks' ``build_generator``."""

from .. import register

register()
