"""wean_fairseq: paraphrase-oriented text generation as a fairseq plugin; importing it registers everything."""

from . import compat

compat.install()

from . import criterions, models, optim, tasks  # noqa: E402 - the host must be prepared before anything is registered
from .evaluation import scorers  # noqa: E402 - fairseq-generate --scoring wean

__version__ = "0.1.0"
__all__ = ["criterions", "models", "optim", "scorers", "tasks"]
