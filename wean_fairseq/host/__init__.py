"""Everything that adapts fairseq, torch or Hydra. ``table`` lists the patches and their reasons."""

from .. import register

register()
