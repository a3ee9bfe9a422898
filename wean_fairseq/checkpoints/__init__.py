"""Write checkpoints atomically, read them safely, resume only from intact ones, and average and export them."""

from .. import register

register()
