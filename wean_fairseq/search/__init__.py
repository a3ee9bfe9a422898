"""Search algorithms beyond fairseq's generator, created by the tasks' ``build_generator``."""

from .. import register

register()
