"""Search algorithms that extend fairseq's generator. The tasks' ``build_generator`` creates them."""

from .. import register

register()
