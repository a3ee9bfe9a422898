"""wean_fairseq: paraphrase-oriented text generation as a fairseq plugin.

Importing it registers everything with fairseq, at once or as soon as fairseq is imported: see ``registration``.
"""

import importlib
from typing import Any

from . import errors, registration

__version__ = "0.1.0"
__all__ = ["criterions", "models", "optim", "tasks"]

errors.install_error_reports()
registration.register_in_time()


def __getattr__(name: str) -> Any:
    """Import a part of the package when it is first asked for (PEP 562)."""
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
