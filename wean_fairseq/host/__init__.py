"""Everything that adapts fairseq, torch or Hydra. ``table`` lists what is replaced, and why."""

from .. import register

register()
